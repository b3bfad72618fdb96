"""Expected gain in accuracy of a label, in closed form under a Gaussian posterior.

Let a and b be the two most probable classes of a target point and d' = f_a - f_b there. A label at
x shifts its mean m_d by a random amount of variance

    τ² = c_a² M_aa + c_b² M_bb - 2 c_a c_b M_ab      (with two classes c² a(x)),

because E_y[α αᵀ] = M for the slopes α of ln P(y). The decision changes when the mean changes sign,
and each unit beyond gains twice the slope of the probability there, E[σ'(d')] at mean zero. If the
shift is taken as normal, the expected gain in accuracy is (as for a knowledge gradient)

    2 (p_a + p_b) E[σ'] (τ φ(z) - |m_d| Φ(-z)),      z = |m_d| / τ.

With class weights w_a and w_b (:mod:`parbals.scores.losses`) the decision changes where E[σ(d')]
passes w_b / (w_a + w_b): the mean is measured from there, σ' is taken there, and w_a + w_b replaces
2. With a positive class, a is that class, b the most probable other one, and
p_a = E[σ(d')] (p_a + p_b).

A single label has few values and its own shift is not normal, but that of a batch nearly is: the
form is smooth, and not zero for all points that are one label short of changing a decision.

Functions take NumPy arrays or, given JAX's module as ``xp``, JAX arrays.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products
from parbals.mixture import horner, sigmoid_means
from parbals.scores.gaussian import Covariances, sum_over_latents
from parbals.shapes import Array, Float
from parbals.types import ClassWeights

__all__ = ["Decisions", "decision_gain", "decisions_at"]

# U universes, n points, M targets, A latents (classes).
_Targets = Float[Array, "*U M"]
_ClassTargets = Float[Array, "A *U M"]
_Gains = Float[Array, "A *U n"]
_Broadcast = Float[Array, "*#pairs"]

_N_NEWTON_STEPS = 2
_EPS = 1e-20  # guards a division
_MAX_DISTANCE = 9.0  # standard deviations: the excess beyond is zero, and powers stay finite
# φ(z) - z Φ(-z) = φ(0) / P(z)⁸ for z ≥ 0, largest error 8.1e-8: a minimax fit, falling powers.
_EXCESS_COEFFICIENTS = (
    1.6326584e-05, -1.9613583e-05, 0.00035176216, 0.0013087096, 0.0099975794, 0.047930174,
    0.15666547, 1.0,
)  # fmt: skip
_NORMAL_PEAK = float(1.0 / np.sqrt(2.0 * np.pi))  # φ(0)


class Decisions(NamedTuple):
    """The decisions at the targets, and the value of changing them.

    The one-hot arrays are None with two classes.
    """

    margin: Float[Array, "*U M"]  # |m_d|, from where the decision changes
    value: Float[Array, "*U M"]  # 2 (p_a + p_b) E[σ'], of a unit beyond
    first: Float[Array, "A *U M"] | None  # one-hot: the most probable class
    second: Float[Array, "A *U M"] | None  # one-hot: the second most probable class


class _PairWeights(NamedTuple):
    """Weights of a decision between two classes."""

    first: Any  # w_a
    second: Any  # w_b


def decisions_at(
    probs: _ClassTargets,
    mean: _ClassTargets,
    variance: _ClassTargets,
    xp: ModuleType = np,
    class_weights: ClassWeights | None = None,
) -> Decisions:
    """The decisions at target points, from their probabilities, means and variances.

    >>> decisions = decisions_at(np.array([[0.7]]), np.array([[1.0]]), np.array([[0.5]]))
    >>> decisions.margin, decisions.value.round(2)
    (array([1.]), array([0.45]))
    """
    if len(mean) == 1:
        pair = None
        if class_weights is not None:
            pair = _PairWeights(first=class_weights.values[1], second=class_weights.values[0])
        margin, value = _margin_and_value(mean[0], variance[0], pair, xp)
        return Decisions(margin=margin, value=value, first=None, second=None)
    by_class = (-1, *(1,) * (probs.ndim - 1))
    classes = xp.arange(len(probs)).reshape(by_class)
    expected_value = probs
    if class_weights is not None:
        values = class_weights.values
        expected_value = probs * values.reshape(by_class)
        if class_weights.positive is not None:  # the positive class always comes first
            bonus = len(probs) * values.max() * class_weights.positive.reshape(by_class)
            expected_value = expected_value + bonus
    first = (classes == expected_value.argmax(axis=0)).astype(probs.dtype)
    without_first = xp.where(first > 0, -1.0, expected_value)
    second = (classes == without_first.argmax(axis=0)).astype(probs.dtype)
    pair_variance = ((first + second) * variance).sum(axis=0)
    pair_prob = ((first + second) * probs).sum(axis=0)
    pair = None
    if class_weights is not None:
        pair = _pair_weights(class_weights, first, second, pair_prob, xp)
    difference = ((first - second) * mean).sum(axis=0)
    margin, value = _margin_and_value(difference, pair_variance, pair, xp)
    return Decisions(margin=margin, value=pair_prob * value, first=first, second=second)


def _pair_weights(
    class_weights: ClassWeights,
    first: _ClassTargets,
    second: _ClassTargets,
    pair_prob: _Targets,
    xp: ModuleType,
) -> _PairWeights:
    """Weights of the two classes as if there were no others; ``pair_prob`` is p_a + p_b."""
    first_weight = xp.tensordot(class_weights.values, first, 1)
    second_weight = xp.tensordot(class_weights.values, second, 1)
    if class_weights.positive is None:
        return _PairWeights(first=first_weight, second=second_weight)
    total = first_weight + second_weight
    against = xp.minimum(second_weight / xp.maximum(pair_prob, _EPS), 0.999 * total)
    return _PairWeights(first=total - against, second=against)


def _margin_and_value(
    mean: _Targets, variance: _Targets, pair: _PairWeights | None, xp: ModuleType
) -> tuple[_Targets, _Targets]:
    """Distance of f ~ N(mean, variance) to the decision boundary of σ(f), and value of a unit.

    ``pair``: the weights for and against; by default both are 1.
    """
    if pair is None:
        _, slope = sigmoid_means(xp.zeros_like(mean), variance, 1, xp)
        return xp.abs(mean), 2.0 * slope
    log_odds = xp.log(pair.second) - xp.log(pair.first)  # at which both decisions are equal
    boundary = log_odds * xp.sqrt(1.0 + 0.125 * np.pi * variance)
    for _ in range(_N_NEWTON_STEPS):
        p, slope = sigmoid_means(boundary, variance, 1, xp)
        p = xp.clip(p, 1e-6, 1.0 - 1e-6)
        residual = xp.log(p / (1.0 - p)) - log_odds
        boundary = boundary - residual * p * (1.0 - p) / xp.maximum(slope, 1e-9)
    _, slope = sigmoid_means(boundary, variance, 1, xp)
    return xp.abs(mean - boundary), (pair.first + pair.second) * slope


def decision_gain(
    covariances: Covariances,
    gains: _Gains,
    decisions: Decisions,
    share: Float[Array, " M"],
    xp: ModuleType = np,
) -> Float[Array, "*U n"]:
    """Expected gain in accuracy over the targets, for every point; NumPy takes no universes.

    Args:
        covariances: of points and targets.
        gains: of the points, see :func:`parbals.scores.gaussian.label_gains`.
        decisions: at the targets.
        share: weights (M,) of the targets.
        xp: array module.

    Two points and one undecided target, with which only the first point covaries:

    >>> from parbals.scores.gaussian import label_gains
    >>> covariances = Covariances(
    ...     base=np.array([[[1.0, 0.0]]]), left=np.zeros((1, 2, 1)), right=np.zeros((1, 1, 1))
    ... )
    >>> gains = label_gains(np.zeros((1, 2)), np.ones((1, 2)))
    >>> decisions = decisions_at(np.array([[0.5]]), np.zeros((1, 1)), np.ones((1, 1)))
    >>> decision_gain(covariances, gains, decisions, share=np.ones(1)).round(3)
    array([0.068, 0.   ])
    """
    margin = decisions.margin[..., None, :]
    if decisions.first is None:
        (table,) = sum_over_latents(lambda latent: (latent.table(),), covariances, xp=xp)
        shift = xp.abs(table) * xp.sqrt(gains[0])[..., None]
    else:
        shift = _contrast_shift(covariances, gains, decisions, xp)
    excess = _expected_excess(margin, shift, xp)
    return (excess @ (decisions.value * share)[..., None])[..., 0]


def _expected_excess(margin: _Broadcast, shift: _Broadcast, xp: ModuleType) -> _Broadcast:
    """Expected excess of N(0, shift²) over the margin: τ φ(z) - |m_d| Φ(-z)."""
    distance = xp.minimum(margin / xp.maximum(shift, _EPS), _MAX_DISTANCE)
    power = horner(_EXCESS_COEFFICIENTS, distance)
    for _ in range(3):  # the eighth power
        power *= power
    return shift * _NORMAL_PEAK / power


class _PairTerms(NamedTuple):
    """Terms of τ at the two most probable classes of every target: lists of two tables."""

    covariance: list[Any]  # c_a, c_b: (*U, n, M)
    diagonal: list[Any]  # M_aa, M_bb
    factor: list[Any]  # of M_ab = -factor_a factor_b


def _contrast_shift(
    covariances: Covariances, gains: _Gains, decisions: Decisions, xp: ModuleType
) -> Float[Array, "*U n M"]:
    """τ of every pair, M = diag(g) - g gᵀ / Σg, for the two classes of each target."""
    total = gains.sum(axis=0)
    diagonal = gains * (1.0 - gains / total)
    factor = gains / xp.sqrt(total)
    pair_terms = _by_target if xp is np else _by_latent
    terms = pair_terms(covariances, diagonal, factor, decisions, xp)
    c_first, c_second = terms.covariance
    variance = xp.square(c_first) * terms.diagonal[0]
    variance += xp.square(c_second) * terms.diagonal[1]
    product = c_first * terms.factor[0]
    product *= c_second * terms.factor[1]
    variance += 2.0 * product
    return xp.sqrt(xp.maximum(variance, 0.0))


def _by_latent(
    covariances: Covariances,
    diagonal: _Gains,
    factor: _Gains,
    decisions: Decisions,
    xp: ModuleType,
) -> _PairTerms:
    """Evaluate every latent at all targets, masked by the targets' two classes."""
    one_hots = (decisions.first, decisions.second)

    def term(latent: Covariances, *one_hots: Any) -> tuple[Any, ...]:
        table = latent.table()
        return tuple(table * one_hot[..., None, :] for one_hot in one_hots)

    def at_classes(values: _Gains) -> list[Any]:
        by_point = xp.moveaxis(values, 0, -1)
        return [by_point @ xp.moveaxis(one_hot, 0, -2) for one_hot in one_hots]

    covariance = list(sum_over_latents(term, covariances, *one_hots, xp=xp))
    with exact_products(xp):
        return _PairTerms(covariance, at_classes(diagonal), at_classes(factor))


def _by_target(
    covariances: Covariances,
    diagonal: Float[Array, "A n"],
    factor: Float[Array, "A n"],
    decisions: Decisions,
    xp: ModuleType,
) -> _PairTerms:
    """Evaluate every latent only at the targets where it is among the top two classes.

    Points are adjacent in memory: rows are copied faster than columns.
    """
    assert decisions.first is not None  # there are several classes
    assert decisions.second is not None
    classes = [decisions.first.argmax(axis=0), decisions.second.argmax(axis=0)]
    shape = (len(classes[0]), diagonal.shape[1])
    covariance = [np.empty(shape, diagonal.dtype).T for _ in classes]
    for number, latent in enumerate(covariances.latents()):
        for class_at_target, table in zip(classes, covariance, strict=True):
            targets = np.flatnonzero(class_at_target == number)
            table.T[targets] = latent.table(targets).T
    return _PairTerms(
        covariance=covariance,
        diagonal=[diagonal.take(class_at_target, axis=0).T for class_at_target in classes],
        factor=[factor.take(class_at_target, axis=0).T for class_at_target in classes],
    )
