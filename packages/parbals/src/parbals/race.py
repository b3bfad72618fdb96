"""The softmax of normal logits by one-dimensional quadrature, for any number of classes.

A softmax is a race: with independent Gumbel noise g_a the class of the largest f_a + g_a is a with
probability softmax(f)_a. For independent logits f_a ~ N(m_a, v_a) the runner f_a + g_a has
distribution function F_a and density F_a', so with Π(t) = Π_a F_a(t) and r_a = F_a' / F_a

    p_a = E[softmax(f)_a]          = ∫ Π r_a dt,
    J_ab = E[∂ softmax(f)_a / ∂f_b] = -∫ Π r_a r_b dt   (a ≠ b; rows of J sum to zero),

because derivatives in f are derivatives in m. F_a is the Gumbel distribution exp(-exp(-t)) smoothed
by a normal of variance v_a, and known in two forms.

*For means* as exp(-exp(κ)): κ(u, q) is -t at v = 0 and bends only gently as v grows. A polynomial
in the standardised t, u, and in Gumbel's share q of the runner's deviation approximates it within
1e-3 over the relevant range (F within 6e-4), and beyond u = 5 it is a straight line. Then
r = -κ' exp(κ) and Π = exp(-Σ_a exp(κ_a)): one exponential per class and node.

*For labels* as a mixture of normal distribution functions. Its tail 1 - F(t) ≈ exp(-t) decides the
weight of an unexpected label: eight normals follow it to t = 18 (relative error 1.8e-3). With a
tail that fell faster, one wrong label would outweigh all the right ones.

Means take NumPy arrays or, given JAX's module as ``xp``, JAX arrays; the moments for expectation
propagation (:func:`class_evidence`) are in NumPy.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products
from parbals.mixture import normal_cdf_and_kernel
from parbals.shapes import Array, Float, Int

__all__ = [
    "GUMBEL_VARIANCE",
    "class_evidence",
    "class_probs",
    "class_slopes",
    "curvatures_from_diagonal",
]

# With the classes first, points are adjacent in memory.
_Logits = Float[Array, "*n C"]
_ByClass = Float[Array, "C n"]

# Shares, centres and widths of the normals whose mixture is Gumbel's distribution.
_GUMBEL_MIXTURE = (
    (0.2146424, 0.3749623, 0.2621601, 0.1083744, 0.0313595, 0.0069878, 0.0013331, 0.0001804),
    (-0.5537495, 0.2174155, 1.0711297, 1.9812598, 2.8369188, 3.4450217, 3.3546688, 1.4108511),
    (0.5338563, 0.7095862, 0.9558699, 1.2978531, 1.754003, 2.3390907, 3.1326606, 4.370179),
)
_KAPPA_COEFFICIENTS = (  # rising powers of u down, of q across; a minimax fit
    (-0.367409, 0.0586395, -0.583904, 2.04911, -4.03146, 3.48061, -1.18368),
    (-1.15057, -0.0366749, 0.32822, -1.28565, 2.00628, -2.13527, 0.990186),
    (-0.201376, -0.153243, 1.60649, -6.21544, 11.3385, -9.47409, 3.10267),
    (-0.0327438, 0.0363102, -0.413958, 1.86029, -3.72079, 3.88658, -1.61588),
    (-0.00332568, 0.0355576, -0.34781, 1.30478, -1.9762, 1.27352, -0.287831),
    (0.000305478, -0.000459858, 0.00953534, -0.0469035, 0.150935, -0.224075, 0.111193),
    (0.000127067, -0.00225238, 0.0178363, -0.0520951, 0.0563576, -0.0138136, -0.00621808),
)
_KAPPA_LINEAR_FROM = 5.0  # standard deviations
_START_LEVEL = 9.0  # Σ exp(κ) where the product Π leaves zero, at 1e-4
_N_START_BISECTIONS = 4
_GUMBEL_MEAN = 0.5772
GUMBEL_VARIANCE = 1.6449
"""Variance that the softmax's Gumbel noise adds to a logit."""
_DEVIATIONS_BELOW = 6.0  # of a runner, that the quadrature for labels covers
_DEVIATIONS_ABOVE = 5.0
_N_BISECTIONS = 8
_LABEL_NODES = 20  # of the quadrature, for a label's probability
_MEAN_NODES = 16  # for means
_RANKING_NODES = 12  # for slopes, which only rank
_NEGLIGIBLE_PROB = 1e-7
_EPS = 1e-37  # guards log and division
_ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))
_BALANCING_ROUNDS = 16
_FEW_ROUNDS = 4


def class_probs(mean: _ByClass, variance: _ByClass, xp: ModuleType = np) -> _ByClass:
    """Class probabilities p (C, n); points are adjacent in memory, which is fast.

    Within 1e-3 where variances differ by a factor of 10, 1e-2 where they differ by 100.

    >>> class_probs(np.zeros((4, 1)), np.ones((4, 1)))[:, 0].round(3)
    array([0.25, 0.25, 0.25, 0.25])
    """
    product, hazard = _hazards(mean, variance, xp)
    hazard *= product
    probs = hazard.sum(axis=0)
    return probs / xp.maximum(probs.sum(axis=0), _EPS)


def _hazards(
    mean: Float[Array, "C *n"],
    variance: Float[Array, "C *n"],
    xp: ModuleType,
    n_nodes: int = _MEAN_NODES,
) -> tuple[Float[Array, "T 1 *n"], Float[Array, "T C *n"]]:
    """w Π and r_a at every node t, w the weights of the quadrature."""
    deviation = xp.sqrt(variance + GUMBEL_VARIANCE)
    inverse_deviation = 1.0 / deviation
    centre = mean + _GUMBEL_MEAN
    gumbel_share = float(np.sqrt(GUMBEL_VARIANCE)) * inverse_deviation  # q
    powers = [xp.ones_like(gumbel_share)]
    for _ in range(1, len(_KAPPA_COEFFICIENTS[0])):
        powers.append(powers[-1] * gumbel_share)
    table = xp.asarray(_KAPPA_COEFFICIENTS, mean.dtype)
    with exact_products(xp):
        constant, *coefficients = xp.tensordot(table, xp.stack(powers), axes=1)

    def kappa(t: Any) -> tuple[Any, Any]:
        """κ of every runner at t, and its slope in u, by Horner's rule."""
        u = t - centre
        u *= inverse_deviation
        near = xp.minimum(u, _KAPPA_LINEAR_FROM)
        u -= near
        slope = coefficients[-1] + xp.zeros_like(near)
        value = coefficients[-1] * near
        for coefficient in coefficients[-2::-1]:
            value += coefficient
            slope *= near
            slope += value
            value *= near
        value += constant
        u *= slope
        value += u
        return value, slope

    def bisect(interval: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = interval
        middle = 0.5 * (low + high)
        is_early = xp.exp(kappa(middle)[0]).sum(axis=0) > _START_LEVEL
        return xp.where(is_early, middle, low), xp.where(is_early, high, middle)

    # Where exp(κ) of one runner alone reaches the level, as a fitted quadratic in q.
    alone = (3.284 * gumbel_share - 1.903) * gumbel_share - 3.588
    low = (centre + alone * deviation).max(axis=0)
    high = (centre + (4.0 + gumbel_share) * deviation).max(axis=0)
    low, _ = _repeat(_N_START_BISECTIONS, bisect, (low, high), xp)
    nodes, weights = _legendre(n_nodes, mean.dtype)
    along_nodes = (-1, *[1] * mean.ndim)
    nodes = nodes.reshape(along_nodes)
    weights = weights.reshape(along_nodes)
    value, slope = kappa(low + 0.5 * (high - low) * (nodes + 1.0))
    value = xp.exp(value)
    product = weights * xp.exp(-value.sum(axis=1, keepdims=True))
    value *= slope
    value *= -inverse_deviation
    return product, value


def class_slopes(
    mean: _ByClass, variance: _ByClass, xp: ModuleType = np
) -> tuple[_ByClass, _ByClass]:
    """Class probabilities p and the diagonal of J, with fewer nodes: for ranking.

    The largest error is 1e-2. No pair of classes is formed.

    >>> probs, slopes = class_slopes(np.zeros((2, 1)), np.zeros((2, 1)))
    >>> probs[:, 0].round(2), slopes[:, 0].round(2)
    (array([0.5, 0.5]), array([0.25, 0.25]))
    """
    product, hazard = _hazards(mean, variance, xp, _RANKING_NODES)
    weighted_hazard = product * hazard
    probs = weighted_hazard.sum(axis=0)
    total = xp.maximum(probs.sum(axis=0), _EPS)
    rivals = hazard.sum(axis=1, keepdims=True) - hazard
    rivals *= weighted_hazard
    return probs / total, rivals.sum(axis=0) / total


def class_evidence(
    mean: _Logits, variance: _Logits, labels: Int[Array, "*n"] | _Logits
) -> tuple[Float[Array, "*n"], _Logits, _Logits]:
    """ln Z, slopes and curvatures of Z = E[softmax(f)_label], or of E[Σ_c w_c softmax(f)_c].

    ``labels`` are class numbers, or w. With r = Σ_c r_c and o = Σ_c w_c r_c the mixture has the
    slopes ∫ Π r_a (w_a r - o) dt and the second derivatives ∫ Π F_a"/F_a (o - w_a r) dt.

    The slopes are α = ∂ ln Z / ∂m. The Hessian -∂² ln Z / ∂m² has the vector of ones in its null
    space, as diag(β) - β βᵀ / Σβ has. The curvatures lie between that Hessian's diagonal and the β
    whose diagonal agrees with it: given the label, class a's logit has mean m_a + v_a α_a and is
    taken to have variance v_a - v_a² β_a, independent of the other classes, for which β itself is
    too much where one class is nearly certain.

    >>> log_evidence, slopes, curvatures = class_evidence(
    ...     np.zeros((1, 3)), np.ones((1, 3)), np.array([0])
    ... )
    >>> np.exp(log_evidence).round(2)
    array([0.33])
    """
    runners = _runners(mean, variance)
    hazard = runners.density / runners.cdf
    product = runners.weights * np.exp(np.log(runners.cdf).sum(axis=-1))
    if labels.ndim == mean.ndim:
        derivatives = _likelihood_derivatives(runners, hazard, product, labels)
    else:
        is_label = labels[..., None] == np.arange(mean.shape[-1])
        derivatives = _label_derivatives(runners, hazard, product, is_label)
    evidence, slopes, second = derivatives
    diagonal = np.square(slopes) - second / evidence[..., None]
    diagonal = np.maximum(diagonal, 1e-14 / (1.0 + variance))  # on the scale of wide logits
    # Beyond the mixture's tail a label's slope would exceed any softmax's: α_label ≤ 1.
    slopes = slopes / np.maximum(slopes.max(axis=-1, keepdims=True), 1.0)
    return np.log(evidence), slopes, curvatures_from_diagonal(diagonal, np, _FEW_ROUNDS)


class _Runners(NamedTuple):
    """The runners of the race at the nodes of the quadrature, for labels."""

    weights: Float[Array, "*n T"]  # of the nodes
    cdf: Float[Array, "*n T C"]  # F
    density: Float[Array, "*n T C"]  # F'
    density_slope: Float[Array, "*n T C"]  # F"


class _Derivatives(NamedTuple):
    """Z, the slopes of ln Z and the second derivatives of Z, in the means."""

    evidence: Float[Array, "*n"]
    slopes: Float[Array, "*n C"]
    second: Float[Array, "*n C"]


def _likelihood_derivatives(
    runners: _Runners, hazard: np.ndarray, product: np.ndarray, likelihoods: np.ndarray
) -> _Derivatives:
    """Derivatives of Z = E[Σ_c w_c softmax(f)_c], with likelihoods w (..., C)."""
    w = likelihoods[..., None, :]
    weighted_hazard = (hazard * w).sum(axis=-1)
    difference = w * hazard.sum(axis=-1)[..., None] - weighted_hazard[..., None]
    difference = product[..., None] * difference
    evidence = np.maximum((product * weighted_hazard).sum(axis=-1), _EPS)
    slopes = (difference * hazard).sum(axis=-2) / evidence[..., None]
    second = -(difference * runners.density_slope / runners.cdf).sum(axis=-2)
    return _Derivatives(evidence, slopes, second)


def _label_derivatives(
    runners: _Runners, hazard: np.ndarray, product: np.ndarray, is_label: np.ndarray
) -> _Derivatives:
    """Derivatives of Z = E[softmax(f)_label], with one-hot labels (..., C)."""
    label_hazard = (hazard * is_label[..., None, :]).sum(axis=-1)  # (..., T)
    joint = product * label_hazard
    evidence = np.maximum(joint.sum(axis=-1), _EPS)
    others = np.where(is_label, 0.0, -(joint[..., None] * hazard).sum(axis=-2))
    slopes = np.where(is_label, -others.sum(axis=-1, keepdims=True), others) / evidence[..., None]
    second = (joint[..., None] * runners.density_slope / runners.cdf).sum(axis=-2)
    # The label's own density is differentiated twice; by parts, once, against the other runners.
    rivals = product[..., None] * (hazard.sum(axis=-1) - label_hazard)[..., None]
    label_second = -(rivals * runners.density_slope / runners.cdf).sum(axis=-2)
    return _Derivatives(evidence, slopes, np.where(is_label, label_second, second))


def curvatures_from_diagonal(
    diagonal: Float[Array, "*n"],
    xp: ModuleType,
    n_rounds: int = _BALANCING_ROUNDS,
    *,
    axis: int = -1,
) -> Float[Array, "*n"]:
    """β such that diag(β) - β βᵀ / Σβ has the given diagonal: β_a - β_a² / Σβ = diagonal_a.

    Classes lie along ``axis``. The fixed-point iteration converges slowly where one class has
    nearly all of the sum.

    >>> curvatures_from_diagonal(np.array([0.25, 0.25]), np).round(3)
    array([0.5, 0.5])
    """

    def update(curvature: Any) -> Any:
        total = xp.maximum(curvature.sum(axis=axis, keepdims=True), _EPS)
        return diagonal + xp.square(curvature) / total

    return _repeat(n_rounds, update, diagonal, xp)


def _quadrature_range(
    mean: _Logits, variance: _Logits
) -> tuple[Float[Array, "*n 1"], Float[Array, "*n 1"]]:
    """Where the product of all distribution functions leaves zero, and where it reaches one.

    With more runners it leaves zero later, because the best of them is seldom slow: found by
    bisection.
    """
    deviation = np.sqrt(variance + GUMBEL_VARIANCE)
    inverse_deviation = 1.0 / deviation
    centre = mean + _GUMBEL_MEAN
    offset = centre * inverse_deviation
    low = (centre - _DEVIATIONS_BELOW * deviation).max(axis=-1, keepdims=True)
    high = (centre + _DEVIATIONS_ABOVE * deviation).max(axis=-1, keepdims=True)
    # A probability that is not normalised needs the whole range of the fastest of C runners.
    high = high + float(np.log(mean.shape[-1]))

    def bisect(interval: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = interval
        middle = 0.5 * (low + high)
        cdf, _ = normal_cdf_and_kernel(middle * inverse_deviation - offset)
        is_early = cdf.prod(axis=-1, keepdims=True) < _NEGLIGIBLE_PROB
        return np.where(is_early, middle, low), np.where(is_early, high, middle)

    start, _ = _repeat(_N_BISECTIONS, bisect, (low, high), np)
    return start, high


def _repeat(times: int, step: Callable[[Any], Any], state: Any, xp: ModuleType) -> Any:
    """Apply a step several times; in JAX a loop, which compiles faster than its copies."""
    if xp is not np:
        import jax

        return jax.lax.fori_loop(0, times, lambda _, inner: step(inner), state)
    for _ in range(times):
        state = step(state)
    return state


def _runners(mean: _Logits, variance: _Logits) -> _Runners:
    """Quadrature weights and F, F', F" of every runner, for labels."""
    nodes, weights = _legendre(_LABEL_NODES, mean.dtype)
    low, high = _quadrature_range(mean, variance)
    half = 0.5 * (high - low)
    t = low + half * (nodes + 1.0)
    terms_first = (-1, *[1] * (mean.ndim + 1))  # sums over a short last axis take thrice as long
    mixture = [np.asarray(values, mean.dtype).reshape(terms_first) for values in _GUMBEL_MIXTURE]
    share, centre, width = mixture
    scale = 1.0 / np.sqrt(variance[..., None, :] + np.square(width))
    z = (t[..., :, None] - mean[..., None, :] - centre) * scale  # (terms, ..., T, C)
    cdf, kernel = normal_cdf_and_kernel(z)
    density = (share / _ROOT_TWO_PI) * scale * kernel
    return _Runners(
        weights=half * weights,
        # A floor, because a label, however improbable, needs the far tail.
        cdf=np.maximum((share * cdf).sum(axis=0), _EPS),
        density=density.sum(axis=0),
        density_slope=-(z * scale * density).sum(axis=0),
    )


@cache
def _legendre(n_nodes: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return nodes.astype(dtype), weights.astype(dtype)
