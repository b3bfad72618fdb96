"""Requests to other servers, by the standard library: no redirects, and a deadline for all of it.

Requests to this machine take no proxy: it would see them, with their key, unencrypted.

A timeout of a socket ends a silent server, not one that sends a byte at a time: while it connects,
in its headers or in its body. A :class:`Deadline` ends the request as a whole.
"""

import socket
import threading
import urllib.request
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import urlsplit

__all__ = ["Deadline", "is_local", "opener_without_redirects"]


def is_local(host: str | None) -> bool:
    """Whether the host of an address is this machine.

    >>> is_local("localhost"), is_local("127.0.0.2"), is_local("::1"), is_local("10.0.0.1")
    (True, True, True, False)
    """
    with suppress(ValueError):
        return host == "localhost" or ip_address(host or "").is_loopback
    return False


class Deadline:
    """Cuts the connections of a request that takes longer than ``seconds`` in all.

    Args:
        seconds: from entering the block until the answer has been read.

    Attributes:
        has_passed: whether the request was cut; then whatever was read is not complete.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.has_passed = False
        self._connections: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for connection in self._connections:
            connection.close()

    def open(
        self,
        opener: urllib.request.OpenerDirector,
        request: urllib.request.Request,
        timeout: float,
    ) -> Any:
        """Send a request by an opener of this module; returns the response."""
        request.deadline = self  # type: ignore[attr-defined]
        return opener.open(request, timeout=timeout)

    def watch(self, connection: socket.socket) -> None:
        """Cut this connection, too, once the time has passed.

        A duplicate is kept: encryption replaces the socket of a connection before its handshake.
        """
        self._connections.append(connection.dup())
        if self.has_passed:
            self._cut()

    def _cut(self) -> None:
        self.has_passed = True
        for connection in self._connections:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)


class _Connection(HTTPConnection):
    """A connection of which a request's deadline knows."""

    def __init__(self, *arguments: Any, deadline: Deadline, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline = deadline
        self._create_connection = self._connected

    def _connected(self, *arguments: Any) -> socket.socket:
        connection = socket.create_connection(*arguments)
        self._deadline.watch(connection)
        return connection


class _EncryptedConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections of which a request's deadline knows."""

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self._open(_Connection, request)

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self._open(_EncryptedConnection, request)

    def _open(self, kind: type[_Connection], request: urllib.request.Request) -> HTTPResponse:
        deadline: Deadline = request.deadline  # type: ignore[attr-defined]

        def connection(*arguments: Any, **options: Any) -> HTTPConnection:
            return kind(*arguments, deadline=deadline, **options)

        return self.do_open(connection, request)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would send a key to another server."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class _Proxies(urllib.request.ProxyHandler):
    """The proxies of the environment, for other machines only."""

    def proxy_open(self, request: urllib.request.Request, proxy: str, kind: str) -> Any:
        if is_local(urlsplit(request.full_url).hostname):
            return None
        return super().proxy_open(request, proxy, kind)


def opener_without_redirects() -> urllib.request.OpenerDirector:
    """An opener for :meth:`Deadline.open`; it answers a redirect by an ``HTTPError``."""
    return urllib.request.build_opener(_NoRedirect, _Handler, _Proxies)
