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
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.parse import SplitResult, urlsplit

from parbals.errors import InputError
from parbals.wording import without_controls

from parbals_label.machines.llm.redaction import Redaction, is_possible_key
from parbals_label.opener import Deadline, is_local, opener_without_redirects

__all__ = ["DEFAULT_KEY", "Completion", "Endpoint", "EndpointError", "key_from"]

DEFAULT_KEY = "OPENAI_API_KEY"
"""The environment variable with the key, unless another is named."""
_MAX_BYTES = 4 << 20
_MAX_ERROR_BYTES = 1 << 16
_MAX_DETAIL = 300
"""Characters of a server's error that are quoted."""
_MAX_TOKENS = 1 << 40
"""Larger counts are taken as this, so that sums fit into a database."""
_RETRIED = (408, 409, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may succeed."""
_ROUNDING = 1e-3
"""Logarithms of probabilities that are 1 may be so much above 0."""
_LOWEST_LOGPROB = -1e3


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply as the server sent it, without the key.

    Attributes:
        content: what the model wrote; "" if nothing.
        refusal: why the model refused, if the server says so.
        finish: why the reply ended, such as "stop" or "length".
        logprobs: the tokens of the reply with their log-probabilities; empty without.
        tokens_in, tokens_out: as the server counted them; None if it did not.
        fault: why this is no reply of a chat endpoint, as a phrase; None if it is one.
    """

    content: str
    refusal: str | None = None
    finish: str | None = None
    logprobs: tuple[tuple[str, float], ...] = ()
    tokens_in: int | None = None
    tokens_out: int | None = None
    fault: str | None = None

    @property
    def is_withheld(self) -> bool:
        """Whether the model refused, or a filter took the reply; its rest is no answer."""
        return self.refusal is not None or self.finish == "content_filter"


class EndpointError(Exception):
    """A request failed; the message is a phrase.

    Attributes:
        retry: whether the same request may succeed later.
        wait: seconds that the server asks to wait; None if it does not say.
        final: no other request can succeed either, once retries are used up.
        status: the HTTP status, if there is one.
        paid: whether the request may have been paid for, because the server has received it.
    """

    def __init__(
        self,
        message: str,
        *,
        retry: bool = False,
        wait: float | None = None,
        final: bool = False,
        status: int | None = None,
        paid: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry = retry
        self.wait = wait
        self.final = final
        self.status = status
        self.paid = paid


def _address(url: str) -> SplitResult:
    """The parts of an endpoint's address; an error if it is none."""
    try:
        parts = urlsplit(url.strip())
        is_address = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and not parts.query + parts.fragment
            and re.fullmatch("[!-~]*", parts.path)
        )
    except ValueError:
        is_address = False
    if not is_address:
        raise InputError(
            f"{url!r} is not the address of an endpoint; write it as https://host/v1 or "
            "http://localhost:8000/v1."
        )
    if parts.username or parts.password:
        raise InputError("The address must not hold a user or a password; use --key.")
    return parts


def key_from(variable: str | None, url: str, environment: Mapping[str, str] = os.environ) -> str:
    """The key for an address, from an environment variable; "" if none is needed.

    The usual variable is read for encrypted and local addresses only; one that is named is read for
    any address, and must be set.
    """
    if variable is None:
        parts = _address(url)
        is_private = parts.scheme == "https" or is_local(parts.hostname)
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
    """A chat endpoint; ``key`` is sent to its address only, and is in no text that comes back."""

    def __init__(self, url: str, key: str = "", timeout: float = 120.0) -> None:
        _address(url)
        if not is_possible_key(key):
            raise InputError("The key has characters that no key has; check the variable.")
        self.url = url.strip().rstrip("/").removesuffix("/chat/completions")
        self._key = key
        self._redacted = Redaction(key)
        self._timeout = timeout
        self._opener = opener_without_redirects()

    def complete(self, body: dict[str, Any]) -> Completion:
        """Send one request and read its reply; :class:`EndpointError` if there is none."""
        headers = {"Content-Type": "application/json", "User-Agent": "parbals"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(
            f"{self.url}/chat/completions", json.dumps(body).encode(), headers
        )
        with Deadline(self._timeout) as deadline:
            try:
                with deadline.open(self._opener, request, self._timeout) as response:
                    data: bytes = response.read(_MAX_BYTES)
                fault: EndpointError | None = None
            except urllib.error.HTTPError as error:
                fault = self._refused(error)
            except (OSError, HTTPException, ValueError) as error:
                fault = self._broken(error)
            if deadline.has_passed:  # what was read may be a part of the answer
                raise self._silence(is_paid=fault is None or fault.paid)
        if fault is not None:
            raise fault
        return self._completion(data)

    def _silence(self, *, is_paid: bool) -> EndpointError:
        """The error of a server that takes too long."""
        message = f"the endpoint did not answer within {self._timeout:g} s"
        return EndpointError(message, retry=True, paid=is_paid)

    def _broken(self, error: Exception) -> EndpointError:
        """The error of a connection that cannot be made, or breaks."""
        is_paid = not isinstance(error, urllib.error.URLError)  # that one is raised while sending
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            return self._silence(is_paid=is_paid)
        message = f"the endpoint {self.url} cannot be reached ({self._quoted(str(reason))})"
        return EndpointError(message, retry=True, final=True, paid=is_paid)

    def _refused(self, error: urllib.error.HTTPError) -> EndpointError:
        """The error that a status other than 200 stands for."""
        with error:
            try:
                text = error.read(_MAX_ERROR_BYTES).decode(errors="replace")
            except (OSError, HTTPException, ValueError):
                text = ""
        status = error.code
        detail = self._quoted(_error_text(text))
        quotation = f": {detail}" if detail else ""
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

    def _quoted(self, text: str) -> str:
        """The first line of a server's text, for a message."""
        lines = self._redacted(text).strip().splitlines()
        return without_controls(lines[0].rstrip(" .")[:_MAX_DETAIL]) if lines else ""

    def _completion(self, data: bytes) -> Completion:
        """The reply in the body of a response, whatever it is."""
        record: Any = None
        with suppress(ValueError, RecursionError):
            record = json.loads(data)
        usage = _field(record, "usage")
        tokens_in = _count(_field(usage, "prompt_tokens"))
        tokens_out = _count(_field(usage, "completion_tokens"))
        choices = _field(record, "choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = _field(choice, "message")
        content = _content(message)
        if content is None:
            text = self._quoted(data.decode(errors="replace"))[:80]
            fault = f"the endpoint's response is not that of a chat endpoint: {text!r}"
            return Completion("", tokens_in=tokens_in, tokens_out=tokens_out, fault=fault)
        refusal = _field(message, "refusal")
        finish = _field(choice, "finish_reason")
        return Completion(
            content=self._redacted(content),
            refusal=self._redacted(refusal) if isinstance(refusal, str) and refusal else None,
            finish=finish if isinstance(finish, str) else None,
            logprobs=_logprobs(_field(choice, "logprobs")),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
        )


def _error_text(body: str) -> str:
    """The message in the body of an error."""
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        return body if "<" not in body else ""
    if isinstance(record, dict):
        error = record.get("error", record.get("detail", record))
        if isinstance(error, dict):
            error = error.get("message", "")
        return error if isinstance(error, str) else ""
    return ""


def _retry_after(headers: Any) -> float | None:
    """Seconds that the server asks to wait: a number, or a date, beside the date of its answer."""
    value = str(headers.get("Retry-After") or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return float(value)
    end = _seconds(value)
    if end is None:
        return None
    return max(0.0, end - (_seconds(str(headers.get("Date"))) or time.time()))


def _seconds(date: str) -> float | None:
    """The time of a date in a header, in seconds since 1970; None if it cannot be read."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, LookupError, OSError, ArithmeticError):
        return None


def _field(record: Any, name: str) -> Any:
    """A field of a JSON object; None where there is none."""
    return record.get(name) if isinstance(record, dict) else None


def _content(message: Any) -> str | None:
    """What the model wrote: "" if nothing, None if that cannot be told."""
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, list):  # some servers send parts
        texts = [_field(piece, "text") for piece in content]
        content = "".join(text for text in texts if isinstance(text, str))
    return content or "" if isinstance(content, str | None) else None


def _count(value: Any) -> int | None:
    """A number of tokens."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return min(value, _MAX_TOKENS) if is_count else None


def _logprobs(record: Any) -> tuple[tuple[str, float], ...]:
    """Tokens and log-probabilities; none if the server sent none, or in another form."""
    pairs = []
    tokens = _field(record, "content")
    for token in tokens if isinstance(tokens, list) else ():
        text = _field(token, "token")
        logprob = _field(token, "logprob")
        is_logprob = isinstance(logprob, int | float) and logprob <= _ROUNDING
        if not isinstance(text, str) or not is_logprob:
            return ()
        pairs.append((text, max(_LOWEST_LOGPROB, min(0.0, logprob))))
    return tuple(pairs)
