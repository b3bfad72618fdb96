"""Rate limits by token buckets: a burst is allowed, then a steady rate."""

import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from parbals_label.server.desk import BusyError

__all__ = ["RateLimiter", "TokenBuckets"]

_DAY = 86_400
_MAX_KEYS = 10_000
_LIMITS_PER_PERSON = {
    "requests": ((2_000, 100),),
    "answers": ((300, 100), (20_000, _DAY)),
    "bytes of text": ((2_000_000, 600), (20_000_000, _DAY)),
}
"""Amounts that one person may send, as (amount, seconds). A fast reader answers once a second."""
_LIMITS_TOGETHER = {
    "answers": ((20_000, 100), (500_000, _DAY)),
    "bytes of text": ((50_000_000, 600), (500_000_000, _DAY)),
}
"""Amounts that everybody may send together, including invented names, so that no disk fills up."""


class TokenBuckets:
    """One token bucket for each key: ``capacity`` at once, refilled by ``rate`` a second.

    >>> buckets = TokenBuckets(2, rate=0.0)
    >>> [buckets.take("ada") for _ in range(3)]
    [True, True, False]
    """

    def __init__(
        self, capacity: float, rate: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity = float(capacity)
        self._rate = rate
        self._clock = clock
        self.left: dict[Hashable, tuple[float, float]] = {}
        """Key → tokens that were left, and when."""

    def take(self, key: Hashable, n: float = 1.0) -> bool:
        """Take ``n`` tokens; returns whether there were enough."""
        now = self._clock()
        left, updated = self.left.pop(key, (self._capacity, now))
        left = min(self._capacity, left + self._rate * (now - updated))
        is_enough = left >= n
        self.left[key] = (left - n if is_enough else left, now)
        if len(self.left) > _MAX_KEYS:  # the first key was used longest ago, so it is fullest
            del self.left[next(iter(self.left))]
        return is_enough


class _Limit(NamedTuple):
    unit: str
    amount: int
    seconds: int
    is_per_person: bool
    buckets: TokenBuckets


class RateLimiter:
    """Limits how fast people may label: above what anybody can do, below what fills a disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = []
        for is_per_person, table in ((True, _LIMITS_PER_PERSON), (False, _LIMITS_TOGETHER)):
            for unit, limits in table.items():
                for amount, seconds in limits:
                    buckets = TokenBuckets(amount, amount / seconds, clock)
                    self._limits.append(_Limit(unit, amount, seconds, is_per_person, buckets))

    def admit(self, name: str, answers: int = 0, n_bytes: int = 0) -> None:
        """Count a request with its answers and bytes of text; refuse it above a limit."""
        amounts = {"requests": 1, "answers": answers, "bytes of text": n_bytes}
        for limit in self._limits:
            key = name if limit.is_per_person else "everybody together"
            amount = amounts[limit.unit]
            if amount and not limit.buckets.take(key, amount):
                period = "a day" if limit.seconds == _DAY else f"in {limit.seconds} seconds"
                raise BusyError(
                    f"{key} may send {limit.amount:,} {limit.unit} {period}, more than people do; "
                    "wait a little and continue."
                )
