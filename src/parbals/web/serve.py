"""Starting and ending the server.

The cookie that opens the page holds the token, and cookies do not know ports: another server on
this machine that is opened in the same browser could read it.
"""

import asyncio
import ipaddress
import socket
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from parbals.errors import InputError, MissingDependencyError
from parbals.store.store import Store
from parbals.web.page_files import hold_lock, page_token

__all__ = ["listen", "run_server"]


def run_server(
    folder: Path, *, host: str, port: int, browser: bool, new_token: bool, settings: dict[str, Any]
) -> None:
    """Show the project until Ctrl-C."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "The labelling page needs: pip install fastapi uvicorn"
        ) from None
    with Store.open(folder) as store:  # first of all: is there a sound project that can be written?
        if not store.n_items:
            raise InputError(f"The project in {folder} has no items yet.")
    with hold_lock(folder), listen(host, port) as listener, suppress(KeyboardInterrupt):
        with Store.open(folder) as store:
            store.update_settings(**settings)
        token = page_token(folder, new=new_token)
        _show(folder, listener, host, listener.getsockname()[1], token, browser)
    click.echo("Stopped; every confirmed label is stored.")


def _show(
    folder: Path, listener: socket.socket, host: str, port: int, token: str, browser: bool
) -> None:
    import uvicorn

    from parbals.web.app import make_app
    from parbals.web.page import Page

    page = Page(folder)
    page.open()
    try:
        config = uvicorn.Config(
            make_app(page, token=token, port=port, names=_names(host)),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
            lifespan="on",
        )
        server = uvicorn.Server(config)
        begin = server.startup

        async def begin_and_tell(sockets: list[socket.socket] | None = None) -> None:
            await begin(sockets=sockets)
            _announce(
                _link(host, port, token), browser, host
            )  # the link works from here on, and so does Ctrl-C

        server.startup = begin_and_tell  # type: ignore[method-assign]
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        page.close()


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
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(
            f"The server cannot listen on {host}, port {port} ({error.strerror}); choose another "
            "with --port."
        ) from None
    return listener


def _names(host: str) -> tuple[str, ...]:
    """Host names, besides localhost and its addresses, by which requests may call the server; the
    link's is first.

    A server on every address is called by the machine's name, or by the address a request came to.
    """
    address = _address(host)
    return (socket.gethostname(),) if not host or (address and address.is_unspecified) else (host,)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _link(host: str, port: int, token: str) -> str:
    shown = _names(host)[0]
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/?token={token}"


def _announce(link: str, browser: bool, host: str) -> None:
    click.echo(f"The labelling page: {link}\nEnd with Ctrl-C.")
    address = _address(host)
    if not (host == "localhost" if address is None else address.is_loopback):
        click.echo(
            "Everybody who can reach this machine and has the link can label; the way there is not "
            "encrypted."
        )
    if browser:
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
