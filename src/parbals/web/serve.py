"""Starting and ending the server."""

import asyncio
import ipaddress
import logging
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import uvicorn

from parbals.errors import InputError, ProjectError
from parbals.files import locked
from parbals.store.store import Store
from parbals.web.app import make_app
from parbals.web.connections import limited
from parbals.web.health import Watch
from parbals.web.session import Session
from parbals.web.sparing import LOGGERS, SPARING
from parbals.web.token import page_token

__all__ = ["link_to", "listen", "make_server", "run_server"]

_BACKLOG = 128
"""Connections that are accepted in one go, before the oldest can make room."""


def run_server(
    folder: Path, *, host: str, port: int, browser: bool, new_token: bool, settings: dict[str, Any]
) -> None:
    """Show the project until Ctrl-C."""
    with Store.open(folder) as store:  # first of all: is there a sound project that can be written?
        _ = store.settings  # refused where somebody has made them to harm
        if not store.n_items:
            raise InputError(f"The project in {folder} has no items yet.")
    busy = ProjectError(
        f"Another server already shows the project in {folder}; use its page, or stop it first."
    )
    with ExitStack() as held, suppress(KeyboardInterrupt):
        with _writing(folder):
            held.enter_context(locked(folder / "page.lock", busy))
        listener = held.enter_context(listen(host, port))
        with Store.open(folder) as store:
            store.update_settings(**settings)
        with _writing(folder):
            token = page_token(folder, new=new_token)
        _show(folder, listener, host, token, browser)
    click.echo("Stopped; every confirmed label is stored.")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ProjectError(
            f"{error.filename or folder} cannot be written ({error.strerror}); the page needs a "
            "folder that it can write to."
        ) from None


def _show(folder: Path, listener: socket.socket, host: str, token: str, browser: bool) -> None:
    port = listener.getsockname()[1]
    session = Session(folder)
    session.open()
    try:
        server = make_server(session, host=host, port=port, token=token)
        begin = server.startup

        async def begin_and_announce(sockets: list[socket.socket] | None = None) -> None:
            await begin(sockets=sockets)
            # The link works from here on, and so does Ctrl-C.
            _announce(link_to(host, port, token), browser, host)

        server.startup = begin_and_announce  # type: ignore[method-assign]
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        session.close()


def make_server(session: Session, *, host: str, port: int, token: str) -> uvicorn.Server:
    """The server of an open project, which does not listen yet."""
    config = uvicorn.Config(
        Watch(
            make_app(session, token=token, port=port, names=_names(host)),
            session,
            page_token(session.folder, name="page-metrics-token"),
        ),
        log_config=None,  # see parbals.web.logs
        access_log=False,
        server_header=False,
        http=limited(),
        ws="none",
        backlog=_BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        lifespan="on",
    )
    for name in LOGGERS:
        logging.getLogger(name).addFilter(SPARING)
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, or one sentence why not."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"{host} is not an address of this machine ({error.strerror}).") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(
            f"The server cannot listen on {host}, port {port} ({error.strerror}); choose another "
            "with --port."
        ) from None
    return listener


def _names(host: str) -> tuple[str, ...]:
    """Names, besides localhost and its addresses, that requests may use; the link uses the first.

    A server on every address is called by the machine's name, or by the address a request came to.
    """
    address = _address(host)
    return (socket.gethostname(),) if not host or (address and address.is_unspecified) else (host,)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def link_to(host: str, port: int, token: str) -> str:
    """The address that opens the page."""
    shown = _names(host)[0]
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/?token={token}"


def _announce(link: str, browser: bool, host: str) -> None:
    click.echo(f"The labelling page: {link}\nEnd with Ctrl-C.")
    address = _address(host)
    if not (host == "localhost" if address is None else address.is_loopback):
        click.echo(
            "Anyone who can reach this machine and has the link can label; the connection is not "
            "encrypted."
        )
    if browser:
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
