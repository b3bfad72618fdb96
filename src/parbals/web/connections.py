"""Connections to the server: how many there may be, and how long one may keep it waiting.

A connection that sends half a request, or nothing, costs a file descriptor, and a machine has few.
So the head of a request must arrive within ten seconds; and where there are too many connections,
the one that has kept the server waiting longest makes room for the new one. Whoever has a whole
request to send is therefore served at once, however many others have not.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "MOST_CONNECTIONS", "LimitedConnection", "limited"]

MOST_CONNECTIONS = 500
HEAD_SECONDS = 10.0
"""In which the head of a request must arrive."""


def limited() -> type["LimitedConnection"]:
    """The protocol of one server, with as many connections as this process can well have."""
    limits = {"most": _affordable(), "head_seconds": HEAD_SECONDS}
    return type("LimitedConnection", (LimitedConnection,), {**limits, "silent": {}, "idle": {}})


class LimitedConnection(H11Protocol):
    """One connection; its class knows those of its server that are waited for, longest first.

    ``silent`` have not sent a whole request yet, its body included (for which the guard has a
    deadline of its own); ``idle`` have been answered and may ask again.
    """

    most: int
    head_seconds: float
    silent: dict["LimitedConnection", None]
    idle: dict["LimitedConnection", None]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.silent[self] = None
        self._expect_head()
        if len(self.connections) > self.most:
            (next(iter(self.silent)) if self.silent else next(iter(self.idle))).leave()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_served():
            if self._deadline is None:
                self._expect_head()
            return
        self._stop_waiting()
        if not self.cycle.more_body:
            self._forget()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which may begin with the next request at once
        if not self._is_served() and not self.transport.is_closing():
            self.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def leave(self) -> None:
        """Make room, now."""
        self._forget()
        self.connections.discard(self)
        self.transport.abort()

    def _is_served(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self.leave)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget(self) -> None:
        """It is served now, or gone."""
        self._stop_waiting()
        self.silent.pop(self, None)
        self.idle.pop(self, None)


def _affordable() -> int:
    """Half of the files that the process may open: the project and its worker need some, too."""
    try:
        import resource
    except ImportError:  # Windows has another limit, which is higher
        return MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft < 0 else max(20, min(MOST_CONNECTIONS, soft // 2))
