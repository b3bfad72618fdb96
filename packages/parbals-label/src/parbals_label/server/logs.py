"""What the server says about itself: one line an event.

Nobody can fill a disk with logs by asking: lines of the same kind are written a few times at once,
then at a slow rate, and the next one that is written says how many were left out.
"""

import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from parbals_label.server.pace import Buckets

__all__ = ["LEVELS", "LOGGERS", "REQUESTS", "SPARING", "set_up_logs"]

LEVELS = ("debug", "info", "warning", "error")
"""Levels of `parbals serve --log-level`."""
REQUESTS = logging.getLogger("parbals.requests")
"""Has a line for each request, at level info."""
_REQUEST_LINES = 1000
_REQUEST_LINES_PER_SECOND = 20.0
LOGGERS = ("uvicorn.error", "asyncio", "parbals.web", "parbals.store")
"""Who speaks for every bad request or connection that somebody makes."""


def set_up_logs(level: str = "warning") -> None:
    """Log events of a level and above to the error stream, in place of what was set up before.

    Events carry their facts in ``extra={"facts": {...}}``.
    """
    handler = _ErrorStream()
    handler.setFormatter(_Line())
    for name in ("parbals", "uvicorn", "asyncio"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level.upper())
    REQUESTS.filters = [Sparing(_REQUEST_LINES, _REQUEST_LINES_PER_SECOND)]


class _ErrorStream(logging.Handler):
    """Writes to the error stream as it is then; a full or closed one must not stop the server."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


class _Line(logging.Formatter):
    """WARNING: what happened (fact=value, ...)."""

    def format(self, record: logging.LogRecord) -> str:
        known = dict(getattr(record, "facts", {}))
        if getattr(record, "left_out", 0):
            known["left_out"] = record.left_out  # type: ignore[attr-defined]
        facts = ", ".join(f"{name}={value!r}" for name, value in known.items())
        message = " ".join(record.getMessage().split())  # a line break in it forges no line
        text = f"{record.levelname}: {message}{f' ({facts})' if facts else ''}"
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return text


class Sparing(logging.Filter):
    """Lets ``most`` lines of a kind through at once, then ``rate`` a second.

    Lines are of a kind whose message is the same before its values are put in.
    """

    def __init__(self, most: int, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._buckets, self._left_out = Buckets(most, rate, clock), Counter[tuple[str, str]]()

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


SPARING = Sparing(10, 1 / 6)
