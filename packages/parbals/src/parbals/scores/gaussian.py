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
logits covary alike. It says which points are worth a closer look, and for those that are many, the
pool's, the softmax is not integrated either: p of the logits m_a / √(1 + π v_a / 8), each on the
scale of the logistic function that it looks like, and g = p (1-p) / (1 + π v / 8). It ranks nearly
as the form does (``benchmarks/screening.py``). With two classes it is the form itself, h = a.

Functions take NumPy arrays and, given JAX's module, JAX's.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from parbals.mixture import sigmoid_means
from parbals.race import balanced, class_slopes

__all__ = [
    "Table",
    "closed_bald",
    "closed_epig",
    "each_channel",
    "itself",
    "label_information",
    "over_channels",
    "probs_and_gains",
    "quadratic_gain",
    "rough_gains",
    "screen",
    "screening_gains",
    "target_gains",
]

_ORDER = 5
_LEAST = 1e-30
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
    p, slope = class_slopes(mean.reshape(len(mean), -1), variance.reshape(len(mean), -1), xp)
    gains = balanced(xp.maximum(_gain(p, slope, xp), _LEAST), xp, axis=0)
    return p.reshape(mean.shape), gains.reshape(mean.shape)


def rough_gains(mean: Any, variance: Any, xp: ModuleType = np) -> Any:
    """(A, *n) gains to screen by, a fiftieth of the work; with two classes the gains."""
    if len(mean) == 1:
        return target_gains(mean, variance, xp)
    narrowing = 1.0 / (1.0 + 0.125 * np.pi * variance)
    logits = mean * xp.sqrt(narrowing)
    probs = xp.exp(logits - logits.max(axis=0))
    probs /= probs.sum(axis=0)
    return xp.maximum(probs * (1.0 - probs) * narrowing, _LEAST)


def _gain(p: Any, slope: Any, xp: ModuleType) -> Any:
    """slope² / (p (1-p)); as E[σ(1-σ)] ≤ p (1-p), no more than the slope where both round to 0."""
    return slope * xp.minimum(slope / xp.maximum(p * (1.0 - p), _LEAST), 1.0)


Table = Callable[..., Any]
"""From the parts of a channel to its covariances (*U, n, M), or those of some columns alone."""


def itself(parts: Any, columns: Any = slice(None)) -> Any:
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
    table = table or itself
    if len(gains) == 1:
        here, weight = table(each_channel(covariance)[0]), share * other_gains[0]
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
    alone, together = over_channels(add_channel, sums, channels, xp)
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
    table = table or itself
    here, weights = screening_gains(gains, xp), share * screening_gains(other_gains, xp)

    def add_channel(total: Any, channel: tuple[Any, Any, Any]) -> Any:
        parts, own, weight = channel
        return total + own * (xp.square(table(parts)) @ weight[..., None])[..., 0], None

    nothing = xp.zeros_like(gains[0])
    return 0.5 * over_channels(add_channel, nothing, (covariance, here, weights), xp)


def each_channel(parts: Any) -> Any:
    """The parts channel by channel."""
    return list(zip(*parts, strict=True)) if isinstance(parts, tuple) else parts


def over_channels(step: Callable[[Any, Any], Any], sums: Any, parts: Any, xp: ModuleType) -> Any:
    """The sums after all channels, one after the other."""
    if xp is not np:
        import jax

        return jax.lax.scan(step, sums, parts)[0]
    covariance, *others = parts
    for channel in zip(each_channel(covariance), *others, strict=True):
        sums, _ = step(sums, channel)
    return sums
