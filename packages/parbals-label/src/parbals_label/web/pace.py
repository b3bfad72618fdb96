"""How fast one person may ask: faster than anybody can label, slower than a disk fills."""

import time
from collections.abc import Callable

from parbals_label.web.desk import BusyError

__all__ = ["Pace"]

_BURST, _RATE = 2_000.0, 20.0
"""Requests at once, and a second after that."""
_MOST_NAMES = 10_000


class Pace:
    """What each name has left: it fills up again with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def admit(self, name: str) -> None:
        """Count a request; refused where the name has none left."""
        now = self._clock()
        left, last = self._left.pop(name, (_BURST, now))
        left = min(_BURST, left + _RATE * (now - last))
        self._left[name] = (max(left - 1.0, 0.0), now)
        if len(self._left) > _MOST_NAMES:  # the name that was quiet longest has most left
            del self._left[next(iter(self._left))]
        if left < 1.0:
            raise BusyError(
                f"{name} asks more than {_RATE:g} times a second; try again in a moment."
            )
