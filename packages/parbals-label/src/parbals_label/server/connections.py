"""Every server we start: how many connections it has, and how long one may keep it waiting.

A connection that sends half a request, or does not read what it asked for, costs a file
descriptor, and a machine has few. So the head of a request has ten seconds, and an answer must be
read; and where there are too many connections, the one that has kept the server waiting longest
makes room for the new one. Whoever has a whole request to send is therefore served at once, however
many others have not. Encryption is a proxy's work.
"""

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from parbals.errors import InputError
from uvicorn.protocols.http.h11_impl import H11Protocol

from parbals_label.server.logs import LOGGERS, SPARING

__all__ = ["listen", "make_server"]

MOST_CONNECTIONS = 500
HEAD_SECONDS = 10.0
"""Time for the head of a request."""
READ_SECONDS = 60.0
"""Time for a client to read the next part of an answer: 64 KiB."""
_BACKLOG = 128
"""Connections that are accepted in one go, before the oldest can make room."""


def make_server(app: Any) -> uvicorn.Server:
    """The server of an application, which does not listen yet."""
    config = uvicorn.Config(
        app,
        proxy_headers=False,  # the application decides whom to believe
        log_config=None,  # see parbals_label.server.logs
        access_log=False,
        server_header=False,
        http=_limited(),
        loop="none",  # Python's own, whatever is installed: one behaviour for everybody
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


def _limited() -> type["_LimitedConnection"]:
    """The protocol of one server, with as many connections as this process can well have."""
    limits = {"most": _affordable(), "head_seconds": HEAD_SECONDS, "read_seconds": READ_SECONDS}
    return type("LimitedConnection", (_LimitedConnection,), {**limits, "silent": {}, "idle": {}})


class _LimitedConnection(H11Protocol):
    """One connection; its class knows those of its server that are waited for, longest first.

    ``silent`` have not sent a whole request yet, its body included (for which the guard has a
    deadline of its own), or do not read the answer; ``idle`` have been answered and may ask again.
    """

    most: int
    head_seconds: float
    read_seconds: float
    silent: dict["_LimitedConnection", None]
    idle: dict["_LimitedConnection", None]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.connections.add(self)
        self._wait(self.head_seconds)
        if len(self.connections) > self.most:
            longest = next(iter(self.silent))
            (longest if longest is not self else next(iter(self.idle), self)).leave()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.flow.write_paused:  # a client that does not read gains nothing by asking again
            return
        if not self._is_served():
            if self._deadline is None:
                self._wait(self.head_seconds)
            return
        self._stop_waiting()
        if not self.cycle.more_body:
            self._forget()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(self.read_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget()
        self._rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which may begin with the next request at once
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def leave(self) -> None:
        """Close the connection at once, to make room."""
        self._forget()
        self.connections.discard(self)
        self.transport.abort()

    def _is_served(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, self.leave)
        self.silent.setdefault(self)

    def _rest(self) -> None:
        if not self._is_served():
            self.idle[self] = None

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget(self) -> None:
        """Stop waiting for a client that is served now, or gone."""
        self._stop_waiting()
        self.silent.pop(self, None)
        self.idle.pop(self, None)


def _affordable() -> int:
    """A third of the files that the process may open: an image on its way to somebody is one more.

    The project and its worker need some, too.
    """
    try:
        import resource
    except ImportError:  # Windows has another limit, which is higher
        return MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft < 0 else max(20, min(MOST_CONNECTIONS, soft // 3))
