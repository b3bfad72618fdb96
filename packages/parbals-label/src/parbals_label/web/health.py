"""Around the guarded application: ids and times of requests, ``/healthz`` and ``/metrics``.

``/healthz`` needs no token and says one word. ``/metrics`` needs a token of its own, which opens
nothing else: that of the file ``page-metrics-token`` in the project's folder. Neither looks at the
name that the server is called by: probes call it by addresses, and other sites' pages, which that
check is against, have no token.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from parbals.errors import ParbalsError

from parbals_label.web.logs import REQUEST, REQUESTS
from parbals_label.web.metrics import CONTENT_TYPE, Requests, render
from parbals_label.web.session import Session

__all__ = ["Watch"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("parbals.web")
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PATIENCE = 5.0
_FRESH = 1.0
_ALWAYS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Watch:
    """Pure ASGI middleware around ``app``; ``metrics_token`` opens ``/metrics``."""

    def __init__(self, app: Any, session: Session, metrics_token: str) -> None:
        self.app, self.session, self.requests = app, session, Requests()
        self._token = f"Bearer {metrics_token}".encode()
        self._healthy_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, number = time.perf_counter(), 0, _request_id(scope)
        REQUEST.set(number.decode())

        async def marked(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", number)]
            await send(message)

        try:
            if scope["path"] == "/healthz":
                await self._health(scope, marked)
            elif scope["path"] == "/metrics":
                await self._metrics(scope, marked)
            else:
                await self.app(scope, receive, marked)
        finally:
            seconds = time.perf_counter() - began
            self.requests.add(_route(scope), status, seconds)
            if REQUESTS.isEnabledFor(logging.INFO):
                facts = {"method": scope["method"], "path": scope["path"], "status": status}
                facts |= {"ms": round(1000 * seconds, 1), "client": (scope.get("client") or "?")[0]}
                REQUESTS.info("request", extra={"facts": facts})

    async def _health(self, scope: Scope, send: Send) -> None:
        """200 while the project can be read; how it goes with the worker is for ``/metrics``."""
        is_well = scope["method"] in ("GET", "HEAD")
        if is_well and time.monotonic() > self._healthy_until:
            try:
                await asyncio.wait_for(
                    self.session.desk.read(lambda store: store.settings_mark()), _PATIENCE
                )
                self._healthy_until = time.monotonic() + _FRESH
            except (ParbalsError, TimeoutError) as error:
                _log.warning("The project cannot be read", extra={"facts": {"reason": str(error)}})
                is_well = False
        word = b"ok" if is_well else b"unavailable"
        await _answer(scope, send, 200 if is_well else 503, b"text/plain", word + b"\n")

    async def _metrics(self, scope: Scope, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or not secrets.compare_digest(given[0], self._token):
            body = b"Send the token of the project's file page-metrics-token as a bearer token.\n"
            await _answer(scope, send, 401, b"text/plain", body, (b"www-authenticate", b"Bearer"))
            return
        try:
            text = await render(self.session, self.requests)
        except ParbalsError as error:
            await _answer(scope, send, 503, b"text/plain", f"{error}\n".encode())
            return
        await _answer(scope, send, 200, CONTENT_TYPE.encode(), text.encode())


def _request_id(scope: Scope) -> bytes:
    """The id that a proxy gave the request, where it is a plain word; else one of ours."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(value):
            return bytes(value)
    return secrets.token_hex(8).encode()


def _route(scope: Scope) -> str:
    """What answered, from a short list: an address that nobody knows must not make a metric."""
    if scope["path"] in ("/healthz", "/metrics"):
        return str(scope["path"][1:])
    return getattr(scope.get("endpoint"), "__name__", "refused")


async def _answer(
    scope: Scope, send: Send, status: int, kind: bytes, body: bytes, *more: tuple[bytes, bytes]
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    headers += [*_ALWAYS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
