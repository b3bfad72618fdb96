"""A change in a sequence of zeros and ones: the place from which on ones are more frequent.

The statistic is the largest standardised difference of means over all places (a scan statistic),
and its null distribution that of random orders, so that the level of a test holds for any length
and any frequency of ones.

A sequence that grows is tested when it has 20 · 2^k values, k = 0, 1, …, and the result stands
until the next of these looks. Look k has the share 1/((k + 1) (k + 2)) of the level; the shares add
up to one, so a false alarm at any look is as rare as the level says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Change", "increase_at_look", "increase_in", "size_of_look"]

_MIN_VALUES = 20
_RANK = 3
"""An increase counts if it is among the largest this many of itself and all random orders."""
_CHUNK = 40_000
"""Values of random orders that are in memory at a time."""
_MIN_SIDE = 5
"""Values before and after a change, at least; also a tenth of all."""


@dataclass(frozen=True)
class Change:
    """An increase in a sequence of zeros and ones.

    Attributes:
        start: index of the first value after it.
        before, after: shares of ones.
    """

    start: int
    before: float
    after: float


def size_of_look(n: int) -> int | None:
    """Number of values at the latest look; None before the first.

    >>> size_of_look(19), size_of_look(20), size_of_look(100)
    (None, 20, 80)
    """
    if n < _MIN_VALUES:
        return None
    return int(_MIN_VALUES * 2 ** int(np.log2(n / _MIN_VALUES)))


def increase_at_look(
    values: Sequence[bool] | np.ndarray, n: int, level: float, generator: "np.random.Generator"
) -> Change | None:
    """Find an increase at a look, with its share of the level; None where it may be chance.

    Args:
        values: the values at the look in their order of time, or a random sample of them.
        n: number of values at the look (:func:`size_of_look`).
        level: probability of a false alarm at any look.
        generator: of the random orders.
    """
    look = int(np.log2(n / _MIN_VALUES))
    return increase_in(values, level / ((look + 1) * (look + 2)), generator)


def increase_in(
    values: Sequence[bool] | np.ndarray, level: float, generator: "np.random.Generator"
) -> Change | None:
    """Find where ones become more frequent; None where that may be chance, and with few values.

    >>> generator = np.random.default_rng(0)
    >>> increase_in(np.repeat([False, True], 20), 0.01, generator)
    Change(start=20, before=0.0, after=1.0)
    >>> increase_in(np.tile([False, True], 20), 0.01, generator) is None
    True

    Args:
        values: (n,) zeros and ones in their order of time.
        level: probability of a false alarm.
        generator: of the random orders.
    """
    ones = np.asarray(values, float)
    n = len(ones)
    if n < _MIN_VALUES or ones.min() == ones.max():
        return None
    side = max(_MIN_SIDE, n // 10)
    n_before = np.arange(side, n - side + 1)
    scale = np.sqrt(1.0 / n_before + 1.0 / (n - n_before))

    def differences(rows: np.ndarray) -> np.ndarray:
        """Standardised differences (..., n_places) of the means after and before."""
        before = np.cumsum(rows, axis=-1)[..., n_before - 1]
        after = rows.sum(axis=-1, keepdims=True) - before
        return (after / (n - n_before) - before / n_before) / scale

    observed = differences(ones)
    # The p-value of m random orders is (1 + the number that are as large) / (1 + m).
    n_left = int(np.ceil(_RANK / level)) - 1
    n_as_large = 0
    while n_left and n_as_large < _RANK:
        n_rows = min(n_left, max(_CHUNK // n, 1))
        shuffled = generator.permuted(np.tile(ones, (n_rows, 1)), axis=1)
        n_as_large += int((differences(shuffled).max(axis=-1) >= observed.max() - 1e-12).sum())
        n_left -= n_rows
    if n_as_large >= _RANK:
        return None
    start = int(n_before[observed.argmax()])
    return Change(start, float(ones[:start].mean()), float(ones[start:].mean()))
