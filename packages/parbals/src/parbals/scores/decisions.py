"""What a label is expected to gain in accuracy, under a Gaussian posterior and without draws.

Let a and b be the two most probable classes of a target point and d' = f_a - f_b there. A label at
x moves its mean m_d by a random amount of variance

    τ² = c_a² M_aa + c_b² M_bb - 2 c_a c_b M_ab      (with two classes c² a(x)),

because E_y[α αᵀ] = M for the slopes α of ln P(y). The decision changes when the mean changes sign,
and each unit beyond gains twice the slope of the probability there, E[σ'(d')] at mean zero. With
the shift taken as normal the expected gain in accuracy is (as of a knowledge gradient)

    2 (p_a + p_b) E[σ'] (τ φ(z) - |m_d| Φ(-z)),      z = |m_d| / τ.

With stakes w_a and w_b (:mod:`parbals.scores.losses`) the decision changes where E[σ(d')] passes
w_b / (w_a + w_b): the mean is counted from there, σ' is taken there, and w_a + w_b stands for 2.
Where one class counts it is a, b is the most probable other, and p_a = E[σ(d')] (p_a + p_b).

A single label has few values and its own shift is not normal, but a batch's is nearly so: the form
is smooth, and is not zero for all points that are one label short of changing a decision.

Functions take NumPy arrays and, given JAX's module, JAX's.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products
from parbals.mixture import polynomial, sigmoid_means
from parbals.scores.gaussian import Table, each_channel, itself, over_channels
from parbals.types import Stakes

__all__ = ["Decisions", "decision_gain", "decisions_at"]

_NEWTON = 2
_LEAST = 1e-20
_FARTHEST = 9.0  # deviations: nothing is left beyond, and powers stay finite
# φ(z) - z Φ(-z) = φ(0) / P(z)⁸ for z ≥ 0, largest error 8.1e-8: a minimax fit, falling powers.
_BEYOND = (
    1.6326584e-05,
    -1.9613583e-05,
    0.00035176216,
    0.0013087096,
    0.0099975794,
    0.047930174,
    0.15666547,
    1.0,
)
_PEAK = float(1.0 / np.sqrt(2.0 * np.pi))


class Decisions(NamedTuple):
    """What a label may change at the targets; marks are None with two classes."""

    margin: Any  # |m_d| (*U, M), from where the decision changes
    worth: Any  # 2 (p_a + p_b) E[σ'] (*U, M), of a unit beyond
    first: Any  # 1 at the most probable class (A, *U, M)
    second: Any


def decisions_at(
    probs: Any, mean: Any, variance: Any, xp: ModuleType = np, stakes: Stakes | None = None
) -> Decisions:
    """The decisions at target points, from probabilities, mean and variance (A, *U, M)."""
    if len(mean) == 1:
        pair = None if stakes is None else (stakes.values[1], stakes.values[0])
        return Decisions(*_crossing(mean[0], variance[0], pair, xp), None, None)
    each = (-1, *(1,) * (probs.ndim - 1))
    classes, worth = xp.arange(len(probs)).reshape(each), probs
    if stakes is not None:
        worth = probs * stakes.values.reshape(each)
        if stakes.mark is not None:  # it comes first
            worth = worth + len(probs) * stakes.values.max() * stakes.mark.reshape(each)
    first = (classes == worth.argmax(axis=0)).astype(probs.dtype)
    second = (classes == xp.where(first > 0, -1.0, worth).argmax(axis=0)).astype(probs.dtype)
    spread, weight = (((first + second) * x).sum(axis=0) for x in (variance, probs))
    pair = None if stakes is None else _pair(stakes, first, second, weight, xp)
    margin, unit = _crossing(((first - second) * mean).sum(axis=0), spread, pair, xp)
    return Decisions(margin, weight * unit, first, second)


def _pair(stakes: Stakes, first: Any, second: Any, weight: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Stakes of two classes as if there were no others; ``weight`` is p_a + p_b."""
    one, other = (xp.tensordot(stakes.values, mark, 1) for mark in (first, second))
    if stakes.mark is None:
        return one, other
    against = xp.minimum(other / xp.maximum(weight, _LEAST), 0.999 * (one + other))
    return one + other - against, against


def _crossing(
    mean: Any, variance: Any, pair: tuple[Any, Any] | None, xp: ModuleType
) -> tuple[Any, Any]:
    """How far f ~ N(mean, variance) is from where a decision for σ(f) changes, and the worth of a
    unit beyond; ``pair``: the stakes for and against, by default 1.
    """
    if pair is None:
        return xp.abs(mean), 2.0 * sigmoid_means(xp.zeros_like(mean), variance, 1, xp)[1]
    even = xp.log(pair[1]) - xp.log(pair[0])  # log odds at which both decisions are worth the same
    place = even * xp.sqrt(1.0 + 0.125 * np.pi * variance)
    for _ in range(_NEWTON):
        p, slope = sigmoid_means(place, variance, 1, xp)
        p = xp.clip(p, 1e-6, 1.0 - 1e-6)
        place = place - (xp.log(p / (1.0 - p)) - even) * p * (1.0 - p) / xp.maximum(slope, 1e-9)
    worth = (pair[0] + pair[1]) * sigmoid_means(place, variance, 1, xp)[1]
    return xp.abs(mean - place), worth


def decision_gain(
    covariance: Any,
    gains: Any,
    decisions: Decisions,
    share: Any,
    xp: ModuleType = np,
    table: Table | None = None,
) -> Any:
    """(*U, n) expected gain in accuracy over the targets of every point, see above.

    ``covariance``, ``gains``, ``share`` and ``table`` as of the quadratic form.
    """
    table = table or itself
    margin = decisions.margin[..., None, :]
    if decisions.first is None:
        shift = xp.abs(table(each_channel(covariance)[0])) * xp.sqrt(gains[0])[..., None]
    else:
        shift = _contrast_shift(covariance, gains, decisions, xp, table)
    return (_expected_excess(margin, shift, xp) @ (decisions.worth * share)[..., None])[..., 0]


def _expected_excess(margin: Any, shift: Any, xp: ModuleType) -> Any:
    """τ φ(z) - |m_d| Φ(-z), of the shape of both."""
    distance = xp.minimum(margin / xp.maximum(shift, _LEAST), _FARTHEST)
    power = polynomial(_BEYOND, distance)
    for _ in range(3):
        power *= power
    return shift * _PEAK / power


def _contrast_shift(
    covariance: Any, gains: Any, decisions: Decisions, xp: ModuleType, table: Table
) -> Any:
    """τ of every pair (*U, n, M), M = diag(g) - g gᵀ / Σg, for the two classes of each target."""
    total = gains.sum(axis=0)
    of_points = gains * (1.0 - gains / total), gains / xp.sqrt(total)
    look = _by_target if xp is np and total.ndim == 1 else _by_channel
    (one, other), own, crossed = look(covariance, of_points, decisions, xp, table)
    alone = xp.square(one) * own[0]
    alone += xp.square(other) * own[1]
    one, other = one * crossed[0], other * crossed[1]
    one *= other
    alone += 2.0 * one
    return xp.sqrt(xp.maximum(alone, 0.0))


def _by_channel(
    covariance: Any, of_points: Any, decisions: Decisions, xp: ModuleType, table: Table
) -> Any:
    """c_a and c_b of every pair, and each of the values (A, *U, n) of points at a and b."""
    marks = decisions.first, decisions.second
    nothing = xp.zeros((*of_points[0].shape[1:], decisions.margin.shape[-1]), of_points[0].dtype)

    def add_channel(sums: tuple[Any, Any], channel: tuple[Any, ...]) -> Any:
        parts, *marks = channel
        here = table(parts)
        added = (of + here * mark[..., None, :] for of, mark in zip(sums, marks, strict=True))
        return tuple(added), None

    both = over_channels(add_channel, (nothing, nothing), (covariance, *marks), xp)
    with exact_products(xp):
        values = [
            [xp.moveaxis(value, 0, -1) @ xp.moveaxis(mark, 0, -2) for mark in marks]
            for value in of_points
        ]
    return both, *values


def _by_target(
    covariance: Any, of_points: Any, decisions: Decisions, xp: ModuleType, table: Table
) -> Any:
    """The same, of each channel over the targets alone that have it as one of their two.

    Points lie side by side in memory: rows are copied faster than columns.
    """
    classes = [mark.argmax(axis=0) for mark in (decisions.first, decisions.second)]
    n_channels, n_points = of_points[0].shape
    both = [np.empty((len(classes[0]), n_points), of_points[0].dtype).T for _ in classes]
    parts = each_channel(covariance)
    for of_class, here in zip(classes, both, strict=True):
        for number in range(n_channels):
            columns = np.flatnonzero(of_class == number)
            here.T[columns] = table(parts[number], columns).T
    values = [[value.take(of_class, axis=0).T for of_class in classes] for value in of_points]
    return both, *values
