"""Closed-form scores under a Gaussian posterior: no draws, no noise floor.

Two classes
-----------
f ~ N(m, v) at a pool point, f' ~ N(m', v') at a target point, covariance c. With p = E[σ(f)] and
q = E[σ(f')] the joint probability of two second-class labels is p q + cov, and by Price's theorem

    cov = Σ_{k ≥ 1} cᵏ/k! E[σ⁽ᵏ⁾(f)] E[σ⁽ᵏ⁾(f')],

of which five terms are kept. The mutual information of the two labels follows from the four cells.
To first order in c the information is ½ cov² / (p(1-p) q(1-q)), hence

    EPIG(x) ≈ ½ a(x) mean_{x'} a(x') c(x, x')²,      a = E[σ'(f)]² / (p (1-p)),

a quadratic form that needs no logarithm.

More classes
------------
Class logits f_a ~ N(m_a, v_a) are independent of each other and covary with those of a target point
by c_a. To first order in c (Price's theorem again) the covariance of the probabilities is
J diag(c) J'ᵀ, J = E[∂ softmax / ∂f] (:func:`parbals.race.class_means`), and the mutual information

    ½ Σ_ab cov_ab² / (p_a q_b) = ½ Σ_kl c_k c_l M_kl M'_kl,      M = Jᵀ diag(1/p) J.

M has the vector of ones in its null space, and so has diag(g) - g gᵀ / Σg: with a g whose diagonal
agrees, a point needs C numbers instead of C², and a pair C operations instead of C². The diagonal
is taken from the labels "a or not", M_aa ≈ J_aa² / (p_a (1-p_a)): the two-class formula, and by
Cauchy and Schwarz a lower bound.

Without the products of two classes' covariances the form needs nothing but matrix products.

    ½ Σ_k h_k(x) mean_{x'} h_k(x') c_k(x, x')²,      h = g √(1 - g / Σg),

is the form where both points waver evenly between the same classes, however many, and all their
logits covary alike. It ranks as the form does (correlation 0.95 to 1.00 on real data), and says
which points are worth a closer look. With two classes it is the form itself, h = a.

Decisions
---------
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

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.mixture import normal, sigmoid_means
from parbals.race import balanced, class_slopes
from parbals.types import Stakes

__all__ = [
    "Decisions",
    "Table",
    "closed_bald",
    "closed_epig",
    "decision_gain",
    "decisions_at",
    "label_information",
    "probs_and_gains",
    "quadratic_gain",
    "screen",
    "screening_gains",
    "target_gains",
]

_ORDER = 5
_NEWTON = 2
_LEAST = 1e-30
_FAR = 5.0  # deviations, of which less than 1e-7 is left
_PEAK = float(1.0 / np.sqrt(2.0 * np.pi))
# H(σ(f)) = Σ_i a_i exp(-f² / (2 t_i²)), largest error 4.3e-7: a minimax fit.
_WIDTHS = (0.87391920, 1.18762279, 1.59751311, 2.14570090, 2.87234328, 3.86305225)
_HEIGHTS = (0.01204564, 0.10817146, 0.24530049, 0.23062558, 0.08880657, 0.00819701)


def closed_epig(
    mean: Any,
    variance: Any,
    target_mean: Any,
    target_variance: Any,
    covariance: Any,
    share: Any = None,
    xp: ModuleType = np,
) -> Any:
    """(*U, n) mean over the targets of I(Y_x ; Y_x').

    Args:
        mean, variance: (*U, n) of the points; of the targets (*U, M).
        covariance: (*U, n, M).
        share: (M,) weights of the targets, by default equal.
    """
    table = _label_table(mean, variance, target_mean, target_variance, covariance, xp)
    gains = label_information(*table, xp)
    return gains.mean(axis=-1) if share is None else gains @ share


def _label_table(
    mean: Any,
    variance: Any,
    target_mean: Any,
    target_variance: Any,
    covariance: Any,
    xp: ModuleType,
) -> tuple[Any, Any, Any]:
    """p (*U, n, 1), q (*U, 1, M) and the covariance of both labels (*U, n, M), by the series."""
    deviation, other = (xp.sqrt(xp.maximum(v, _LEAST)) for v in (variance, target_variance))
    here = sigmoid_means(mean, variance, _ORDER, xp, deviation)
    there = sigmoid_means(target_mean, target_variance, _ORDER, xp, other)
    # Powers of the correlation, not of the covariance, which overflow where features are large.
    correlation = covariance / deviation[..., :, None] / other[..., None, :]
    correlation = xp.clip(correlation, -1.0, 1.0)
    joint, power = xp.zeros_like(covariance), xp.ones_like(covariance)
    for k in range(1, _ORDER + 1):
        power = power * correlation / k
        joint = joint + power * here[k][..., :, None] * there[k][..., None, :]
    return here[0][..., :, None], there[0][..., None, :], joint


def label_information(p: Any, q: Any, cov: Any, xp: ModuleType = np) -> Any:
    """Σ_ab P_ab ln(P_ab / (P_a P_b)) of two binary labels with means p, q and covariance cov.

    With P_ab = Q (1 + x) it is Σ Q ((1+x) ln(1+x) - x), which keeps its digits where x is small.
    """
    total = xp.zeros_like(cov)
    for independent, sign in (
        (p * q, 1.0),
        (p * (1.0 - q), -1.0),
        ((1.0 - p) * q, -1.0),
        ((1.0 - p) * (1.0 - q), 1.0),
    ):
        x = xp.maximum(sign * cov / xp.maximum(independent, _LEAST), -1.0 + 1e-6)
        total = total + independent * ((1.0 + x) * xp.log1p(x) - x)
    return total


def closed_bald(mean: Any, variance: Any, xp: ModuleType = np) -> Any:
    """(N,) H(E[σ(f)]) - E[H(σ(f))], f ~ N(mean, variance), both (N,)."""
    (p,) = sigmoid_means(mean, variance, 0, xp)
    cells = xp.maximum(xp.stack([p, 1.0 - p]), _LEAST)
    expected = xp.zeros_like(mean)
    for width, height in zip(_WIDTHS, _HEIGHTS, strict=True):
        spread = width**2 + variance
        expected = expected + height * width / xp.sqrt(spread) * xp.exp(-0.5 * mean**2 / spread)
    return xp.maximum(-(cells * xp.log(cells)).sum(axis=0) - expected, 0.0)


class Decisions(NamedTuple):
    """What a label may change at the targets; marks are None with two classes."""

    margin: Any  # |m_d| (*U, M), from where the decision changes
    worth: Any  # 2 (p_a + p_b) E[σ'] (*U, M), of a unit beyond
    first: Any  # 1 at the most probable class (A, *U, M)
    second: Any


def target_gains(mean: Any, variance: Any, xp: ModuleType = np) -> Any:
    """What points contribute to the quadratic form: a with two classes (A = 1), g with more.

    All are (A, *n).
    """
    return probs_and_gains(mean, variance, xp)[1]


def probs_and_gains(mean: Any, variance: Any, xp: ModuleType = np) -> tuple[Any, Any]:
    """Class probabilities, with two classes the second's alone, and what points contribute.

    All are (A, *n).
    """
    if len(mean) == 1:
        p, slope = sigmoid_means(mean, variance, 1, xp)
        return p, _gain(p, slope, xp)
    flat = (part.reshape(len(mean), -1) for part in (mean, variance))
    p, slope = class_slopes(*flat, xp)
    gains = balanced(xp.maximum(_gain(p, slope, xp), _LEAST), xp, axis=0)
    return p.reshape(mean.shape), gains.reshape(mean.shape)


def _gain(p: Any, slope: Any, xp: ModuleType) -> Any:
    return xp.square(slope) / xp.maximum(p * (1.0 - p), _LEAST)


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


Table = Callable[..., Any]
"""From the parts of a channel to its covariances (*U, n, M), or those of some columns alone."""


def _itself(parts: Any, columns: Any = slice(None)) -> Any:
    return parts[..., columns]


def quadratic_gain(
    covariance: Any,
    gains: Any,
    other_gains: Any,
    share: Any,
    xp: ModuleType = np,
    table: Table | None = None,
) -> Any:
    """(*U, n) EPIG to first order of every point.

    Args:
        covariance: (A, *U, n, M), or parts with a first axis A of which ``table`` makes that of a
            channel: those of all channels at once would leave the cache.
        gains, other_gains: of the points (A, *U, n) and of the targets (A, *U, M).
        share: (M,) weights of the targets.
    """
    table = table or _itself
    if len(gains) == 1:
        here, weight = table(_each_channel(covariance)[0]), share * other_gains[0]
        return 0.5 * gains[0] * (xp.square(here) @ weight[..., None])[..., 0]
    total, other_total = gains.sum(axis=0), other_gains.sum(axis=0)
    weights = share * other_gains
    weights = xp.stack([weights * (1.0 - other_gains / other_total), weights], axis=-1)

    def add_channel(sums: tuple[Any, Any], channel: tuple[Any, Any, Any, Any]) -> Any:
        alone, together = sums
        parts, gain, other, weight = channel
        here = table(parts)
        form = xp.square(here) @ weight  # (*U, n, 2)
        pulled = here * other[..., None, :]
        pulled *= gain[..., None]
        together += pulled
        return (
            alone + gain * form[..., 0] - xp.square(gain) / total * form[..., 1],
            together,
        ), None

    n_targets = other_total.shape[-1]
    sums = xp.zeros_like(total), xp.zeros((*total.shape, n_targets), total.dtype)
    channels = covariance, gains, other_gains, weights
    alone, together = _over_channels(add_channel, sums, channels, xp)
    form = (xp.square(together) @ (share / other_total)[..., None])[..., 0]
    return 0.5 * (alone + form / total)


def screening_gains(gains: Any, xp: ModuleType = np) -> Any:
    """h of every point, from a or g (A, *n)."""
    if len(gains) == 1:
        return gains
    return gains * xp.sqrt(xp.maximum(1.0 - gains / gains.sum(axis=0), 0.0))


def screen(
    covariance: Any,
    gains: Any,
    other_gains: Any,
    share: Any,
    xp: ModuleType = np,
    table: Table | None = None,
) -> Any:
    """(*U, n) by which points are chosen for a closer look; arguments as of the form."""
    table = table or _itself
    here, weights = screening_gains(gains, xp), share * screening_gains(other_gains, xp)

    def add_channel(total: Any, channel: tuple[Any, Any, Any]) -> Any:
        parts, own, weight = channel
        return total + own * (xp.square(table(parts)) @ weight[..., None])[..., 0], None

    nothing = xp.zeros_like(gains[0])
    return 0.5 * _over_channels(add_channel, nothing, (covariance, here, weights), xp)


def decision_gain(
    covariance: Any,
    gains: Any,
    decisions: Decisions,
    share: Any,
    xp: ModuleType = np,
    table: Table | None = None,
) -> Any:
    """(*U, n) expected gain in accuracy over the targets of every point, see above.

    ``covariance``, ``gains``, ``share`` and ``table`` as in :func:`quadratic_gain`.
    """
    table = table or _itself
    margin = decisions.margin[..., None, :]
    if decisions.first is None:
        shift = xp.abs(table(_each_channel(covariance)[0])) * xp.sqrt(gains[0])[..., None]
    else:
        shift = _contrast_shift(covariance, gains, decisions, xp, table)
    return (_expected_excess(margin, shift, xp) @ (decisions.worth * share)[..., None])[..., 0]


def _expected_excess(margin: Any, shift: Any, xp: ModuleType) -> Any:
    """τ φ(z) - |m_d| Φ(-z), of the shape of both."""
    if xp is np:  # in most pairs the margin is many shifts away
        is_near = margin < _FAR * shift
        excess = np.zeros_like(shift)
        excess[is_near] = _excess(np.broadcast_to(margin, shift.shape)[is_near], shift[is_near], xp)
        return excess
    return xp.where(margin < _FAR * shift, _excess(margin, xp.maximum(shift, _LEAST), xp), 0.0)


def _excess(margin: Any, shift: Any, xp: ModuleType) -> Any:
    beyond, bell = normal(-margin / shift, xp)
    return xp.maximum(shift * (_PEAK * bell) - margin * beyond, 0.0)


def _contrast_shift(
    covariance: Any, gains: Any, decisions: Decisions, xp: ModuleType, table: Table
) -> Any:
    """τ of every pair (*U, n, M), M = diag(g) - g gᵀ / Σg, for the two classes of each target."""
    total = gains.sum(axis=0)
    marks, kept = (decisions.first, decisions.second), (gains * (1.0 - gains / total))[..., None]
    nothing = xp.zeros((*total.shape, decisions.margin.shape[-1]), total.dtype)
    if xp is np and total.ndim == 1:
        alone, one, other = _of_marked(covariance, gains, kept, marks, nothing, table)
    else:

        def add_channel(sums: tuple[Any, Any, Any], channel: tuple[Any, ...]) -> Any:
            parts, gain, own, *marks = channel
            here, (is_first, is_second) = table(parts), (mark[..., None, :] for mark in marks)
            alone = xp.square(here) * own * (is_first + is_second)
            pulled = here * gain[..., None]
            sums = sums[0] + alone, sums[1] + pulled * is_first, sums[2] + pulled * is_second
            return sums, None

        channels = covariance, gains, kept, *marks
        alone, one, other = _over_channels(add_channel, (nothing,) * 3, channels, xp)
    return xp.sqrt(xp.maximum(alone + 2.0 * one * other / total[..., None], 0.0))


def _of_marked(
    covariance: Any,
    gains: np.ndarray,
    kept: np.ndarray,
    marks: tuple[np.ndarray, np.ndarray],
    nothing: np.ndarray,
    table: Table,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same sums, of each channel over the targets alone that have it as one of their two."""
    squares, pulled = (nothing, nothing.copy()), (nothing.copy(), nothing.copy())
    for number, (parts, gain) in enumerate(zip(_each_channel(covariance), gains, strict=True)):
        for mark, own, sums in zip(marks, squares, pulled, strict=True):
            columns = np.flatnonzero(mark[number])
            here = table(parts, columns)
            sums[:, columns] = here * gain[:, None]
            own[:, columns] = np.square(here) * kept[number]
    return squares[0] + squares[1], *pulled


def _each_channel(parts: Any) -> Any:
    """The parts channel by channel."""
    return list(zip(*parts, strict=True)) if isinstance(parts, tuple) else parts


def _over_channels(step: Callable[[Any, Any], Any], sums: Any, parts: Any, xp: ModuleType) -> Any:
    """The sums after all channels, one after the other."""
    if xp is not np:
        import jax

        return jax.lax.scan(step, sums, parts)[0]
    covariance, *others = parts
    for channel in zip(_each_channel(covariance), *others, strict=True):
        sums, _ = step(sums, channel)
    return sums
