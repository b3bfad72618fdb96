"""A change in a sequence of zeros and ones: the place from which on ones are more frequent.

The statistic is the largest standardised difference of means over all places (a scan statistic),
and its null distribution that of random orders, so that the level of the test holds for any length
and any frequency of ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Change", "increase_in"]

_N_ORDERS = 299
_MIN_VALUES = 20
_MIN_SIDE = 5
"""Values before and after a change, at least; also a tenth of all."""


@dataclass(frozen=True)
class Change:
    """An increase in a sequence of zeros and ones.

    Attributes:
        start: index of the first value after it.
        before, after: shares of ones.
        p_value: probability of so large an increase in a random order.
    """

    start: int
    before: float
    after: float
    p_value: float


def increase_in(
    values: Sequence[bool] | np.ndarray, generator: "np.random.Generator"
) -> Change | None:
    """Find where ones become more frequent, and whether that may be chance; None with few values.

    >>> change = increase_in(np.repeat([False, True], 20), np.random.default_rng(0))
    >>> change.start, change.before, change.after, round(change.p_value, 3)
    (20, 0.0, 1.0, 0.003)

    Args:
        values: (n,) zeros and ones in their order of time.
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
    shuffled = generator.permuted(np.tile(ones, (_N_ORDERS, 1)), axis=1)
    n_larger = int((differences(shuffled).max(axis=-1) >= observed.max() - 1e-12).sum())
    start = int(n_before[observed.argmax()])
    return Change(
        start=start,
        before=float(ones[:start].mean()),
        after=float(ones[start:].mean()),
        p_value=(1 + n_larger) / (1 + _N_ORDERS),
    )
