"""HTTP to a Label Studio server: one request after the other, by the standard library alone."""

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.parse import urlsplit

from parbals.errors import InputError, ParbalsError, first_line

__all__ = ["GoneError", "Server", "ServerError"]

_SECONDS = 60.0
_MOST_BYTES = 1 << 28
_KEY_ADVICE = (
    "copy one from Account & Settings in Label Studio (a personal access token or a legacy token)"
)


class ServerError(ParbalsError):
    """The server cannot be used for now: it does not answer, or something is wrong with it."""


class GoneError(InputError):
    """What was asked for is not there (any more)."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following one would hand the key to whatever it leads to."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class Server:
    """A Label Studio server and who asks.

    ``key`` is a personal access token, which is a JSON web token that is exchanged for short-lived
    ones, or a legacy token.
    """

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InputError(
                f"{url!r} is not the address of a server; write it as http://localhost:8080."
            )
        if parts.username or parts.password:
            raise InputError("The address must not hold a user or a password; the key is enough.")
        self.url, self._key, self._access = url.strip().rstrip("/"), key.strip(), ""
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise InputError(f"The key of Label Studio is empty or damaged; {_KEY_ADVICE}.")
        self._opener = urllib.request.build_opener(_NoRedirect)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        self.is_readable = parts.scheme == "http" and not local
        """Whether others on the way can read what is sent, the key among it."""

    @property
    def _is_exchanged(self) -> bool:
        """Whether the key is a personal access token."""
        return self._key.count(".") == 2

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        seconds: float = _SECONDS,
    ) -> dict[str, Any]:
        """The server's answer to a request, which is always a record."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        for attempt in (1, 2):
            status, answer = self._send(method, path, data, kind, self._authorization(), seconds)
            if status == 401 and attempt == 1 and self._access:
                self._access = ""  # it lives for minutes; the key itself may still be good
                continue
            break
        if 200 <= status < 300:
            return _record(answer)
        self._refuse(status, answer, path)

    def _authorization(self) -> str:
        if not self._is_exchanged:
            return f"Token {self._key}"
        if not self._access:
            body = json.dumps({"refresh": self._key}).encode()
            status, answer = self._send("POST", "/api/token/refresh/", body, "application/json")
            if status != 200:
                self._refuse(status, answer, "/api/token/refresh/")
            self._access = str(_record(answer)["access"])
        return f"Bearer {self._access}"

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: str,
        authorization: str | None = None,
        seconds: float = _SECONDS,
    ) -> tuple[int, Any]:
        """Status and answer; only a server that answers something gives any."""
        request = urllib.request.Request(self.url + path, data=body, method=method)
        request.add_header("Accept", "application/json")
        if body is not None:
            request.add_header("Content-Type", kind)
        if authorization is not None:
            request.add_unredirected_header("Authorization", authorization)
        try:
            try:
                with self._opener.open(request, timeout=seconds) as response:
                    return response.status, _parsed(response.read(_MOST_BYTES))
            except urllib.error.HTTPError as error:
                with error:
                    if 300 <= error.code < 400:
                        place = error.headers.get("Location", "another place")
                        raise InputError(
                            f"{self.url} sends requests on to {place}; give that server's address "
                            "as --url."
                        ) from None
                    return error.code, _parsed(error.read(_MOST_BYTES))
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ServerError(f"{self.url} does not answer ({_words(reason)}).") from None

    def _refuse(self, status: int, answer: Any, path: str) -> NoReturn:
        """Raise what a status means."""
        said = answer.get("detail") if isinstance(answer, dict) else None
        if isinstance(answer, dict) and answer.get("validation_errors"):
            said = json.dumps(answer["validation_errors"])[:300]
        reason = f" ({str(said).rstrip('.')})" if said else ""
        if status in (401, 403):
            raise InputError(f"{self.url} does not accept the key{reason}; {_KEY_ADVICE}.")
        if status == 404:
            raise GoneError(f"{self.url} has nothing at {path.partition('?')[0]}{reason}.")
        if status >= 500 or status == 429:
            raise ServerError(f"{self.url} cannot answer now: status {status}{reason}.")
        raise InputError(f"{self.url} refuses {path.partition('?')[0]}: status {status}{reason}.")


def _words(reason: object) -> str:
    """What went wrong, in a few words."""
    return first_line(reason) if isinstance(reason, BaseException) else str(reason)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _record(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise InputError(
            "The server does not answer as Label Studio does; check the address (--url)."
        )
    return answer
