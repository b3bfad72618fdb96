"""The guard: every request passes here before anything else sees it.

The server listens on this machine, but so do web pages from everywhere that are open in its
browsers. A request must name the server by one of its own names (DNS rebinding), must not come from
another site's page (request forgery), and must show who makes it (other users and programs of the
machine): by a link's token, by a session, or, behind a proxy that logs people in, by that proxy's
word. What each of them may do is decided by the routes.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from parbals.errors import ParbalsError, ProjectDamagedError, ProjectError
from starlette.responses import HTMLResponse, Response
from starlette.types import Message, Receive, Scope, Send

from parbals_label.server.desk import BusyError
from parbals_label.web.door import Door, Visitor
from parbals_label.web.place import Place, address_of
from parbals_label.web.refusals import RefusedError, refusal

__all__ = ["KEY", "MOST_BYTES", "Guard"]

_log = logging.getLogger("parbals.web")

MOST_BYTES = 1_000_000
"""Longest body of a request."""
_DROPPED_BYTES, _LINGER_SECONDS = 8 * MOST_BYTES, 1.0
"""As much of a refused body is read, and as long, before the connection is closed."""
_BODY_SECONDS = 10.0
_MOST_COOKIES = 20
KEY = "x-parbals-key"
"""The header with the half of a session that the page keeps."""
_ENTER = "/static/js/enter.js"
_CHANGING = ("POST", "PATCH")
_ONCE = (
    "host", "origin", "sec-fetch-site", "sec-fetch-mode", "authorization", "content-type", KEY,
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
# A page of our own that goes on: where the link was clicked on another site, a redirect would still
# count as that site's, and come without the cookie. Its script keeps the key first.
_GO_ON = Path(__file__).with_name("pages").joinpath("enter.html").read_text("utf-8")


class Guard:
    """Pure ASGI middleware in front of an application at a place, with its door."""

    def __init__(
        self, app: Any, *, door: Door, place: Place, body_seconds: float = _BODY_SECONDS
    ) -> None:
        self.app, self.door, self.place, self.body_seconds = app, door, place, body_seconds
        self._once = {*_ONCE, place.user_header}

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
            headers = self._single(scope["headers"])
            self._check_place(scope, headers)
            if scope["method"] not in ("GET", *_CHANGING):
                allowed = "GET, POST, PATCH"
                raise RefusedError(405, "method", "This method is not known here.", allow=allowed)
            if _is_arriving(scope):
                token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
                guest = await self.door.by_link(token) if token else None
                if guest is not None:
                    guest = replace(guest, origin=self._origin(scope, headers))
                    page = await self._arrived(guest, token, headers)
                    await page(scope, receive, send)
                    return
            is_door = scope["path"] == _ENTER  # which asks before anybody is signed in
            visitor = None if is_door else await self._visitor(scope, headers)
            body = await _read_body(scope["method"], headers, receive, self.body_seconds)
        except (RefusedError, ParbalsError) as error:
            answer = refusal(scope["path"], _for_strangers(error))
            if scope["method"] == "GET":
                await answer(scope, receive, send)
            else:
                answer.headers["connection"] = "close"  # the rest of a body that nobody reads
                await answer(scope, receive, _lingering(receive, send))
            return
        if body is not None:
            scope["state"] = {**scope.get("state", {}), "visitor": visitor}
            await self.app(scope, body, send)

    def _check_place(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse requests to another server's name, and those from other sites' pages."""
        local = str((scope.get("server") or ("",))[0])
        if not self.place.is_host(headers.get("host", ""), local):
            raise RefusedError(
                421, "host", "This server is not called by that name; use the link it printed."
            )
        origin = headers.get("origin")
        if origin is not None and not self.place.is_origin(origin, local):
            raise RefusedError(403, "origin", "Requests from other sites' pages are refused.")
        site = headers.get("sec-fetch-site")
        foreign = site is not None and site not in ("same-origin", "none")
        opening = _is_arriving(scope) and headers.get("sec-fetch-mode", "navigate") == "navigate"
        # A link in another page may lead here, to the door: without the token there is nothing to
        # see.
        if site is not None and (site not in _SITES or (foreign and not opening)):
            raise RefusedError(403, "origin", "Requests from other sites' pages are refused.")

    async def _visitor(self, scope: Scope, headers: dict[str, str]) -> Visitor:
        """The visitor; a change by what a browser sends by itself must come from the page."""
        peer = str((scope.get("client") or ("",))[0])
        is_proxy = self.place.is_proxy(peer)
        named = headers.get(self.place.user_header or "", "").strip()
        if named:
            if not is_proxy:
                raise RefusedError(
                    403,
                    "header",
                    f"{self.place.user_header} is believed from the proxy alone, and {peer} is not "
                    "its address (--proxy).",
                )
            visitor = await self.door.by_name(named.encode("latin-1").decode("utf-8", "replace"))
            if visitor is None:
                raise RefusedError(403, "person", "Nobody has invited you; ask an owner to.")
        elif headers.get("authorization", "").lower().startswith("bearer "):
            visitor = await self.door.by_link(headers["authorization"][7:].strip())
        else:  # a password that a proxy asked for is nothing to us
            visitor = await self._by_cookie(scope, headers)
        if visitor is None:
            raise RefusedError(
                401,
                "token",
                "The link is missing or no longer good; open the one that `parbals serve` printed, "
                "or your own.",
                www_authenticate="Bearer",
            )
        is_ambient = named or visitor.session is not None
        is_ours = "origin" in headers or headers.get("sec-fetch-site") == "same-origin"
        if is_ambient and scope["method"] in _CHANGING and not is_ours:
            raise RefusedError(403, "origin", "A change must come from the page itself.")
        return replace(visitor, origin=self._origin(scope, headers))

    def _origin(self, scope: Scope, headers: dict[str, str]) -> str:
        """The address that a request came from, as far as the proxy tells."""
        peer = str((scope.get("client") or ("",))[0])
        forwarded = headers.get("x-forwarded-for", "").replace(";", ",").rpartition(",")[2].strip()
        return forwarded if self.place.is_proxy(peer) and address_of(forwarded) else peer

    async def _by_cookie(self, scope: Scope, headers: dict[str, str]) -> Visitor | None:
        if _is_arriving(scope) and headers.get("sec-fetch-site") in ("same-site", "cross-site"):
            return None  # another site's link opens the door only with the token in it
        host = headers["host"].lower()
        name = self.place.cookie(host)
        # By hand: cookies of other servers on this machine come along, and a parser may stumble
        # over them.
        parts = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        key = headers.get(KEY, "") if scope["path"].startswith("/api") else None
        # Another port may have set cookies of this name, for paths that come first.
        values = [value for found, _, value in parts if found == name and value]
        for cookie in values[:_MOST_COOKIES]:
            if (visitor := await self.door.by_session(cookie, key, host)) is not None:
                return visitor
        return None

    async def _arrived(self, guest: Visitor, token: str, headers: dict[str, str]) -> Response:
        """Begin a session, and go on to the page: the token is in no address after this one.

        Where another site has opened the link, the page's script asks first if somebody is signed
        in: otherwise a page from anywhere could sign a browser in as whom it likes.
        """
        if headers.get("sec-fetch-site") in ("same-site", "cross-site"):
            return HTMLResponse(_GO_ON.format(data=f'data-who="{escape(guest.name or "")}"'))
        key, cookie = await self.begin(guest, token, headers["host"].lower())
        return HTMLResponse(_GO_ON.format(data=f"data-key={key}"), headers={"Set-Cookie": cookie})

    async def begin(self, guest: Visitor, token: str, host: str) -> tuple[str, str]:
        """Begin a session: its key, and what a browser is told to keep as its cookie."""
        session, key = await self.door.start_session(guest, token, host)
        rules = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={self.door.session_seconds:.0f}"
        secure = "; Secure" if self.place.is_private(host) else ""
        return key, f"{self.place.cookie(host)}={session}; {rules}{secure}"

    def _single(self, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
        """Headers by name; those that decide anything may come once only."""
        values: dict[str, str] = {}
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name in values and name in self._once:
                raise RefusedError(400, "header", f"The header {name} came twice.")
            values[name] = f"{values[name]}; {value}" if name in values else value
        return values


def _for_strangers(error: RefusedError | ParbalsError) -> RefusedError | ParbalsError:
    """Who asks is not known yet: where the project lies, and what is in it, is not for them."""
    if not isinstance(error, ProjectError | ProjectDamagedError) or isinstance(error, BusyError):
        return error
    _log.warning("Nobody can be let in", extra={"facts": {"reason": str(error)}})
    words = "The project cannot be used just now; the server's log says why."
    is_damaged = isinstance(error, ProjectDamagedError)
    return ProjectDamagedError(words) if is_damaged else ProjectError(words)


def _is_arriving(scope: Scope) -> bool:
    return bool(scope["method"] == "GET" and scope["path"] == "/")


def _hardened(scope: Scope, send: Send) -> Send:
    """Every answer tells browsers to trust it as little as possible."""
    lasting = scope["path"].startswith("/static/")

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            extra = [*_HEADERS, (b"cache-control", b"no-cache" if lasting else b"no-store")]
            message["headers"] = [
                *message["headers"],
                *(header for header in extra if header[0] not in names),
            ]
        await send(message)

    return wrapped


def _lingering(receive: Receive, send: Send) -> Send:
    """The answer when the rest of the body has been read and dropped, or after a second.

    A proxy that still sends while an answer comes would lose the answer.
    """

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            left = _DROPPED_BYTES
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    more = True
                    while more and left > 0:
                        part = await receive()
                        left -= len(part.get("body", b""))
                        more = part.get("more_body", False)
        await send(message)

    return wrapped


async def _read_body(
    method: str, headers: dict[str, str], receive: Receive, seconds: float
) -> Receive | None:
    """The whole body, within limits of size and time; None if the client left too early."""
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise RefusedError(400, "length", "Content-Length is not a number.")
    too_large = RefusedError(413, "size", f"A request may have at most {MOST_BYTES:,} bytes.")
    if int(length) > MOST_BYTES:
        raise too_large
    if method == "GET":
        if int(length) or "transfer-encoding" in headers:
            raise RefusedError(400, "body", "A GET request takes no body.")
    else:
        kind, _, parameters = headers.get("content-type", "").partition(";")
        charset = parameters.strip().lower().replace('"', "")
        if (
            kind.strip().lower() != "application/json"
            or charset not in ("", "charset=utf-8")
            or "content-encoding" in headers
        ):
            raise RefusedError(415, "type", "The body must be application/json in UTF-8.")
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = message.get("more_body", False)
                if size > MOST_BYTES:
                    raise too_large
    except TimeoutError:
        raise RefusedError(408, "slow", "The body took too long to arrive; try again.") from None
    body = b"".join(parts)
    if not _is_text(body):
        raise RefusedError(400, "json", "The body is not JSON that can be read.")
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


def _is_text(body: bytes) -> bool:
    """Whether it is UTF-8; JSON with a zero byte would be read as UTF-16."""
    try:
        return "\x00" not in body.decode("utf-8")
    except UnicodeDecodeError:
        return False
