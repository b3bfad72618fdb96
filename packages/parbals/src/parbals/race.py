"""Expectations of a softmax over normal logits by one-dimensional quadrature, for many classes.

The Gumbel-max trick makes a softmax a race. Each class a has a *runner* f_a + g_a: its logit plus
independent Gumbel noise. Class a wins, which means that its runner is the largest, with probability
softmax(f)_a. For independent logits f_a ~ N(m_a, v_a) let F_a be the distribution function of the
runner, P(t) = Π_a F_a(t) the probability that no runner exceeds t, and r_a = F_a' / F_a, called the
hazard here. Then, t being the value of the winner,

    p_a = E[softmax(f)_a]          = ∫ P r_a dt,
    J_ab = E[∂ softmax(f)_a / ∂f_b] = -∫ P r_a r_b dt   (a ≠ b; rows of J sum to zero),

because derivatives in f are derivatives in m. F_a is the Gumbel distribution exp(-exp(-t)) smoothed
by a normal of variance v_a. It has no closed form; two approximations serve two purposes.

*For class probabilities and J*, F = exp(-exp(κ)). At v = 0 κ is -t, and it bends only gently as v
grows, so it is approximated by a polynomial in u and q. Here u is t less the runner's mean, divided
by the runner's standard deviation, and q is the standard deviation of Gumbel noise divided by the
runner's. The error of κ is at most 1e-3 over the relevant range (of F: 6e-4), and beyond u = 5 a
straight line continues the polynomial. Then r = -κ' exp(κ) and P = exp(-Σ_a exp(κ_a)): one
exponential per class and node of the quadrature.

*For the evidence of labels*, F is a mixture of normal distribution functions. The weight of an
unexpected label depends on the tail 1 - F(t) ≈ exp(-t), which eight normals follow to t = 18
(relative error 1.8e-3). With a tail that fell faster, one wrong label would outweigh all the right
ones.

:func:`class_probs` and :func:`class_slopes` take NumPy arrays or, with ``xp=jax.numpy``, JAX
arrays; :func:`class_evidence`, for expectation propagation, takes NumPy arrays only.
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

# With the classes on the first axis, the points of a class are adjacent in memory, which is faster.
_Logits = Float[Array, "*n C"]
_ByClass = Float[Array, "C n"]

# Weights, means and standard deviations of the normals whose mixture is the Gumbel distribution.
_GUMBEL_MIXTURE = (
    (0.2146424, 0.3749623, 0.2621601, 0.1083744, 0.0313595, 0.0069878, 0.0013331, 0.0001804),
    (-0.5537495, 0.2174155, 1.0711297, 1.9812598, 2.8369188, 3.4450217, 3.3546688, 1.4108511),
    (0.5338563, 0.7095862, 0.9558699, 1.2978531, 1.754003, 2.3390907, 3.1326606, 4.370179),
)
_KAPPA_COEFFICIENTS = (  # a minimax fit; rows are rising powers of u, columns of q
    (-0.367409, 0.0586395, -0.583904, 2.04911, -4.03146, 3.48061, -1.18368),
    (-1.15057, -0.0366749, 0.32822, -1.28565, 2.00628, -2.13527, 0.990186),
    (-0.201376, -0.153243, 1.60649, -6.21544, 11.3385, -9.47409, 3.10267),
    (-0.0327438, 0.0363102, -0.413958, 1.86029, -3.72079, 3.88658, -1.61588),
    (-0.00332568, 0.0355576, -0.34781, 1.30478, -1.9762, 1.27352, -0.287831),
    (0.000305478, -0.000459858, 0.00953534, -0.0469035, 0.150935, -0.224075, 0.111193),
    (0.000127067, -0.00225238, 0.0178363, -0.0520951, 0.0563576, -0.0138136, -0.00621808),
)
_KAPPA_LINEAR_FROM = 5.0  # u beyond which κ is a straight line
_START_LEVEL = 9.0  # Σ exp(κ) at the start of the quadrature: P = exp(-9) ≈ 1e-4
_N_START_BISECTIONS = 4
_GUMBEL_MEAN = 0.5772
GUMBEL_VARIANCE = 1.6449
"""Variance that the softmax's Gumbel noise adds to a logit."""
# The quadrature for labels covers so many standard deviations of a runner around its mean.
_DEVIATIONS_BELOW = 6.0
_DEVIATIONS_ABOVE = 5.0
_N_BISECTIONS = 8
# Numbers of nodes of the quadrature.
_LABEL_NODES = 20  # for the evidence of labels
_MEAN_NODES = 16  # for class probabilities
_RANKING_NODES = 12  # for slopes, which need only be good enough to rank candidates
_NEGLIGIBLE_PROB = 1e-7
_EPS = 1e-37  # guards log and division
_ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))
_N_CURVATURE_ROUNDS = 16  # of the fixed-point iteration: enough to converge in most cases
_N_LABEL_CURVATURE_ROUNDS = 4  # stops early on purpose, see class_evidence


def class_probs(mean: _ByClass, variance: _ByClass, xp: ModuleType = np) -> _ByClass:
    """Class probabilities p (C, n) of n points.

    The error is at most 1e-3 if the variances of a point's logits differ by up to a factor of 10,
    and 1e-2 if they differ by up to 100.

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
    """At every node t: P(t) times the weight of the node, and the hazards r_a(t).

    Probabilities and slopes are sums over nodes that are normalised later, so the length of the
    interval is left out of the weights.
    """
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
        """κ of every runner at t, and its slope dκ/du, by Horner's rule."""
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
        """Halve an interval that contains the start of the quadrature."""
        low, high = interval
        middle = 0.5 * (low + high)
        is_early = xp.exp(kappa(middle)[0]).sum(axis=0) > _START_LEVEL
        return xp.where(is_early, middle, low), xp.where(is_early, high, middle)

    # The u at which exp(κ) of a single runner is at the start level, as a fitted quadratic in q.
    start_of_one_runner = (3.284 * gumbel_share - 1.903) * gumbel_share - 3.588
    low = (centre + start_of_one_runner * deviation).max(axis=0)
    high = (centre + (4.0 + gumbel_share) * deviation).max(axis=0)  # P is about one from here on
    low, _ = _repeat(_N_START_BISECTIONS, bisect, (low, high), xp)
    nodes, weights = _legendre(n_nodes, mean.dtype)
    along_nodes = (-1, *[1] * mean.ndim)
    nodes = nodes.reshape(along_nodes)
    weights = weights.reshape(along_nodes)
    kappas, slopes = kappa(low + 0.5 * (high - low) * (nodes + 1.0))
    hazard = xp.exp(kappas)
    product = weights * xp.exp(-hazard.sum(axis=1, keepdims=True))
    hazard *= slopes
    hazard *= -inverse_deviation  # r = -exp(κ) dκ/dt, and du/dt is the inverse deviation
    return product, hazard


def class_slopes(
    mean: _ByClass, variance: _ByClass, xp: ModuleType = np
) -> tuple[_ByClass, _ByClass]:
    """Class probabilities p and the diagonal of J, accurate enough for ranking.

    With few nodes, the largest error is 1e-2. J_aa = -Σ_b J_ab (b ≠ a) is computed from sums over
    classes, without the (C, C) matrix.

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
    """ln Z, slopes and curvatures of the evidence Z of labels.

    If ``labels`` (*n) are class numbers, Z = E[softmax(f)_label]. If they are likelihoods w (*n, C)
    of the classes, Z = E[Σ_c w_c softmax(f)_c]. With r = Σ_c r_c and o = Σ_c w_c r_c, that Z has
    the derivatives ∫ P r_a (w_a r - o) dt and the second derivatives ∫ P F_a"/F_a (o - w_a r) dt.

    Expectation propagation treats the logits as independent: given the label, class a's logit has
    mean m_a + v_a α_a and variance v_a - v_a² β_a. The slopes are α = ∂ ln Z / ∂m. The curvatures
    β lie between two candidates. One is the diagonal of the Hessian H = -∂² ln Z / ∂m². The other
    makes use of the null space of H, which contains the vector of ones, as that of the matrix
    diag(β) - β βᵀ / Σβ does: it is the β for which this matrix has the diagonal of H. That β is too
    large where one class is nearly certain, so the iteration that leads to it stops early.

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
    # Positive in spite of rounding, and small even for logits of large variance.
    diagonal = np.maximum(diagonal, 1e-14 / (1.0 + variance))
    # The slope of ln softmax is at most 1. Where the mixture's tail is no longer accurate, the
    # computed slope may be larger.
    slopes = slopes / np.maximum(slopes.max(axis=-1, keepdims=True), 1.0)
    curvatures = curvatures_from_diagonal(diagonal, np, _N_LABEL_CURVATURE_ROUNDS)
    return np.log(evidence), slopes, curvatures


class _Runners(NamedTuple):
    """The runners of the race at the nodes of the quadrature, for labels."""

    weights: Float[Array, "*n T"]  # of the nodes
    cdf: Float[Array, "*n T C"]  # F
    density: Float[Array, "*n T C"]  # F'
    density_slope: Float[Array, "*n T C"]  # F"


class _Derivatives(NamedTuple):
    """Z, the slopes of ln Z, and the second derivatives of Z, with respect to the means m_a."""

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
    # For the label's own mean, integration by parts avoids the third derivative of its F.
    rivals = product[..., None] * (hazard.sum(axis=-1) - label_hazard)[..., None]
    label_second = -(rivals * runners.density_slope / runners.cdf).sum(axis=-2)
    return _Derivatives(evidence, slopes, np.where(is_label, label_second, second))


def curvatures_from_diagonal(
    diagonal: Float[Array, "*n"],
    xp: ModuleType,
    n_rounds: int = _N_CURVATURE_ROUNDS,
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
    """The interval of t in which P rises from about zero to about one.

    The more runners there are, the larger is the smallest plausible value of the winner: the start
    of the interval is found by bisection, with normal distributions in place of the F_a.
    """
    deviation = np.sqrt(variance + GUMBEL_VARIANCE)
    inverse_deviation = 1.0 / deviation
    centre = mean + _GUMBEL_MEAN
    offset = centre * inverse_deviation
    low = (centre - _DEVIATIONS_BELOW * deviation).max(axis=-1, keepdims=True)
    high = (centre + _DEVIATIONS_ABOVE * deviation).max(axis=-1, keepdims=True)
    # The maximum of C Gumbel variables is larger than one of them by ln C. Evidence is not
    # normalised afterwards, as class probabilities are, and so needs the whole range.
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
    """Apply a step several times; in JAX as a loop, which compiles faster than unrolled steps."""
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
    terms_first = (-1, *[1] * (mean.ndim + 1))  # sums over a short last axis are slow
    mixture = [np.asarray(values, mean.dtype).reshape(terms_first) for values in _GUMBEL_MIXTURE]
    share, centre, width = mixture
    scale = 1.0 / np.sqrt(variance[..., None, :] + np.square(width))
    z = (t[..., :, None] - mean[..., None, :] - centre) * scale  # (terms, ..., T, C)
    cdf, kernel = normal_cdf_and_kernel(z)
    density = (share / _ROOT_TWO_PI) * scale * kernel
    return _Runners(
        weights=half * weights,
        # F is a divisor and in a logarithm; far below a runner's mean it underflows to zero.
        cdf=np.maximum((share * cdf).sum(axis=0), _EPS),
        density=density.sum(axis=0),
        density_slope=-(z * scale * density).sum(axis=0),
    )


@cache
def _legendre(n_nodes: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return nodes.astype(dtype), weights.astype(dtype)
