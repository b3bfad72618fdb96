"""One request to an OpenAI-compatible chat endpoint, by the standard library alone.

One request of the protocol is needed, so neither ``openai`` (with httpx and jiter some 15 MB) nor
``litellm`` (several times that) is required: no extra to install, nothing to keep up to date.
Retries, rates and budgets are decided by the caller (:mod:`parbals_label.machines.llm.asking`).
"""

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from parbals.errors import InputError
from parbals.wording import without_controls

from parbals_label.opener import Deadline, opener_without_redirects

__all__ = ["DEFAULT_KEY", "Completion", "Endpoint", "EndpointError", "key_from"]

DEFAULT_KEY = "OPENAI_API_KEY"
"""The environment variable with the key, unless another is named."""
_MAX_BYTES = 4 << 20
_MAX_ERROR_BYTES = 1 << 16
_RETRIED = (408, 409, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may succeed."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply as the server sent it.

    Attributes:
        content: what the model wrote; "" if nothing.
        refusal: why the model refused, if the server says so.
        finish: why the reply ended, such as "stop" or "length".
        logprobs: the tokens of the reply with their log-probabilities; empty without.
        tokens_in, tokens_out: as the server counted them; None if it did not.
    """

    content: str
    refusal: str | None
    finish: str | None
    logprobs: tuple[tuple[str, float], ...]
    tokens_in: int | None
    tokens_out: int | None


class EndpointError(Exception):
    """A request failed; the message is a phrase.

    Attributes:
        retry: whether the same request may succeed later.
        wait: seconds that the server asks to wait; None if it does not say.
        final: no other request can succeed either, once retries are used up.
        status: the HTTP status, if there is one.
    """

    def __init__(
        self,
        message: str,
        *,
        retry: bool = False,
        wait: float | None = None,
        final: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.retry = retry
        self.wait = wait
        self.final = final
        self.status = status


def key_from(variable: str | None, url: str, environment: Mapping[str, str] = os.environ) -> str:
    """The key for an address, from an environment variable; "" if none is needed.

    The usual variable is read for encrypted and local addresses only; one that is named is read for
    any address, and must be set.
    """
    if variable is None:
        parts = urlsplit(url)
        is_private = parts.scheme == "https" or parts.hostname in _LOCAL
        return environment.get(DEFAULT_KEY, "").strip() if is_private else ""
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable):
        # The value is not quoted: it may be the key itself.
        raise InputError(
            "--key names an environment variable in capitals, such as OPENAI_API_KEY; a key itself "
            "does not belong on the command line."
        )
    key = environment.get(variable, "").strip()
    if not key:
        raise InputError(f"The environment variable {variable} is not set; it must hold the key.")
    return key


class Endpoint:
    """A chat endpoint; ``key`` is sent to its address only, and is in no message."""

    def __init__(self, url: str, key: str = "", timeout: float = 120.0) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InputError(
                f"{url!r} is not the address of an endpoint; write it as https://host/v1 or "
                "http://localhost:8000/v1."
            )
        if parts.username or parts.password:
            raise InputError("The address must not hold a user or a password; use --key.")
        if key and (not key.isascii() or not key.isprintable()):
            raise InputError("The key has characters that no key has; check the variable.")
        self.url = url.strip().rstrip("/").removesuffix("/chat/completions")
        self._key = key
        self._timeout = timeout
        self._opener = opener_without_redirects()

    def complete(self, body: dict[str, Any]) -> Completion:
        """Send one request and read its reply; :class:`EndpointError` if it fails."""
        headers = {"Content-Type": "application/json", "User-Agent": "parbals"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(
            f"{self.url}/chat/completions", json.dumps(body).encode(), headers
        )
        silence = f"the endpoint did not answer within {self._timeout:g} s"
        with Deadline(self._timeout) as deadline:
            try:
                data = self._receive(deadline, request)
            except EndpointError:
                if deadline.has_passed:
                    raise EndpointError(silence, retry=True) from None
                raise
            except (OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", error)
                if deadline.has_passed or isinstance(reason, TimeoutError):
                    raise EndpointError(silence, retry=True) from None
                detail = self._hidden(_first_line(str(reason)))
                message = f"the endpoint {self.url} cannot be reached ({detail})"
                raise EndpointError(message, retry=True, final=True) from None
            if deadline.has_passed:  # what was read may be a part of the answer
                raise EndpointError(silence, retry=True)
        return _parse(data)

    def _receive(self, deadline: Deadline, request: urllib.request.Request) -> bytes:
        """The body of the answer to a request; any status but 200 is an error."""
        try:
            with deadline.open(self._opener, request, self._timeout) as response:
                data: bytes = response.read(_MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        if len(data) > _MAX_BYTES:
            raise EndpointError(f"the endpoint sent more than {_MAX_BYTES:,} bytes")
        return data

    def _refused(self, error: urllib.error.HTTPError) -> EndpointError:
        """The error that a status other than 200 stands for."""
        with error:
            try:
                text = error.read(_MAX_ERROR_BYTES).decode(errors="replace")
            except (OSError, HTTPException):
                text = ""
        status = error.code
        detail = _error_text(text)
        quotation = f": {self._hidden(detail)}" if detail else ""
        message = f"the endpoint answered {status}{quotation}"
        if status in (401, 403):
            advice = "check the key" if self._key else f"set {DEFAULT_KEY}, or name one by --key"
            return EndpointError(f"{message}; {advice}", final=True, status=status)
        if status == 404 or 300 <= status < 400:
            advice = "check the address, which usually ends in /v1, and --model"
            return EndpointError(f"{message}; {advice}", final=True, status=status)
        if status == 402 or "insufficient_quota" in text:
            return EndpointError(message, final=True, status=status)
        wait = _retry_after(error.headers)
        return EndpointError(message, retry=status in _RETRIED, wait=wait, status=status)

    def _hidden(self, text: str) -> str:
        """A server's text without the key, in case that it repeats it."""
        text = without_controls(text)[:300]
        return text.replace(self._key, "…") if self._key else text


def _error_text(body: str) -> str:
    """The message in the body of an error."""
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        return _first_line(body) if "<" not in body else ""
    if isinstance(record, dict):
        error = record.get("error", record.get("detail", record))
        if isinstance(error, dict):
            error = error.get("message", "")
        return _first_line(error) if isinstance(error, str) else ""
    return ""


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].rstrip(" .") if lines else ""


def _retry_after(headers: Any) -> float | None:
    """Seconds that the server asks to wait: a number, or a date."""
    value = str(headers.get("Retry-After") or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _parse(data: bytes) -> Completion:
    """The reply in the body of a response."""
    try:
        record = json.loads(data)
        choice = record["choices"][0]
        message = choice["message"]
        content = message.get("content") or ""
        if isinstance(content, list):  # some servers send parts
            content = "".join(piece.get("text") or "" for piece in content)
        refusal = message.get("refusal")
        if not isinstance(content, str):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        excerpt = without_controls(data[:80].decode(errors="replace"))
        message = f"the endpoint's response is not that of a chat endpoint: {excerpt!r}"
        raise EndpointError(message, retry=True) from None
    usage = record.get("usage")
    return Completion(
        content=content,
        refusal=refusal if isinstance(refusal, str) and refusal else None,
        finish=choice.get("finish_reason"),
        logprobs=_logprobs(choice.get("logprobs")),
        tokens_in=_count(usage, "prompt_tokens"),
        tokens_out=_count(usage, "completion_tokens"),
    )


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _logprobs(record: Any) -> tuple[tuple[str, float], ...]:
    """Tokens and log-probabilities; none if the server sent none, or in another form."""
    try:
        return tuple((str(t["token"]), float(t["logprob"])) for t in record["content"])
    except (LookupError, TypeError, ValueError):
        return ()
