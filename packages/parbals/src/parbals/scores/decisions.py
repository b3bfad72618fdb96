"""What a label is expected to gain in accuracy, under a Gaussian posterior and without draws.

Let a and b be the two most probable classes of a target point and d' = f_a - f_b there. A label at
x moves its mean m_d by a random amount of variance

    τ² = c_a² M_aa + c_b² M_bb - 2 c_a c_b M_ab      (with two classes c² a(x)),

because E_y[α αᵀ] = M for the slopes α of ln P(y). The decision changes when the mean changes sign,
and each unit beyond gains twice the slope of the probability there, E[σ'(d')] at mean zero. With
the shift taken as normal the expected gain in accuracy is (as of a knowledge gradient)

    2 (p_a + p_b) E[σ'] (τ φ(z) - |m_d| Φ(-z)),      z = |m_d| / τ.

With class weights w_a and w_b (:mod:`parbals.scores.losses`) the decision changes where E[σ(d')]
passes w_b / (w_a + w_b): the mean is counted from there, σ' is taken there, and w_a + w_b stands
for 2. Where one class counts it is a, b is the most probable other, and p_a = E[σ(d')] (p_a + p_b).

A single label has few values and its own shift is not normal, but a batch's is nearly so: the form
is smooth, and is not zero for all points that are one label short of changing a decision.

Functions take NumPy arrays and, given JAX's module, JAX's.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products
from parbals.mixture import polynomial, sigmoid_means
from parbals.scores.gaussian import Covariances, sum_over_latents
from parbals.shapes import Array, Float
from parbals.types import ClassWeights

__all__ = ["Decisions", "decision_gain", "decisions_at"]

# Of targets, in every universe, and of each class there.
_Targets = Float[Array, "*U M"]
_Classes = Float[Array, "A *U M"]
_Gains = Float[Array, "A *U n"]
_Broadcast = Float[Array, "*#pairs"]

_NEWTON = 2
_LEAST = 1e-20
_FARTHEST = 9.0  # deviations: nothing is left beyond, and powers stay finite
# φ(z) - z Φ(-z) = φ(0) / P(z)⁸ for z ≥ 0, largest error 8.1e-8: a minimax fit, falling powers.
_BEYOND = (
    1.6326584e-05, -1.9613583e-05, 0.00035176216, 0.0013087096, 0.0099975794, 0.047930174,
    0.15666547, 1.0,
)  # fmt: skip
_PEAK = float(1.0 / np.sqrt(2.0 * np.pi))


class Decisions(NamedTuple):
    """What a label may change at the targets; marks are None with two classes."""

    margin: Float[Array, "*U M"]  # |m_d|, from where the decision changes
    worth: Float[Array, "*U M"]  # 2 (p_a + p_b) E[σ'], of a unit beyond
    first: Float[Array, "A *U M"] | None  # 1 at the most probable class
    second: Float[Array, "A *U M"] | None


def decisions_at(
    probs: _Classes,
    mean: _Classes,
    variance: _Classes,
    xp: ModuleType = np,
    class_weights: ClassWeights | None = None,
) -> Decisions:
    """The decisions at target points, from their probabilities, means and variances."""
    if len(mean) == 1:
        pair = None if class_weights is None else (class_weights.values[1], class_weights.values[0])
        return Decisions(*_crossing(mean[0], variance[0], pair, xp), None, None)
    each = (-1, *(1,) * (probs.ndim - 1))
    classes, worth = xp.arange(len(probs)).reshape(each), probs
    if class_weights is not None:
        worth = probs * class_weights.values.reshape(each)
        if class_weights.positive is not None:  # it comes first
            worth = worth + len(
                probs
            ) * class_weights.values.max() * class_weights.positive.reshape(each)
    first = (classes == worth.argmax(axis=0)).astype(probs.dtype)
    second = (classes == xp.where(first > 0, -1.0, worth).argmax(axis=0)).astype(probs.dtype)
    spread, weight = (((first + second) * x).sum(axis=0) for x in (variance, probs))
    pair = None if class_weights is None else _pair(class_weights, first, second, weight, xp)
    margin, unit = _crossing(((first - second) * mean).sum(axis=0), spread, pair, xp)
    return Decisions(margin, weight * unit, first, second)


def _pair(
    class_weights: ClassWeights, first: _Classes, second: _Classes, weight: _Targets, xp: ModuleType
) -> tuple[_Targets, _Targets]:
    """Weights of two classes as if there were no others; ``weight`` is p_a + p_b."""
    one, other = (xp.tensordot(class_weights.values, mark, 1) for mark in (first, second))
    if class_weights.positive is None:
        return one, other
    against = xp.minimum(other / xp.maximum(weight, _LEAST), 0.999 * (one + other))
    return one + other - against, against


def _crossing(
    mean: _Targets, variance: _Targets, pair: tuple[Any, Any] | None, xp: ModuleType
) -> tuple[_Targets, _Targets]:
    """How far f ~ N(mean, variance) is from where a decision for σ(f) changes, and the worth of a
    unit beyond; ``pair``: the weights for and against, by default 1.
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
    covariances: Covariances,
    gains: _Gains,
    decisions: Decisions,
    share: Float[Array, " M"],
    xp: ModuleType = np,
) -> Float[Array, "*U n"]:
    """Expected gain in accuracy over the targets of every point; NumPy takes no universes."""
    margin = decisions.margin[..., None, :]
    if decisions.first is None:
        (here,) = sum_over_latents(lambda only: (only.table(),), covariances, xp=xp)
        shift = xp.abs(here) * xp.sqrt(gains[0])[..., None]
    else:
        shift = _contrast_shift(covariances, gains, decisions, xp)
    return (_expected_excess(margin, shift, xp) @ (decisions.worth * share)[..., None])[..., 0]


def _expected_excess(margin: _Broadcast, shift: _Broadcast, xp: ModuleType) -> _Broadcast:
    """τ φ(z) - |m_d| Φ(-z)."""
    distance = xp.minimum(margin / xp.maximum(shift, _LEAST), _FARTHEST)
    power = polynomial(_BEYOND, distance)
    for _ in range(3):
        power *= power
    return shift * _PEAK / power


def _contrast_shift(
    covariances: Covariances, gains: _Gains, decisions: Decisions, xp: ModuleType
) -> Float[Array, "*U n M"]:
    """τ of every pair, M = diag(g) - g gᵀ / Σg, for the two classes of each target."""
    total = gains.sum(axis=0)
    of_points = gains * (1.0 - gains / total), gains / xp.sqrt(total)
    at_both = _by_target if xp is np else _by_latent
    (one, other), own, crossed = at_both(covariances, of_points, decisions, xp)
    alone = xp.square(one) * own[0]
    alone += xp.square(other) * own[1]
    one, other = one * crossed[0], other * crossed[1]
    one *= other
    alone += 2.0 * one
    return xp.sqrt(xp.maximum(alone, 0.0))


_Pairs = list[Float[Array, "*U n M"]]


def _by_latent(
    covariances: Covariances, of_points: tuple[_Gains, ...], decisions: Decisions, xp: ModuleType
) -> tuple[_Pairs, _Pairs, _Pairs]:
    """c_a and c_b of every pair, and each of the two values of points at a and b."""
    marks = decisions.first, decisions.second

    def term(latent: Covariances, *marks: Any) -> tuple[Any, ...]:
        here = latent.table()
        return tuple(here * mark[..., None, :] for mark in marks)

    both = list(sum_over_latents(term, covariances, *marks, xp=xp))
    with exact_products(xp):
        own, crossed = (
            [xp.moveaxis(value, 0, -1) @ xp.moveaxis(mark, 0, -2) for mark in marks]
            for value in of_points
        )
    return both, own, crossed


def _by_target(
    covariances: Covariances,
    of_points: tuple[Float[Array, "A n"], ...],
    decisions: Decisions,
    xp: ModuleType,
) -> tuple[_Pairs, _Pairs, _Pairs]:
    """The same, of each latent over the targets alone that have it as one of their two.

    Points lie side by side in memory: rows are copied faster than columns.
    """
    assert decisions.first is not None  # there are several classes
    assert decisions.second is not None
    classes = [mark.argmax(axis=0) for mark in (decisions.first, decisions.second)]
    n_points = of_points[0].shape[1]
    both = [np.empty((len(classes[0]), n_points), of_points[0].dtype).T for _ in classes]
    for number, latent in enumerate(covariances.latents()):
        for of_class, here in zip(classes, both, strict=True):
            targets = np.flatnonzero(of_class == number)
            here.T[targets] = latent.table(targets).T
    own, crossed = ([value.take(of_class, axis=0).T for of_class in classes] for value in of_points)
    return both, own, crossed
