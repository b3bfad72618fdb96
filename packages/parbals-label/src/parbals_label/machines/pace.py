"""When to go on, when to wait, when to stop."""

import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Pace", "Stop", "backoff"]

_MINUTE = 60.0
_LONGEST = 60.0
"""Seconds between two tries, at most: services that limit a rate count by the minute."""


class Stop:
    """The two outside reasons to end a run: somebody asked for it, or its time is over."""

    def __init__(self, max_seconds: float | None = None) -> None:
        self._asked = threading.Event()
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds

    def ask(self) -> None:
        """Stop as soon as what has arrived is stored; safe to call from a signal handler."""
        self._asked.set()

    @property
    def reason(self) -> str | None:
        """'interrupted', 'time' or None."""
        if self._asked.is_set():
            return "interrupted"
        return "time" if self._deadline is not None and time.monotonic() >= self._deadline else None

    def wait(self, seconds: float) -> bool:
        """Wait that long; False when it is time to stop instead."""
        end = time.monotonic() + seconds
        while self.reason is None and (left := end - time.monotonic()) > 0:
            self._asked.wait(min(left, 0.2))
        return self.reason is None


class Pace:
    """At most ``rate`` items in any minute."""

    def __init__(self, rate: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._sent: deque[tuple[float, int]] = deque()

    def delay(self, n: int) -> float:
        """Seconds until ``n`` items (no more than ``rate``) may go."""
        if self.rate is None:
            return 0.0
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - _MINUTE:
            self._sent.popleft()
        excess = n + sum(count for _, count in self._sent) - self.rate
        wait = 0.0
        for moment, count in self._sent:
            if excess <= 0:
                break
            excess -= count
            wait = moment + _MINUTE - now
        return max(0.0, wait)

    def sent(self, n: int) -> None:
        """Note that ``n`` items have gone now."""
        if self.rate is not None:
            self._sent.append((self._clock(), n))


def backoff(first: float, attempt: int) -> float:
    """Seconds before retry ``attempt`` (1, 2, ...): doubling up to a minute."""
    return min(_LONGEST, first * 2.0 ** (attempt - 1))
