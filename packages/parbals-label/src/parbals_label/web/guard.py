"""The guard: middleware that checks every request before the application sees it.

Web pages from anywhere, open in a browser on this machine, can send requests to the server. So a
request must use one of the server's host names (against DNS rebinding), must not come from the page
of another site (against cross-site request forgery), and must be authenticated (against other users
and programs of the machine): by a link's token, by a session, or by a proxy that logs people in.
The routes decide what each visitor may do.
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
from parbals_label.web.address import PageAddress, parse_ip
from parbals_label.web.door import Door, Visitor
from parbals_label.web.page_texts import translated_page
from parbals_label.web.refusals import RefusedError, refusal

__all__ = ["KEY", "MAX_BODY_BYTES", "Guard"]

_log = logging.getLogger("parbals.web")

MAX_BODY_BYTES = 1_000_000
"""Largest body of a request."""
_MAX_DISCARDED_BYTES = 8 * MAX_BODY_BYTES
_DISCARD_SECONDS = 1.0
"""How much of a refused request's body is read, and how long, before the connection is closed."""
_BODY_SECONDS = 10.0
_MAX_COOKIES = 20
KEY = "x-parbals-key"
"""The header with the session's key (:mod:`parbals_label.web.door`)."""
_ENTER_SCRIPT = "/static/js/enter.js"
_WRITING_METHODS = ("POST", "PATCH")
_SINGLE_HEADERS = (
    "host", "origin", "sec-fetch-site", "sec-fetch-mode", "authorization", "content-type", KEY,
)  # fmt: skip
_FETCH_SITES = ("same-origin", "none", "same-site", "cross-site")

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_SECURITY_HEADERS = [
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
# The answer to a valid link: a page whose script stores the session's key and then opens "/". After
# an HTTP redirect, the browser would leave out the cookie if the link was clicked on another site.
_ENTER_PAGE = Path(__file__).with_name("pages").joinpath("enter.html").read_text("utf-8")


class Guard:
    """ASGI middleware in front of an application; ``door`` authenticates visitors."""

    def __init__(
        self, app: Any, *, door: Door, address: PageAddress, body_seconds: float = _BODY_SECONDS
    ) -> None:
        self.app = app
        self.door = door
        self.address = address
        self.body_seconds = body_seconds
        self._single_headers = {*_SINGLE_HEADERS, address.user_header}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_security_headers(scope, send))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = self._parse_headers(scope["headers"])
            self._check_origin(scope, headers)
            if scope["method"] not in ("GET", *_WRITING_METHODS):
                allowed = "GET, POST, PATCH"
                raise RefusedError(405, "method", "This method is not allowed.", allow=allowed)
            if _is_page_request(scope):
                link_visitor = await self._by_address(scope)
                if link_visitor is not None:
                    client = self._client_address(scope, headers)
                    newcomer = replace(link_visitor, origin=client)
                    page = await self._sign_in(newcomer, _token_in(scope), headers)
                    await page(scope, receive, send)
                    return
            is_public = scope["path"] == _ENTER_SCRIPT  # it runs before anybody is signed in
            visitor = None if is_public else await self._visitor(scope, headers)
            body = await _read_body(scope["method"], headers, receive, self.body_seconds)
        except (RefusedError, ParbalsError) as error:
            response = refusal(scope["path"], _without_details(error), _accepted_languages(scope))
            if scope["method"] == "GET":
                await response(scope, receive, send)
            else:
                response.headers["connection"] = "close"  # the rest of the body is not read
                await response(scope, receive, _after_discarding_body(receive, send))
            return
        if body is None:
            return
        if not _is_utf8(body):
            unreadable = RefusedError(400, "json", "The body is not JSON that can be read.")
            await refusal(scope["path"], unreadable)(scope, receive, send)
            return
        scope["state"] = {**scope.get("state", {}), "visitor": visitor}
        await self.app(scope, _replay(body, receive), send)

    async def admits(self, scope: Scope) -> bool:
        """Whether a request would reach the application; nothing is started for it."""
        try:
            headers = self._parse_headers(scope["headers"])
            self._check_origin(scope, headers)
            if _is_page_request(scope) and await self._by_address(scope) is not None:
                return True
            await self._visitor(scope, headers)
        except (RefusedError, ParbalsError):
            return False
        return True

    async def _by_address(self, scope: Scope) -> Visitor | None:
        """The visitor whose link was opened: its address holds the token."""
        token = _token_in(scope)
        return await self.door.by_link(token) if token else None

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse requests with another host name, and those from pages of other sites."""
        local = str((scope.get("server") or ("",))[0])
        if not self.address.is_host(headers.get("host", ""), local):
            raise RefusedError(
                421, "host", "This server has another host name; use the link that it printed."
            )
        origin = headers.get("origin")
        if origin is not None and not self.address.is_origin(origin, local):
            raise RefusedError(403, "origin", "Requests from other sites' pages are refused.")
        site = headers.get("sec-fetch-site")
        if site is None or site in ("same-origin", "none"):
            return
        # Other sites may link to the page: without the token there is nothing to see.
        is_navigation = headers.get("sec-fetch-mode", "navigate") == "navigate"
        is_link = _is_page_request(scope) and is_navigation
        if site not in _FETCH_SITES or not is_link:
            raise RefusedError(403, "origin", "Requests from other sites' pages are refused.")

    async def _visitor(self, scope: Scope, headers: dict[str, str]) -> Visitor:
        """Authenticate the visitor.

        Browsers add cookies, and a proxy adds its header, to requests of any page. A change that is
        authenticated in this way must therefore come from the page itself.
        """
        peer = str((scope.get("client") or ("",))[0])
        is_proxy = self.address.is_proxy(peer)
        user = headers.get(self.address.user_header or "", "").strip()
        if user:
            if not is_proxy:
                raise RefusedError(
                    403,
                    "header",
                    f"{self.address.user_header} is trusted from the proxy only, and {peer} is not "
                    "its address (--proxy).",
                )
            visitor = await self.door.by_name(user.encode("latin-1").decode("utf-8", "replace"))
            if visitor is None:
                raise RefusedError(
                    403, "person", "You have not been invited; ask an owner for an invitation."
                )
        elif headers.get("authorization", "").lower().startswith("bearer "):
            visitor = await self.door.by_link(headers["authorization"][7:].strip())
        else:  # other kinds of authorization are meant for a proxy
            visitor = await self._by_cookie(scope, headers)
        if visitor is None:
            raise RefusedError(
                401,
                "token",
                "The link is missing or no longer valid; open the link that `parbals serve` "
                "printed, or your personal link.",
                www_authenticate="Bearer",
            )
        is_automatic = user or visitor.session is not None
        is_from_page = "origin" in headers or headers.get("sec-fetch-site") == "same-origin"
        if is_automatic and scope["method"] in _WRITING_METHODS and not is_from_page:
            raise RefusedError(403, "origin", "A change must come from the page itself.")
        return replace(visitor, origin=self._client_address(scope, headers))

    def _client_address(self, scope: Scope, headers: dict[str, str]) -> str:
        """Return the IP address of the client; behind the proxy, the one that it forwards."""
        peer = str((scope.get("client") or ("",))[0])
        # The proxy appends the last entry; ";" joins several headers of this name.
        forwarded = headers.get("x-forwarded-for", "").replace(";", ",").rpartition(",")[2].strip()
        if self.address.is_proxy(peer) and parse_ip(forwarded):
            return forwarded
        return peer

    async def _by_cookie(self, scope: Scope, headers: dict[str, str]) -> Visitor | None:
        if _is_page_request(scope) and headers.get("sec-fetch-site") in ("same-site", "cross-site"):
            return None  # a link on another site must contain the token
        host = headers["host"].lower()
        name = self.address.cookie(host)
        # Parsed by hand: a parser may fail on cookies of other servers on this machine.
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        # Only requests of scripts can carry the key; other files contain nothing of the project.
        key = headers.get(KEY, "") if scope["path"].startswith("/api") else None
        # Other servers on this machine may have set cookies of this name, which may come first.
        values = [value for cookie_name, _, value in pairs if cookie_name == name and value]
        for cookie in values[:_MAX_COOKIES]:
            if (visitor := await self.door.by_session(cookie, key, host)) is not None:
                return visitor
        return None

    async def _sign_in(self, visitor: Visitor, token: str, headers: dict[str, str]) -> Response:
        """Start a session and redirect to the page, whose address does not contain the token.

        If another site has opened the link, no session is started yet: the page's script first asks
        a person who is signed in. Otherwise any site could sign a browser in as somebody else.
        """
        page = translated_page(_ENTER_PAGE, headers.get("accept-language", ""))
        if headers.get("sec-fetch-site") in ("same-site", "cross-site"):
            return HTMLResponse(page.replace("{data}", f'data-who="{escape(visitor.name or "")}"'))
        key, cookie = await self.begin(visitor, token, headers["host"].lower())
        return HTMLResponse(
            page.replace("{data}", f"data-key={key}"), headers={"Set-Cookie": cookie}
        )

    async def begin(self, visitor: Visitor, token: str, host: str) -> tuple[str, str]:
        """Start a session; returns its key and the Set-Cookie header."""
        session, key = await self.door.start_session(visitor, token, host)
        attributes = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={self.door.session_seconds:.0f}"
        secure = "; Secure" if self.address.is_https(host) else ""
        return key, f"{self.address.cookie(host)}={session}; {attributes}{secure}"

    def _parse_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
        """Return headers by name; those that matter for security may occur only once."""
        values: dict[str, str] = {}
        for raw_name, raw_value in headers:
            name = raw_name.decode("latin-1").lower()
            value = raw_value.decode("latin-1")
            if name in values and name in self._single_headers:
                raise RefusedError(400, "header", f"The header {name} came twice.")
            values[name] = f"{values[name]}; {value}" if name in values else value
        return values


def _without_details(error: RefusedError | ParbalsError) -> RefusedError | ParbalsError:
    """Hide where the project is and what it contains: the visitor is not authenticated yet."""
    if not isinstance(error, ProjectError | ProjectDamagedError) or isinstance(error, BusyError):
        return error
    _log.warning("No visitor can be authenticated", extra={"facts": {"reason": str(error)}})
    message = "The project cannot be used just now; see the server's log."
    if isinstance(error, ProjectDamagedError):
        return ProjectDamagedError(message)
    return ProjectError(message)


def _accepted_languages(scope: Scope) -> str:
    """The languages that the browser likes, as its header lists them."""
    values = (value for name, value in scope["headers"] if name.lower() == b"accept-language")
    return next(values, b"").decode("latin-1")


def _token_in(scope: Scope) -> str:
    """The token in the address of a request; empty without one."""
    return parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]


def _is_page_request(scope: Scope) -> bool:
    return bool(scope["method"] == "GET" and scope["path"] == "/")


def _with_security_headers(scope: Scope, send: Send) -> Send:
    """Add security headers to every response."""
    is_static = scope["path"].startswith("/static/")

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            extra = [
                *_SECURITY_HEADERS,
                (b"cache-control", b"no-cache" if is_static else b"no-store"),
            ]
            message["headers"] = [
                *message["headers"],
                *(header for header in extra if header[0] not in names),
            ]
        await send(message)

    return wrapped


def _after_discarding_body(receive: Receive, send: Send) -> Send:
    """Send the response once the rest of the body was read and discarded, or after a second.

    Otherwise a proxy that is still sending the body would lose the response.
    """

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            left = _MAX_DISCARDED_BYTES
            with suppress(TimeoutError):
                async with asyncio.timeout(_DISCARD_SECONDS):
                    has_more = True
                    while has_more and left > 0:
                        chunk = await receive()
                        left -= len(chunk.get("body", b""))
                        has_more = chunk.get("more_body", False)
        await send(message)

    return wrapped


async def _read_body(
    method: str, headers: dict[str, str], receive: Receive, seconds: float
) -> bytes | None:
    """Read the body, within limits of size and time; None if the client disconnected."""
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise RefusedError(400, "length", "Content-Length is not a number.")
    too_large = RefusedError(413, "size", f"A request may have at most {MAX_BODY_BYTES:,} bytes.")
    if int(length) > MAX_BODY_BYTES:
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
    chunks = []
    size = 0
    has_more = True
    try:
        async with asyncio.timeout(seconds):
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                has_more = message.get("more_body", False)
                if size > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError:
        raise RefusedError(408, "slow", "The body took too long to arrive; try again.") from None
    return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body, which has been read, to the application."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _is_utf8(body: bytes) -> bool:
    """Whether the body is UTF-8 without zero bytes, which a JSON parser would take for UTF-16."""
    try:
        return "\x00" not in body.decode("utf-8")
    except UnicodeDecodeError:
        return False
