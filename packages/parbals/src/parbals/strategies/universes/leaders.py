"""The highest of many values, few of which change from one look to the next."""

import numpy as np

from parbals.shapes import Array, Bool, Float, Int

__all__ = ["Leaders", "top_positions"]

_N_LEADERS = 16_384


def top_positions(values: Float[Array, " N"], free: Bool[Array, " N"], n: int) -> Int[Array, " n"]:
    """Positions of the ``n`` free points with the highest values; ties in the order of the pool.

    >>> top_positions(np.array([0.1, 0.7, 0.7, 0.9]), np.array([True, True, True, False]), 2)
    array([1, 2])
    """
    return _highest(values, np.flatnonzero(free), n)


class Leaders:
    """Finds the highest of N values without looking at all of them each time.

    The positions of the highest values are kept, with the highest value of all others, the
    *threshold*. While enough of the kept values exceed it, none of the others is among the highest.

    Values may change at positions that :meth:`top` returned; after other changes call
    :meth:`forget`. Points that are not free must not become free again.

    >>> values = np.array([0.3, 0.9, 0.5])
    >>> leaders = Leaders()
    >>> leaders.top(values, np.ones(3, bool), 1)
    array([1])
    >>> values[1] = 0.1
    >>> leaders.top(values, np.ones(3, bool), 2)
    array([2, 0])
    """

    def __init__(self, n_leaders: int = _N_LEADERS) -> None:
        self._n_leaders = n_leaders
        self._positions: np.ndarray | None = None
        self._threshold = -np.inf

    def forget(self) -> None:
        """Look at all values the next time."""
        self._positions = None

    def top(self, values: Float[Array, " N"], free: Bool[Array, " N"], n: int) -> Int[Array, " n"]:
        """The same positions as :func:`top_positions` returns."""
        if len(values) <= self._n_leaders:
            return top_positions(values, free, n)
        if self._positions is not None:
            positions = self._positions[free[self._positions]]
            positions = _highest(values, positions, n)
            if len(positions) == n and values[positions[-1]] > self._threshold:
                return positions
        positions = top_positions(values, free, max(self._n_leaders, n) + 1)
        self._threshold = float(values[positions[-1]])
        self._positions = np.sort(positions[:-1])
        return positions[:n]


def _highest(values: Float[Array, " N"], positions: Int[Array, " m"], n: int) -> Int[Array, " n"]:
    """Those of ascending positions with the ``n`` highest values, the highest first."""
    values = values[positions]
    if len(positions) > n:  # sorting a few is faster than sorting all
        threshold = np.partition(values, len(positions) - n)[len(positions) - n]
        is_high = values >= threshold
        positions = positions[is_high]
        values = values[is_high]
    return positions[np.argsort(-values, kind="stable")[:n]]
