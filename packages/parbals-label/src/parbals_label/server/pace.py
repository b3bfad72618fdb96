"""How fast anything may come: a bucket holds so much at once, and fills again at a steady rate."""

import time
from collections.abc import Callable, Hashable

from parbals_label.server.desk import BusyError

__all__ = ["Buckets", "Pace"]

_DAY = 86_400
_MOST_KEYS = 10_000
_EACH = {
    "requests": ((2_000, 100),),
    "answers": ((300, 100), (20_000, _DAY)),
    "bytes of text": ((2_000_000, 600), (20_000_000, _DAY)),
}
"""What one person may send: so much in so many seconds. A fast reader gives one answer a second."""
_TOGETHER = {
    "answers": ((20_000, 100), (500_000, _DAY)),
    "bytes of text": ((50_000_000, 600), (500_000_000, _DAY)),
}
"""What everybody may send together, invented names included: a disk lasts longer than that."""


class Buckets:
    """One bucket for each key: ``most`` at once, and ``rate`` a second after that."""

    def __init__(
        self, most: float, rate: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._rate, self._clock = float(most), rate, clock
        self.left: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, n: float = 1.0) -> bool:
        """Whether there is so much left; it is taken then."""
        now = self._clock()
        left, last = self.left.pop(key, (self._most, now))
        left = min(self._most, left + self._rate * (now - last))
        is_enough = left >= n
        self.left[key] = (left - n if is_enough else left, now)
        if len(self.left) > _MOST_KEYS:  # the key that was quiet longest has most left
            del self.left[next(iter(self.left))]
        return is_enough


class Pace:
    """How fast people may label: faster than anybody can, slower than a disk fills."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = [
            (what, is_each, most, seconds, Buckets(most, most / seconds, clock))
            for is_each, table in ((True, _EACH), (False, _TOGETHER))
            for what, limits in table.items()
            for most, seconds in limits
        ]

    def admit(self, name: str, answers: int = 0, n_bytes: int = 0) -> None:
        """Count a request, with its answers and the text in them; refused where it is too much."""
        amounts = {"requests": 1, "answers": answers, "bytes of text": n_bytes}
        for what, is_each, most, seconds, buckets in self._limits:
            who = name if is_each else "everybody together"
            if amounts[what] and not buckets.take(who, amounts[what]):
                period = "a day" if seconds == _DAY else f"in {seconds} seconds"
                raise BusyError(
                    f"{who} may send {most:,} {what} {period}, more than people do; wait a little "
                    "and go on."
                )
