"""The server of the page: its application, static files, and how it is started."""

import asyncio
import re
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import uvicorn
from fastapi import FastAPI, Response
from parbals import __version__
from parbals.errors import InputError, ProjectError
from starlette.exceptions import HTTPException

from parbals_label.files import locked
from parbals_label.server import connections
from parbals_label.store.people import OWNER
from parbals_label.store.store import Store
from parbals_label.web.address import PageAddress, parse_ip
from parbals_label.web.door import Door
from parbals_label.web.guard import Guard
from parbals_label.web.health import Watch
from parbals_label.web.labelling import labelling_routes
from parbals_label.web.page_files import is_copied, opening_file, page_token, remember_address
from parbals_label.web.proxy_check import OPEN_PROXY, proxy_is_open
from parbals_label.web.refusals import handle_errors
from parbals_label.web.session import Session
from parbals_label.web.team import team_routes
from parbals_label.web.viewing import viewing_routes

__all__ = [
    "add_static",
    "make_app",
    "make_server",
    "open_browser",
    "run_listening",
    "run_server",
    "serving",
    "warn_of_reach",
]

_STATIC = Path(__file__).with_name("static")
_STATIC_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_MAX_NAMES = 5
_SWITCH_SECONDS = 0.001
"""The interpreter's switch interval: a label waits no longer for an export in another thread."""


def run_server(folder: Path, *, address: PageAddress, browser: bool, new_token: bool) -> None:
    """Serve the project until Ctrl-C."""
    with Store.open(folder) as store:  # first check that the project is sound and writable
        _ = store.settings  # raises an error for invalid settings
        if not store.n_items:
            raise InputError(f"The project in {folder} has no items yet.")
    busy = f"Another server already serves the project in {folder}; use its page, or stop it first."
    with serving(folder, address, busy, new_token) as (listener, address, token):
        with writing(folder):
            remember_address(folder, address)
        switch_interval = sys.getswitchinterval()
        session = Session(folder)
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            session.open()
            server = make_server(session, address=address, token=token)
            run_listening(server, listener, lambda: _announce(folder, address, token, browser))
        finally:
            session.close()
            sys.setswitchinterval(switch_interval)


@contextmanager
def serving(
    folder: Path, address: PageAddress, busy: str, new_token: bool
) -> Iterator[tuple[socket.socket, PageAddress, str]]:
    """Lock a folder until Ctrl-C; yields the socket, the address with its port, and the token."""
    with ExitStack() as resources, suppress(KeyboardInterrupt):
        with writing(folder):
            resources.enter_context(locked(folder / "page.lock", ProjectError(busy)))
        listener = resources.enter_context(connections.listen(address.host, address.port))
        with writing(folder):
            if is_copied(folder):
                click.echo(
                    f"{folder} is a copy, or came from somebody else, so the page gets a new link. "
                    "People who were invited before keep theirs (parbals team list, parbals team "
                    "revoke).",
                    err=True,
                )
            token = page_token(folder, new=new_token)
        resources.callback((folder / "page-open.html").unlink, missing_ok=True)
        yield listener, replace(address, port=listener.getsockname()[1]), token
    click.echo("Stopped; every confirmed label is stored.")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn errors of writing the folder's files into a ProjectError."""
    try:
        yield
    except OSError as error:
        raise ProjectError(
            f"{error.filename or folder} cannot be written ({error.strerror}); the page needs a "
            "folder that it can write to."
        ) from None


def run_listening(
    server: uvicorn.Server, listener: socket.socket, announce: Callable[[], None]
) -> None:
    """Serve until Ctrl-C; ``announce`` is called once the link works."""
    startup = server.startup

    async def startup_and_announce(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets=sockets)
        announce()

    server.startup = startup_and_announce  # type: ignore[method-assign]
    asyncio.run(server.serve(sockets=[listener]))


def make_server(session: Session, *, address: PageAddress, token: str) -> uvicorn.Server:
    """Return the server of an open project, which does not listen yet."""
    metrics_token = page_token(session.folder, name="page-metrics-token")
    app = Watch(make_app(session, token=token, address=address), session, metrics_token)
    return connections.make_server(app)


def make_app(session: Session, *, token: str, address: PageAddress) -> Guard:
    """Return the guarded application of an open project; ``token`` is that of the page's link."""
    door = Door(session.desk, token)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await session.start()
        try:
            yield
        finally:
            await session.stop()

    app = FastAPI(
        title="parbals",
        summary="The labelling page's interface; 200 for a label means that it is on disk.",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    handle_errors(app)
    # Not include_router, which would search every router again for every request.
    for router in (
        labelling_routes(session, door),
        viewing_routes(session),
        team_routes(session, door, address),
    ):
        app.router.routes.extend(router.routes)
    add_static(app)
    return Guard(app, door=door, address=address)


def add_static(app: Any, folder: Path = _STATIC, index: str = "index.html") -> None:
    """Serve the page's static files; only plain names are allowed, to prevent path traversal."""

    def read(name: str) -> Response:
        path = folder / name
        media_type = _MEDIA_TYPES.get(path.suffix)
        if _STATIC_NAME.fullmatch(name) is None or media_type is None or not path.is_file():
            raise HTTPException(404, "There is no such page")
        return Response(path.read_bytes(), media_type=media_type)

    @app.get("/", include_in_schema=False)
    async def first() -> Response:
        return read(index)

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str) -> Response:
        return read(name)


def _announce(folder: Path, address: PageAddress, token: str, browser: bool) -> None:
    """Print the link of the page and who was invited, and open a browser."""
    link = address.link(token)
    with Store.open(folder, read_only=True) as store:
        invited = [person for person in store.people() if person.invited]
    if address.public is None:
        click.echo(f"The labelling page: {link}\nEnd with Ctrl-C.")
    else:  # a service's output is kept in logs, which must not contain the token
        click.echo(f"The labelling page: {address.origin}\nEnd with Ctrl-C.")
        if not any(person.role == OWNER for person in invited):
            click.echo(f"A link for yourself: `parbals team invite {folder} YOU --role owner`.")
    if invited:
        names = ", ".join(f"{p.name} ({p.role})" for p in invited[:_MAX_NAMES])
        more = f" and {len(invited) - _MAX_NAMES} more" if len(invited) > _MAX_NAMES else ""
        click.echo(f"Invited: {names}{more}.")
    warn_of_reach(address)
    if browser:
        open_browser(folder, link)


def warn_of_reach(address: PageAddress) -> None:
    """Print a warning if others can reach the page without encryption, or without a login."""
    if address.user_header is not None:
        threading.Thread(target=_warn_of_open_proxy, args=(address,), daemon=True).start()
    ip = parse_ip(address.host)
    is_local = address.host == "localhost" if ip is None else ip.is_loopback
    if not is_local and address.public is None:
        click.echo("Anyone who can reach this machine and has the link can label.")
        click.echo("The connection is not encrypted; use a proxy with HTTPS (--public-url).")


def _warn_of_open_proxy(address: PageAddress) -> None:
    """Ask the proxy as a stranger would; in a thread, because it may not run yet."""
    if proxy_is_open(address):
        message = OPEN_PROXY.format(origin=address.origin, header=address.user_header)
        click.secho(message, err=True, fg="red", bold=True)


def open_browser(folder: Path, link: str) -> None:
    """Open the link in a browser without showing its token in the list of processes."""
    page = opening_file(folder, link).absolute().as_uri()
    threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
