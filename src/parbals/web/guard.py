"""Who may speak to the page: every request passes here before anything else sees it.

The server listens on this machine, but so do web pages from everywhere that are open in its
browsers. A request must name the server by one of its own names (DNS rebinding), must not come from
another site's page (request forgery), and must carry the token (other users and programs of the
machine). The browser keeps the token as a cookie, and cookies do not know ports: another server of
this machine that is opened in the same browser could read it.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from parbals.web.schemas import ErrorDetail, ErrorOut

__all__ = ["MOST_BYTES", "Guard", "error_body"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BYTES = 1_000_000
"""Longest body of a request."""
_BODY_SECONDS = 10.0
_CHANGING = ("POST", "PATCH")
_ONCE = (
    "host", "origin", "sec-fetch-site", "sec-fetch-mode", "authorization", "content-type",
)  # fmt: skip
_SITES = ("same-origin", "none", "same-site", "cross-site")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_LOCKED = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
    "content='width=device-width'><title>parbals</title><body><h1>This page needs its "
    "link</h1><p>Open the link that <code>parbals serve</code> printed; it ends in "
    "<code>?token=</code> and a long word.</p></body></html>"
)

_GO_ON = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
    "content='width=device-width'>"
    '<meta http-equiv="refresh" content="0;url=/"><link rel=icon href="data:,">'
    '<title>parbals</title><body><p><a href="/">Go on to the labelling page</a></p></body></html>'
)


class _RefusedError(Exception):
    def __init__(self, status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def error_body(code: str, message: str, **more: Any) -> bytes:
    """The JSON of an error, the same from every part of the server."""
    refusal = ErrorOut(error=ErrorDetail(code=code, message=message, **more))
    return refusal.model_dump_json(exclude_unset=True).encode()


class Guard:
    """Pure ASGI middleware; ``names`` are further host names that the server may be called by."""

    def __init__(
        self,
        app: Any,
        *,
        token: str,
        port: int,
        names: Iterable[str] = (),
        body_seconds: float = _BODY_SECONDS,
    ) -> None:
        self.app, self.token, self.port, self.body_seconds = app, token.encode(), port, body_seconds
        ours = ("127.0.0.1", "localhost", "::1")
        self.names = {_bracketed(name.lower()) for name in (*ours, *names)}
        self.cookie = f"parbals-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            await self._http(scope, receive, _hardened(scope, send))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = _single(scope["headers"])
            self._check_place(scope, headers)
            if scope["method"] not in ("GET", *_CHANGING):
                raise _RefusedError(
                    405, "method", "This method is not known here.", (b"allow", b"GET, POST, PATCH")
                )
            arriving = scope["method"] == "GET" and scope["path"] == "/"
            if arriving and self._is_token(
                parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
            ):
                await self._admit(send, headers.get("sec-fetch-site"))
                return
            self._check_token(scope, headers, arriving)
            body = await self._body(scope, headers, receive)
        except _RefusedError as refused:
            await _answer(scope, send, refused)
            return
        if body is not None:
            await self.app(scope, body, send)

    def _check_place(self, scope: Scope, headers: dict[str, str]) -> None:
        """The right name, and no other site behind it."""
        host = headers.get("host", "")
        if not self._is_ours(host, scope):
            raise _RefusedError(
                421, "host", "This server is not called by that name; use the link it printed."
            )
        origin = headers.get("origin")
        if origin is not None and not (
            origin.startswith("http://") and self._is_ours(origin.removeprefix("http://"), scope)
        ):
            raise _RefusedError(403, "origin", "Requests from other sites' pages are refused.")
        site = headers.get("sec-fetch-site")
        foreign = site is not None and site not in ("same-origin", "none")
        opening = (
            scope["method"] == "GET"
            and scope["path"] == "/"
            and headers.get("sec-fetch-mode", "navigate") == "navigate"
        )
        # A link in another page may lead here, to the door: without the token there is nothing to
        # see.
        if site is not None and (site not in _SITES or (foreign and not opening)):
            raise _RefusedError(403, "origin", "Requests from other sites' pages are refused.")

    def _is_ours(self, host: str, scope: Scope) -> bool:
        name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not colon:
            name, port = host, "80"
        if port != str(self.port):
            return False
        # A socket for IPv6 that takes IPv4 as well calls an address ::ffff:10.0.0.1 where the
        # browser says 10.0.0.1.
        local = str((scope.get("server") or ("",))[0]).removeprefix("::ffff:")
        return name.lower() in self.names or name == _bracketed(local)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), self.token)

    def _check_token(self, scope: Scope, headers: dict[str, str], arriving: bool) -> None:
        bearer = headers.get("authorization")
        site = headers.get("sec-fetch-site")
        if bearer is not None:
            scheme, _, given = bearer.partition(" ")
            good = scheme.lower() == "bearer" and self._is_token(given.strip())
        else:
            good = self._is_token(self._cookie(headers.get("cookie", "")))
            if arriving and site in ("same-site", "cross-site"):
                good = False  # another site's link opens the door only with the token in it
            if (
                good
                and scope["method"] in _CHANGING
                and "origin" not in headers
                and site != "same-origin"
            ):
                raise _RefusedError(403, "origin", "A change must come from the page itself.")
        if not good:
            raise _RefusedError(
                401,
                "token",
                "The token is missing or no longer good; open the link that `parbals serve` "
                "printed.",
                (b"www-authenticate", b"Bearer"),
            )

    def _cookie(self, header: str) -> str:
        # By hand: cookies of other servers on this machine come along, and a parser may stumble
        # over them.
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

    async def _admit(self, send: Send, site: str | None) -> None:
        """Hand over the cookie and go on to the page.

        Where the link was clicked on another site (or the browser does not say where), a redirect
        would still count as that site's and come without the cookie; a page of our own that goes on
        does not.
        """
        rules = "Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
        cookie = f"{self.cookie}={self.token.decode()}; {rules}"
        headers = [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        status, body = 200, _GO_ON.encode()
        if site in ("none", "same-origin"):
            status, body = 303, b""
            headers.append((b"location", b"/"))
        else:
            headers.append((b"content-type", b"text/html; charset=utf-8"))
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _body(
        self, scope: Scope, headers: dict[str, str], receive: Receive
    ) -> Receive | None:
        """The whole body, within limits of size and time; None if the client left too early."""
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise _RefusedError(400, "length", "Content-Length is not a number.")
        if int(length) > MOST_BYTES:
            raise _RefusedError(413, "size", f"A request may have at most {MOST_BYTES:,} bytes.")
        if scope["method"] == "GET":
            if int(length) or "transfer-encoding" in headers:
                raise _RefusedError(400, "body", "A GET request takes no body.")
        else:
            kind, _, parameters = headers.get("content-type", "").partition(";")
            charset = parameters.strip().lower().replace('"', "")
            if (
                kind.strip().lower() != "application/json"
                or charset not in ("", "charset=utf-8")
                or "content-encoding" in headers
            ):
                raise _RefusedError(415, "type", "The body must be application/json in UTF-8.")
        parts, size, end = [], 0, time.monotonic() + self.body_seconds
        more = True
        while more:
            try:
                message = await asyncio.wait_for(receive(), end - time.monotonic())
            except TimeoutError:
                raise _RefusedError(
                    408, "slow", "The body took too long to arrive; try again."
                ) from None
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > MOST_BYTES:
                raise _RefusedError(
                    413, "size", f"A request may have at most {MOST_BYTES:,} bytes."
                )
        whole: bytes | None = b"".join(parts)

        async def replay() -> MutableMapping[str, Any]:
            nonlocal whole
            if whole is None:
                return await receive()
            body, whole = whole, None
            return {"type": "http.request", "body": body, "more_body": False}

        return replay


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; those that decide anything may come once only."""
    values: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in values and name in _ONCE:
            raise _RefusedError(400, "header", f"The header {name} came twice.")
        values[name] = f"{values[name]}; {value}" if name in values else value
    return values


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _hardened(scope: Scope, send: Send) -> Send:
    """Every answer tells browsers to trust it as little as possible."""
    lasting = scope["path"].startswith("/static/")

    async def wrapped(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            extra = [*_HEADERS, (b"cache-control", b"no-cache" if lasting else b"no-store")]
            message["headers"] = [
                *message["headers"],
                *(header for header in extra if header[0] not in names),
            ]
        await send(message)

    return wrapped


async def _answer(scope: Scope, send: Send, refused: _RefusedError) -> None:
    as_page = refused.status == 401 and not scope["path"].startswith("/api")
    body = _LOCKED.encode() if as_page else error_body(refused.code, refused.message)
    kind = b"text/html; charset=utf-8" if as_page else b"application/json"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        *refused.headers,
    ]
    if scope["method"] != "GET":
        headers.append((b"connection", b"close"))  # the rest of a body that nobody reads
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
