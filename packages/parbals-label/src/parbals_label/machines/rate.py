"""A limit on the items that a program is asked for in any minute."""

import time
from collections import deque
from collections.abc import Callable

__all__ = ["MINUTE", "RateLimit"]

MINUTE = 60.0
"""Seconds."""


class RateLimit:
    """At most ``rate`` items in any minute; no limit where it is None.

    >>> limit = RateLimit(10, clock=lambda: 0.0)
    >>> limit.record(6)
    >>> limit.delay(4), limit.delay(5)
    (0.0, 60.0)
    """

    def __init__(self, rate: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._sent: deque[tuple[float, int]] = deque()

    def delay(self, n_items: int) -> float:
        """Seconds until ``n_items``, which are at most ``rate``, may be sent."""
        if self.rate is None:
            return 0.0
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - MINUTE:
            self._sent.popleft()
        excess = n_items + sum(count for _, count in self._sent) - self.rate
        seconds = 0.0
        for sent_at, count in self._sent:
            if excess <= 0:
                break
            excess -= count
            seconds = sent_at + MINUTE - now
        return max(0.0, seconds)

    def record(self, n_items: int) -> None:
        """Note that ``n_items`` were sent now."""
        if self.rate is not None:
            self._sent.append((self._clock(), n_items))
