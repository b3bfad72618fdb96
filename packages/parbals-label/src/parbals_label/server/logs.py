"""The server's log: one line per event, with a rate limit.

Requests cannot fill the disk with logs: a few lines of the same kind are written at once, then at a
slow rate, and the next written line tells how many were omitted.
"""

import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from parbals_label.server.rate_limits import TokenBuckets

__all__ = ["LOGGERS", "RATE_LIMIT", "REQUESTS", "set_up_logs"]

REQUESTS = logging.getLogger("parbals.requests")
"""Has a line for each request, at level info."""
_REQUEST_LINES = 1000
_REQUEST_LINES_PER_SECOND = 20.0
LOGGERS = ("uvicorn.error", "asyncio", "parbals.web", "parbals.store")
"""Loggers that may write a line for every bad request or connection."""


def set_up_logs(level: str = "warning") -> None:
    """Log events of a level and above to standard error, replacing earlier handlers.

    Events carry their facts in ``extra={"facts": {...}}``.
    """
    handler = _ErrorStream()
    handler.setFormatter(_LineFormatter())
    for name in ("parbals", "uvicorn", "asyncio"):
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.propagate = False
        log.setLevel(level.upper())
    REQUESTS.filters = [RateLimitFilter(_REQUEST_LINES, _REQUEST_LINES_PER_SECOND)]


class _ErrorStream(logging.Handler):
    """Writes to the current ``sys.stderr``; a full or closed one must not stop the server."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


class _LineFormatter(logging.Formatter):
    """Formats a record as ``WARNING: message (fact=value, ...)``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, "facts", {}))
        if getattr(record, "left_out", 0):
            fields["left_out"] = record.left_out  # type: ignore[attr-defined]
        facts = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        message = " ".join(record.getMessage().split())  # a line break must not forge a line
        text = f"{record.levelname}: {message}{f' ({facts})' if facts else ''}"
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return text


class RateLimitFilter(logging.Filter):
    """Lets ``burst`` lines of a kind through at once, then ``rate`` a second.

    Lines with the same message template are of the same kind.
    """

    def __init__(
        self, burst: int, rate: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._buckets = TokenBuckets(burst, rate, clock)
        self._left_out = Counter[tuple[str, str]]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        kind = (record.name, str(record.msg)[:200])
        is_written = self._buckets.take(kind)
        if is_written:
            record.left_out = self._left_out.pop(kind, 0)
        else:
            self._left_out[kind] += 1
        if len(self._left_out) > 1_000:
            self._left_out.clear()
        return is_written


RATE_LIMIT = RateLimitFilter(10, 1 / 6)
