"""The page's server: its routes, its files, the guard in front of both, and how it runs."""

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
from parbals_label.web.door import Door
from parbals_label.web.guard import Guard
from parbals_label.web.health import Watch
from parbals_label.web.labelling import labelling_routes
from parbals_label.web.place import (
    Place,
    address_of,
    is_copied,
    opening_file,
    page_token,
    remember_address,
)
from parbals_label.web.refusals import handle_errors
from parbals_label.web.session import Session
from parbals_label.web.team import team_routes
from parbals_label.web.viewing import viewing_routes

__all__ = ["add_static", "make_app", "make_server", "open_browser", "run_listening", "run_server"]
__all__ += ["showing", "warn_of_reach"]

_STATIC = Path(__file__).with_name("static")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FEW = 5
_TURN_SECONDS = 0.001
"""A label waits no longer for a thread that reads everything, such as an export."""


def run_server(folder: Path, *, place: Place, browser: bool, new_token: bool) -> None:
    """Show the project until Ctrl-C."""
    with Store.open(folder) as store:  # first of all: is there a sound project that can be written?
        _ = store.settings  # harmful settings are refused
        if not store.n_items:
            raise InputError(f"The project in {folder} has no items yet.")
    busy = f"Another server already shows the project in {folder}; use its page, or stop it first."
    with showing(folder, place, busy, new_token) as (listener, place, token):
        with writing(folder):
            remember_address(folder, place)
        before, session = sys.getswitchinterval(), Session(folder)
        sys.setswitchinterval(_TURN_SECONDS)
        try:
            session.open()
            server = make_server(session, place=place, token=token)
            run_listening(server, listener, lambda: _announce(folder, place, token, browser))
        finally:
            session.close()
            sys.setswitchinterval(before)


@contextmanager
def showing(
    folder: Path, place: Place, busy: str, new_token: bool
) -> Iterator[tuple[socket.socket, Place, str]]:
    """Hold a folder until Ctrl-C: the socket, the place with its port, and the token."""
    with ExitStack() as held, suppress(KeyboardInterrupt):
        with writing(folder):
            held.enter_context(locked(folder / "page.lock", ProjectError(busy)))
        listener = held.enter_context(connections.listen(place.host, place.port))
        with writing(folder):
            if is_copied(folder):
                click.echo(
                    f"{folder} is a copy, or came from somebody else: the page gets a new link. "
                    "People who were invited before keep theirs (parbals team list, parbals team "
                    "revoke).",
                    err=True,
                )
            token = page_token(folder, new=new_token)
        held.callback((folder / "page-open.html").unlink, missing_ok=True)
        yield listener, replace(place, port=listener.getsockname()[1]), token
    click.echo("Stopped; every confirmed label is stored.")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Errors of the folder's files as one sentence."""
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
    begin = server.startup

    async def begin_and_announce(sockets: list[socket.socket] | None = None) -> None:
        await begin(sockets=sockets)
        announce()

    server.startup = begin_and_announce  # type: ignore[method-assign]
    asyncio.run(server.serve(sockets=[listener]))


def make_server(session: Session, *, place: Place, token: str) -> uvicorn.Server:
    """The server of an open project, which does not listen yet."""
    metrics_token = page_token(session.folder, name="page-metrics-token")
    app = Watch(make_app(session, token=token, place=place), session, metrics_token)
    return connections.make_server(app)


def make_app(session: Session, *, token: str, place: Place) -> Guard:
    """The guarded application of an open project, found at a place; ``token`` opens it."""
    door = Door(session.desk, token)

    @asynccontextmanager
    async def alive(app: FastAPI) -> AsyncIterator[None]:
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
        lifespan=alive,
    )
    handle_errors(app)
    # Not include_router, which looks through every part again for every request.
    for part in (
        labelling_routes(session, door),
        viewing_routes(session),
        team_routes(session, door, place),
    ):
        app.router.routes.extend(part.routes)
    add_static(app)
    return Guard(app, door=door, place=place)


def add_static(app: Any, folder: Path = _STATIC, index: str = "index.html") -> None:
    """The page's own files: names are plain words, so that no path leads anywhere else."""

    def read(name: str) -> Response:
        path = folder / name
        kind = _TYPES.get(path.suffix)
        if _NAME.fullmatch(name) is None or kind is None or not path.is_file():
            raise HTTPException(404, "There is no such page")
        return Response(path.read_bytes(), media_type=kind)

    @app.get("/", include_in_schema=False)
    async def first() -> Response:
        return read(index)

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str) -> Response:
        return read(name)


def _announce(folder: Path, place: Place, token: str, browser: bool) -> None:
    link = place.link(token)
    with Store.open(folder, read_only=True) as store:
        invited = [person for person in store.people() if person.invited]
    if place.public is None:
        click.echo(f"The labelling page: {link}\nEnd with Ctrl-C.")
    else:  # what a service says is kept in logs, where no key belongs
        click.echo(f"The labelling page: {place.origin}\nEnd with Ctrl-C.")
        if not any(person.role == OWNER for person in invited):
            click.echo(f"A link for yourself: `parbals team invite {folder} YOU --role owner`.")
    if invited:
        names = ", ".join(f"{p.name} ({p.role})" for p in invited[:_FEW])
        more = f" and {len(invited) - _FEW} more" if len(invited) > _FEW else ""
        click.echo(f"Invited: {names}{more}.")
    warn_of_reach(place)
    if browser:
        open_browser(folder, link)


def warn_of_reach(place: Place) -> None:
    """Say who can reach the page, where that is not this machine alone."""
    address = address_of(place.host)
    is_near = place.host == "localhost" if address is None else address.is_loopback
    if not is_near and place.public is None:
        click.echo("Anyone who can reach this machine and has the link can label.")
        click.echo("The connection is not encrypted; a proxy would do that (--public-url).")


def open_browser(folder: Path, link: str) -> None:
    """Open the link, which would stand in the list of processes, for every user of the machine."""
    page = opening_file(folder, link).absolute().as_uri()
    threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
