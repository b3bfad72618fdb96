"""An HTTP endpoint as annotator: POST of JSON lines (application/x-ndjson), JSON lines in the
response.

The connection goes straight to the host that was named: no proxy, no redirect to another host, and
no more of the response than a batch can need.
"""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, urljoin, urlsplit

from parbals.errors import InputError
from parbals.machines.exchanges import Ending, Exchange
from parbals.machines.protocol import request_lines
from parbals.store.records import Item

__all__ = ["Endpoint", "check_url", "url_name"]

_TYPE = "application/x-ndjson"
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers after which a later try may succeed."""
_REDIRECTS = 3
_LONGEST_WAIT = 600.0
_PORTS = {"http": 80, "https": 443}


def check_url(url: str) -> str:
    """An address that can be posted to."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:
        known = False
    if not known or not url.isascii() or any(character <= " " for character in url):
        raise InputError(
            f"{url!r} is not an address of the form http://host:port/path or https://host/path."
        )
    if "@" in parts.netloc:
        raise InputError(
            "The address holds a user or password; put a token in the environment and name it: "
            "--token-env."
        )
    return url


def url_name(url: str) -> str:
    """What to call it: its host and port."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


class Endpoint:
    """Posts to ``url``; ``timeout`` is for connecting and for each wait for more; ``token`` is sent
    as a bearer's."""

    def __init__(self, url: str, timeout: float, token: str | None = None) -> None:
        self._url, self._timeout, self._token = check_url(url), timeout, token

    def ask(self, items: Sequence[Item], classes: Sequence[str]) -> Exchange:
        """Post these items."""
        return _Posting(
            self._url, self._timeout, self._token, request_lines(items, classes), len(items)
        )


class _Posting(Exchange):
    def __init__(
        self, url: str, timeout: float, token: str | None, body: bytes, n_items: int
    ) -> None:
        super().__init__(n_items)
        self._url, self._timeout, self._body = url, timeout, body
        self._headers = {
            "Content-Type": _TYPE,
            "Accept": _TYPE,
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection: http.client.HTTPConnection | None = None
        self._listener.start()

    def _run(self) -> Ending:
        url = self._url
        try:
            for _ in range(_REDIRECTS + 1):
                ending = self._post(url)
                if isinstance(ending, Ending):
                    return ending
                url = ending
        except TimeoutError:
            return Ending(f"nothing came for {self._timeout:g} s")
        except ssl.SSLCertVerificationError as error:
            return Ending(f"its certificate cannot be trusted ({error.verify_message})", final=True)
        except (OSError, http.client.HTTPException) as error:
            return Ending(f"the connection failed ({_why(error)})")
        return Ending(f"it redirected more than {_REDIRECTS} times", final=True)

    def _post(self, url: str) -> Ending | str:
        """The ending, or the address on the same host where it wants the same request."""
        parts = urlsplit(url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        assert parts.hostname is not None
        connection = kind(parts.hostname, parts.port, timeout=self._timeout)
        self._connection = connection
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, self._body, self._headers)
            if self._aborted.is_set():
                return Ending("it was stopped")
            response = connection.getresponse()
            with response:
                if 300 <= response.status < 400:
                    return _redirected(url, response)
                if not 200 <= response.status < 300:
                    return _refused(response)
                if (
                    response.getheader("Content-Encoding") or "identity"
                ).strip().lower() != "identity":
                    return Ending("its response is compressed, which was not asked for", final=True)
                return self._read(response)
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> Ending:
        left = response.length  # None: chunks, or until the connection closes
        while left is None or left > 0:
            chunk = response.read1(1 << 16 if left is None else min(left, 1 << 16))
            if not chunk:
                break
            left = None if left is None else left - len(chunk)
            flood = self._take(chunk)
            if flood is not None:
                return flood
        return Ending(f"the response broke off {left:,} bytes before its end" if left else None)

    def _close(self) -> None:
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._join(1.0)


def _redirected(url: str, response: http.client.HTTPResponse) -> Ending | str:
    target = response.getheader("Location")
    if response.status not in (307, 308) or not target:
        return Ending(
            f"it answered {response.status}, which is not followed for a POST; use the final "
            "address",
            final=True,
        )
    try:
        there = urlsplit(urljoin(url, target))
        same = _origin(there) == _origin(urlsplit(url))
    except ValueError:
        return Ending("it redirects to something that is not an address", final=True)
    if not same:
        return Ending(
            f"it redirects to another host ({there.scheme}://{there.netloc}), which is not "
            "followed",
            final=True,
        )
    return there._replace(fragment="").geturl()


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _refused(response: http.client.HTTPResponse) -> Ending:
    status = f"it answered {response.status} {response.reason}".rstrip()
    if response.status not in _AGAIN:
        said = response.read1(300).decode(errors="replace")
        shown = "".join(character if character.isprintable() else " " for character in said).strip()
        return Ending(f"{status}: {shown}" if shown else status, final=True)
    wait = _retry_after(response.getheader("Retry-After"))
    if wait > _LONGEST_WAIT:
        return Ending(
            f"{status} and wants {wait:,.0f} s of rest, more than the {_LONGEST_WAIT:.0f} s it "
            "gets",
            final=True,
        )
    return Ending(status, wait=wait)


def _retry_after(value: str | None) -> float:
    """Seconds, given as such or as a date; 0 where it says nothing that can be read."""
    if value is None:
        return 0.0
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _why(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the response broke off"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
