"""Limits of a server's connections: their number, and how long a slow client may take.

A client that sends half a request, or does not read its response, occupies a file descriptor, and a
process has few. So the head of a request must arrive within ten seconds, and a response must be
read. At the limit of connections, a new one replaces the one that has kept the server waiting
longest. A client that sends a complete request is therefore served at once, however many slow
clients there are. TLS is left to a proxy.
"""

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from parbals.errors import InputError
from uvicorn.protocols.http.h11_impl import H11Protocol

from parbals_label.server.logs import LOGGERS, RATE_LIMIT

__all__ = ["listen", "make_server"]

MAX_CONNECTIONS = 500
HEAD_SECONDS = 10.0
"""Time for the head of a request."""
READ_SECONDS = 60.0
"""Time for a client to read the next 64 KiB of a response."""
_BACKLOG = 128
"""Connections that the system accepts before the server can close the oldest."""


def make_server(app: Any) -> uvicorn.Server:
    """Return a server of an application, which does not listen yet."""
    config = uvicorn.Config(
        app,
        proxy_headers=False,  # the guard decides which proxy to trust
        log_config=None,  # see parbals_label.server.logs
        access_log=False,
        server_header=False,
        http=_limited_protocol(),
        loop="none",  # asyncio's event loop, whatever else is installed
        ws="none",
        backlog=_BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        lifespan="on",
    )
    for name in LOGGERS:
        logging.getLogger(name).addFilter(RATE_LIMIT)
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and port, or raise an error that says why not."""
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


def _limited_protocol() -> type["_LimitedConnection"]:
    """Return the protocol class of one server, with its limits and its own connections."""
    attributes = {
        "max_connections": _affordable_connections(),
        "head_seconds": HEAD_SECONDS,
        "read_seconds": READ_SECONDS,
        "silent": {},
        "idle": {},
    }
    return type("LimitedConnection", (_LimitedConnection,), attributes)


class _LimitedConnection(H11Protocol):
    """One connection. Its class holds the connections that the server waits for, longest first.

    ``silent`` connections have not sent a complete request yet, including its body (for which the
    guard has its own deadline), or do not read the response. ``idle`` connections were answered and
    may send another request.
    """

    max_connections: int
    head_seconds: float
    read_seconds: float
    silent: dict["_LimitedConnection", None]
    idle: dict["_LimitedConnection", None]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.connections.add(self)
        self._start_deadline(self.head_seconds)
        if len(self.connections) > self.max_connections:
            longest_waiting = next(iter(self.silent))
            if longest_waiting is self:
                longest_waiting = next(iter(self.idle), self)
            longest_waiting.abort()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.flow.write_paused:  # a client that does not read gets no more time by sending
            return
        if not self._is_served():
            if self._deadline is None:
                self._start_deadline(self.head_seconds)
            return
        self._cancel_deadline()
        if not self.cycle.more_body:
            self._stop_tracking()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_deadline(self.read_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_tracking()
        self._mark_idle()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # may start the next request at once
        self._mark_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_tracking()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once."""
        self._stop_tracking()
        self.connections.discard(self)
        self.transport.abort()

    def _is_served(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_deadline(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self.abort)
        self.silent.setdefault(self)

    def _mark_idle(self) -> None:
        if not self._is_served():
            self.idle[self] = None

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_tracking(self) -> None:
        """Stop waiting for a client that is being served or has left."""
        self._cancel_deadline()
        self.silent.pop(self, None)
        self.idle.pop(self, None)


def _affordable_connections() -> int:
    """Return a third of the files that the process may open.

    Each connection may need a second file, for an image, and the project needs some as well.
    """
    try:
        import resource
    except ImportError:  # Windows has a different limit, which is higher
        return MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 0:
        return MAX_CONNECTIONS
    return max(20, min(MAX_CONNECTIONS, soft // 3))
