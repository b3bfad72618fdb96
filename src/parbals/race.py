"""The softmax of normal logits by one-dimensional quadrature, for any number of classes.

A softmax is a race: with independent Gumbel noise g_a the class of the largest f_a + g_a is a with
probability softmax(f)_a. For independent logits f_a ~ N(m_a, v_a) the runner f_a + g_a has
distribution function F_a and density F_a', so with Π(t) = Π_a F_a(t) and r_a = F_a' / F_a

    p_a = E[softmax(f)_a]          = ∫ Π r_a dt,
    J_ab = E[∂ softmax(f)_a / ∂f_b] = -∫ Π r_a r_b dt   (a ≠ b; rows of J sum to zero),

because derivatives in f are derivatives in m. The Gumbel distribution is written as a mixture of
normals, so F_a is a mixture of normal distribution functions whatever the variance. Its tail
1 - F(t) ≈ exp(-t) decides between many runners, and over a label that nobody expected: five normals
follow it to t = 7 (relative error 2.5e-3) for means, eight to t = 18 (1.8e-3) for labels; a tail
that fell faster would let one wrong label outweigh all the right ones. Functions take NumPy arrays
and, given JAX's modules, JAX's.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from parbals.mixture import normal

__all__ = ["balanced", "class_evidence", "class_means", "class_probs", "class_slopes"]

# Shares, centres and widths of the normals.
_FOR_LABELS = (
    (0.2146424, 0.3749623, 0.2621601, 0.1083744, 0.0313595, 0.0069878, 0.0013331, 0.0001804),
    (-0.5537495, 0.2174155, 1.0711297, 1.9812598, 2.8369188, 3.4450217, 3.3546688, 1.4108511),
    (0.5338563, 0.7095862, 0.9558699, 1.2978531, 1.754003, 2.3390907, 3.1326606, 4.370179),
)
_FOR_MEANS = (
    (0.27087183, 0.39840512, 0.23977177, 0.07771829, 0.01323298),
    (-0.44448552, 0.38654816, 1.29472108, 2.37157334, 3.56850017),
    (0.57170687, 0.7827319, 1.09181868, 1.51144011, 2.2371945),
)
_COARSE = (
    (0.510754, 0.415578, 0.073668),
    (-0.125028, 1.076097, 2.509156),
    (0.716666, 1.109016, 1.900671),
)
_CENTRE, _VARIANCE = 0.5772, 1.6449  # of the Gumbel distribution
_BELOW, _ABOVE = 6.0, 5.0  # deviations of a runner that the quadrature covers
_NODES, _FEW_NODES = 20, 12  # for a label's probability, and for means
_NOTHING = 1e-7  # a probability that does not count
_LEAST, _SMALL = 1e-37, 1e-9
_ROOT = float(np.sqrt(2.0 * np.pi))
_ROUNDS, _FEW_ROUNDS = 16, 4


def class_means(mean: Any, variance: Any, xp: ModuleType = np) -> tuple[Any, Any]:
    """p (..., C) and J (..., C, C) of f_a ~ N(mean_a, variance_a), both (..., C)."""
    weights, (below, density) = _runners(mean, variance, 1, xp, _FOR_MEANS)
    hazard = density / below
    product = weights * xp.exp(xp.log(below).sum(axis=-1))
    pulled = product[..., None] * hazard  # (..., T, C)
    probs = pulled.sum(axis=-2)
    total = probs.sum(axis=-1, keepdims=True)
    crossed = xp.swapaxes(pulled, -1, -2) @ hazard / total[..., None]
    apart = 1.0 - xp.eye(mean.shape[-1], dtype=mean.dtype)
    crossed = crossed * apart
    return probs / total, crossed.sum(axis=-1)[..., None] * (1.0 - apart) - crossed


def class_probs(mean: Any, variance: Any, xp: ModuleType = np) -> Any:
    """p (C, n) alone, of (C, n): a twentieth of the time of :func:`class_means`."""
    _, pulled = _side_by_side(mean, variance, _FOR_MEANS, xp)
    probs = pulled.sum(axis=0)
    return probs / xp.maximum(probs.sum(axis=0), _LEAST)


def class_slopes(mean: Any, variance: Any, xp: ModuleType = np) -> tuple[Any, Any]:
    """p and the diagonal of J, both (C, n), from three normals (largest error 1e-2): to rank by.

    No pair of classes is formed.
    """
    hazard, pulled = _side_by_side(mean, variance, _COARSE, xp)
    probs = pulled.sum(axis=0)
    total = xp.maximum(probs.sum(axis=0), _LEAST)
    rivals = hazard.sum(axis=1, keepdims=True) - hazard
    rivals *= pulled
    return probs / total, rivals.sum(axis=0) / (total * _ROOT)


def _side_by_side(
    mean: Any, variance: Any, mixture: tuple[Any, Any, Any], xp: ModuleType
) -> tuple[Any, Any]:
    """√2π r_a and w Π r_a at every node t, (T, C, n).

    Points lie side by side in memory, as a processor wants them.
    """
    low, high = _ends(mean, variance, 0, xp)
    nodes, weights = (x[:, None, None] for x in _legendre(_FEW_NODES, mean.dtype))
    t = low + 0.5 * (high - low) * (nodes + 1.0) - mean
    below, density = xp.zeros_like(t), xp.zeros_like(t)
    for share, centre, width in zip(*mixture, strict=True):
        scale = 1.0 / xp.sqrt(variance + width**2)
        under, bell = normal((t - centre) * scale, xp)
        under *= share
        bell *= share * scale
        below += under
        density += bell
    below = xp.maximum(below, _SMALL)
    density /= below
    return density, weights * below.prod(axis=1, keepdims=True) * density


def class_evidence(
    mean: Any, variance: Any, labels: Any, xp: ModuleType = np
) -> tuple[Any, Any, Any]:
    """ln Z (n,), slopes and curvatures (n, C) of Z = E[softmax(f)_label].

    The slopes are α = ∂ ln Z / ∂m. The Hessian -∂² ln Z / ∂m² has the vector of ones in its null
    space, as diag(β) - β βᵀ / Σβ has. The curvatures lie between that Hessian's diagonal and the β
    whose diagonal agrees with it: given the label, class a's logit has mean m_a + v_a α_a and is
    taken to have variance v_a - v_a² β_a, independent of the other classes, for which β itself is
    too much where one class is nearly certain.
    """
    weights, (below, density, bend) = _runners(mean, variance, 2, xp, _FOR_LABELS)
    n_classes = mean.shape[-1]
    is_own = labels[..., None] == xp.arange(n_classes)
    hazard = density / below
    product = weights * xp.exp(xp.log(below).sum(axis=-1))
    own = (hazard * is_own[..., None, :]).sum(axis=-1)  # (..., T)
    joint = product * own
    evidence = xp.maximum(joint.sum(axis=-1), _LEAST)
    others = xp.where(is_own, 0.0, -(joint[..., None] * hazard).sum(axis=-2))
    slopes = xp.where(is_own, -others.sum(axis=-1, keepdims=True), others) / evidence[..., None]
    second = (joint[..., None] * bend / below).sum(axis=-2)
    # The own runner's density is differentiated twice; by parts, once, against the other runners.
    rivals = product[..., None] * (hazard.sum(axis=-1) - own)[..., None]
    own_second = -(rivals * bend / below).sum(axis=-2)
    second = xp.where(is_own, own_second, second)
    diagonal = xp.square(slopes) - second / evidence[..., None]
    diagonal = xp.maximum(diagonal, 1e-14 / (1.0 + variance))  # of the size that wide logits have
    # Beyond the mixture's tail a label would pull harder than any softmax can: α_label ≤ 1.
    slopes = slopes / xp.maximum(slopes.max(axis=-1, keepdims=True), 1.0)
    return xp.log(evidence), slopes, balanced(diagonal, xp, _FEW_ROUNDS)


def balanced(diagonal: Any, xp: ModuleType, rounds: int = _ROUNDS, *, axis: int = -1) -> Any:
    """β with β_a - β_a² / Σβ = diagonal_a: diag(β) - β βᵀ / Σβ has that diagonal.

    Classes lie along ``axis``. Every round comes closer, slowly where one class has nearly all of
    the sum.
    """

    def nearer(curvature: Any) -> Any:
        total = xp.maximum(curvature.sum(axis=axis, keepdims=True), _LEAST)
        return diagonal + xp.square(curvature) / total

    return _repeated(rounds, nearer, diagonal, xp)


def _ends(
    mean: Any, variance: Any, axis: int, xp: ModuleType, later: float = 0.0
) -> tuple[Any, Any]:
    """Where the product of all distribution functions leaves zero, and where it has reached one.

    The more runners, the later it leaves, their best being seldom slow: found by bisection.
    """
    deviation = xp.sqrt(variance + _VARIANCE)
    slope = 1.0 / deviation
    offset = (mean + _CENTRE) * slope
    low = (mean + _CENTRE - _BELOW * deviation).max(axis=axis, keepdims=True)
    high = (mean + _CENTRE + _ABOVE * deviation).max(axis=axis, keepdims=True) + later

    def halved(ends: tuple[Any, Any]) -> tuple[Any, Any]:
        middle = 0.5 * (ends[0] + ends[1])
        below, _ = normal(middle * slope - offset, xp)
        is_early = below.prod(axis=axis, keepdims=True) < _NOTHING
        return xp.where(is_early, middle, ends[0]), xp.where(is_early, ends[1], middle)

    return _repeated(8, halved, (low, high), xp)[0], high


def _repeated(times: int, step: Callable[[Any], Any], state: Any, xp: ModuleType) -> Any:
    """The step applied again and again; in JAX a loop, which compiles faster than its copies."""
    if xp is not np:
        import jax

        return jax.lax.fori_loop(0, times, lambda _, inner: step(inner), state)
    for _ in range(times):
        state = step(state)
    return state


def _runners(
    mean: Any, variance: Any, order: int, xp: ModuleType, mixture: tuple[Any, Any, Any]
) -> tuple[Any, list[Any]]:
    """Quadrature weights (..., T) and F, F', ... up to ``order`` of every runner, (..., T, C)."""
    nodes, weights = _legendre(_NODES if order == 2 else _FEW_NODES, mean.dtype)
    # A probability that is not normalised needs the fastest of C runners whole.
    later = float(np.log(mean.shape[-1])) if order == 2 else 0.0
    low, high = _ends(mean, variance, -1, xp, later)
    half = 0.5 * (high - low)
    t = low + half * (nodes + 1.0)
    share, centre, width = (xp.asarray(x, mean.dtype) for x in mixture)
    scale = 1.0 / xp.sqrt(variance[..., None, :, None] + xp.square(width))
    z = ((t[..., :, None] - mean[..., None, :])[..., None] - centre) * scale  # (..., T, C, terms)
    below, bell = normal(z, xp)
    density = (share / _ROOT) * scale * bell
    values = [(share * below).sum(axis=-1), density.sum(axis=-1)]
    if order == 2:
        values.append(-(z * scale * density).sum(axis=-1))
    # Only the probability of a given label, however improbable, needs the far tail.
    values[0] = xp.maximum(values[0], _LEAST if order == 2 else _SMALL)
    return half * weights, values


@cache
def _legendre(n_nodes: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return nodes.astype(dtype), weights.astype(dtype)
