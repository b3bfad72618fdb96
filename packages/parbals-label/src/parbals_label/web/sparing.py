"""Logs that nobody can fill a disk with: the same message is written ten times a minute."""

import logging
import time
from collections.abc import Callable

__all__ = ["LOGGERS", "SPARING", "Sparing"]

LOGGERS = ("uvicorn.error", "asyncio", "parbals.web")
"""Who speaks for every bad request or connection that somebody makes."""
_MOST, _SECONDS = 10, 60.0


class Sparing(logging.Filter):
    """Lets the same message through ten times a minute, then once with the number left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; messages are the same before their values are put in."""
        now, key = self._clock(), (record.name, str(record.msg)[:200])
        since, count = self._seen.get(key, (now, 0))
        if now - since >= _SECONDS:
            if count > _MOST:
                record.msg = f"{record.getMessage()} ({count - _MOST} more were left out)"
                record.args = ()
            since, count = now, 0
        if len(self._seen) > 1_000:
            self._seen.clear()
        self._seen[key] = (since, count + 1)
        return count < _MOST


SPARING = Sparing()
