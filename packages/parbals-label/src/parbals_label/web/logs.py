"""What the server says about itself: one line an event, for people or as JSON for machines."""

import json
import logging
import sys
import time
import traceback
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime

__all__ = ["FORMATS", "LEVELS", "REQUEST", "REQUESTS", "set_up_logs"]

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)
"""The id of the request that is being answered."""
REQUESTS = logging.getLogger("parbals.requests")
"""Has a line for every request, where the level is info."""
_AT_ONCE = 1000
_A_SECOND = 20.0


def set_up_logs(fmt: str = "text", level: str = "warning") -> None:
    """Log to the error stream, in place of what was set up before.

    Events carry their facts in ``extra={"facts": {...}}``; in JSON they are fields of their own.
    """
    handler = _ErrorStream()
    handler.setFormatter(_JsonLine() if fmt == "json" else _TextLine())
    for name in ("parbals", "uvicorn"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level.upper())
    REQUESTS.filters = [_Trickle()]


class _ErrorStream(logging.Handler):
    """Writes to the error stream as it is then; a full or closed one must not stop the server."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


def _facts(record: logging.LogRecord) -> dict[str, object]:
    request = REQUEST.get()
    facts = dict(getattr(record, "facts", {}))
    if request is not None:
        facts["request"] = request
    if getattr(record, "left_out", 0):
        facts["left_out"] = record.left_out  # type: ignore[attr-defined]
    return facts


class _JsonLine(logging.Formatter):
    """One JSON object; a line break in a message cannot make a second one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": moment, "level": record.levelname.lower()}
        line |= {"logger": record.name, "message": record.getMessage(), **_facts(record)}
        if record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


class _TextLine(logging.Formatter):
    """WARNING: what happened (fact=value, ...)."""

    def format(self, record: logging.LogRecord) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in _facts(record).items())
        text = f"{record.levelname}: {record.getMessage()}{f' ({facts})' if facts else ''}"
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return text


class _Trickle(logging.Filter):
    """A thousand requests at once, then twenty a second: nobody can fill the disk by asking.

    The next line that passes says how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._room, self._looked, self._left_out = float(_AT_ONCE), time.monotonic(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        moment = time.monotonic()
        self._room = min(self._room + _A_SECOND * (moment - self._looked), float(_AT_ONCE))
        self._looked = moment
        if self._room < 1.0:
            self._left_out += 1
            return False
        self._room -= 1.0
        record.left_out, self._left_out = self._left_out, 0
        return True
