"""The softmax of normal logits by one-dimensional quadrature, for any number of classes.

A softmax is a race: with independent Gumbel noise g_a the class of the largest f_a + g_a is a with
probability softmax(f)_a. For independent logits f_a ~ N(m_a, v_a) the runner f_a + g_a has
distribution function F_a and density F_a', so with Π(t) = Π_a F_a(t) and r_a = F_a' / F_a

    p_a = E[softmax(f)_a]          = ∫ Π r_a dt,
    J_ab = E[∂ softmax(f)_a / ∂f_b] = -∫ Π r_a r_b dt   (a ≠ b; rows of J sum to zero),

because derivatives in f are derivatives in m. F_a is the Gumbel distribution exp(-exp(-t)) smoothed
by a normal of variance v_a, and known in two forms.

*For means* as exp(-exp(κ)): κ(u, q) is -t at v = 0, bends only gently when v grows, and a
polynomial in the standardised t, u, and in the share q of Gumbel's in the deviation of the runner
follows it within 1e-3 wherever a runner is seen (F within 6e-4), beyond u = 5 a straight line. Then
r = -κ' exp(κ) and Π = exp(-Σ_a exp(κ_a)): one exponential a class and node.

*For labels* as a mixture of normal distribution functions. Its tail
1 - F(t) ≈ exp(-t) decides over a label that nobody expected: eight normals follow it to t = 18
(relative error 1.8e-3); a tail that fell faster would let one wrong label outweigh all the right
ones.

Means are of NumPy arrays and, given JAX's modules, of JAX's; labels are learnt by NumPy.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from parbals.arrays import exact_products
from parbals.mixture import normal
from parbals.shapes import Array, Float, Int

__all__ = ["GUMBEL_VARIANCE", "balanced", "class_evidence", "class_probs", "class_slopes"]

# Classes last, or first: points then lie side by side.
_Logits = Float[Array, "*n C"]
_ByClass = Float[Array, "C n"]

# Shares, centres and widths of the normals.
_FOR_LABELS = (
    (0.2146424, 0.3749623, 0.2621601, 0.1083744, 0.0313595, 0.0069878, 0.0013331, 0.0001804),
    (-0.5537495, 0.2174155, 1.0711297, 1.9812598, 2.8369188, 3.4450217, 3.3546688, 1.4108511),
    (0.5338563, 0.7095862, 0.9558699, 1.2978531, 1.754003, 2.3390907, 3.1326606, 4.370179),
)
_CURVE = (  # of κ: rising powers of u down, of q across; a minimax fit
    (-0.367409, 0.0586395, -0.583904, 2.04911, -4.03146, 3.48061, -1.18368),
    (-1.15057, -0.0366749, 0.32822, -1.28565, 2.00628, -2.13527, 0.990186),
    (-0.201376, -0.153243, 1.60649, -6.21544, 11.3385, -9.47409, 3.10267),
    (-0.0327438, 0.0363102, -0.413958, 1.86029, -3.72079, 3.88658, -1.61588),
    (-0.00332568, 0.0355576, -0.34781, 1.30478, -1.9762, 1.27352, -0.287831),
    (0.000305478, -0.000459858, 0.00953534, -0.0469035, 0.150935, -0.224075, 0.111193),
    (0.000127067, -0.00225238, 0.0178363, -0.0520951, 0.0563576, -0.0138136, -0.00621808),
)
_STRAIGHT = 5.0  # deviations from which κ is
_EXPECTED, _SEARCHES = 9.0, 4  # Σ exp(κ) where the product leaves zero, at 1e-4
_CENTRE = 0.5772  # of the Gumbel distribution
GUMBEL_VARIANCE = 1.6449
"""Of what the softmax adds to a logit."""
_BELOW, _ABOVE = 6.0, 5.0  # deviations of a runner that the quadrature covers
_NODES, _MEAN_NODES, _FEW_NODES = 20, 16, 12  # for a label's probability, for means, to rank by
_NOTHING = 1e-7  # a probability that does not count
_LEAST = 1e-37
_ROOT = float(np.sqrt(2.0 * np.pi))
_ROUNDS, _FEW_ROUNDS = 16, 4


def class_probs(mean: _ByClass, variance: _ByClass, xp: ModuleType = np) -> _ByClass:
    """p alone; points lie side by side in memory, as a processor wants them.

    Within 1e-3 where variances differ by a factor of 10, 1e-2 where they differ by 100.
    """
    product, hazard = _hazards(mean, variance, xp)
    hazard *= product
    probs = hazard.sum(axis=0)
    return probs / xp.maximum(probs.sum(axis=0), _LEAST)


def _hazards(
    mean: Float[Array, "C *n"],
    variance: Float[Array, "C *n"],
    xp: ModuleType,
    n_nodes: int = _MEAN_NODES,
) -> tuple[Float[Array, "T 1 *n"], Float[Array, "T C *n"]]:
    """w Π and r_a at every node t."""
    deviation = xp.sqrt(variance + GUMBEL_VARIANCE)
    slope, start = 1.0 / deviation, mean + _CENTRE
    share = float(np.sqrt(GUMBEL_VARIANCE)) * slope
    powers = [xp.ones_like(share)]
    for _ in range(1, len(_CURVE[0])):
        powers.append(powers[-1] * share)
    with exact_products(xp):
        lowest, *curve = xp.tensordot(xp.asarray(_CURVE, mean.dtype), xp.stack(powers), axes=1)

    def level(t: Any) -> tuple[Any, Any]:
        """κ of every runner at t, and its slope in u."""
        u = t - start
        u *= slope
        near = xp.minimum(u, _STRAIGHT)
        u -= near
        bend = curve[-1] + xp.zeros_like(near)
        value = curve[-1] * near
        for coefficient in curve[-2::-1]:
            value += coefficient
            bend *= near
            bend += value
            value *= near
        value += lowest
        u *= bend
        value += u
        return value, bend

    def halved(ends: tuple[Any, Any]) -> tuple[Any, Any]:
        middle = 0.5 * (ends[0] + ends[1])
        is_early = xp.exp(level(middle)[0]).sum(axis=0) > _EXPECTED
        return xp.where(is_early, middle, ends[0]), xp.where(is_early, ends[1], middle)

    early = (3.284 * share - 1.903) * share - 3.588  # where exp(κ) alone is as much
    low = (start + early * deviation).max(axis=0)
    high = (start + (4.0 + share) * deviation).max(axis=0)
    low = _repeated(_SEARCHES, halved, (low, high), xp)[0]
    nodes, weights = (x.reshape(-1, *[1] * mean.ndim) for x in _legendre(n_nodes, mean.dtype))
    value, bend = level(low + 0.5 * (high - low) * (nodes + 1.0))
    value = xp.exp(value)
    product = weights * xp.exp(-value.sum(axis=1, keepdims=True))
    value *= bend
    value *= -slope
    return product, value


def class_slopes(
    mean: _ByClass, variance: _ByClass, xp: ModuleType = np
) -> tuple[_ByClass, _ByClass]:
    """p and the diagonal of J, from fewer nodes (largest error 1e-2): to rank by.

    No pair of classes is formed.
    """
    product, hazard = _hazards(mean, variance, xp, _FEW_NODES)
    pulled = product * hazard
    probs = pulled.sum(axis=0)
    total = xp.maximum(probs.sum(axis=0), _LEAST)
    rivals = hazard.sum(axis=1, keepdims=True) - hazard
    rivals *= pulled
    return probs / total, rivals.sum(axis=0) / total


def class_evidence(
    mean: _Logits, variance: _Logits, labels: Int[Array, "*n"] | _Logits
) -> tuple[Float[Array, "*n"], _Logits, _Logits]:
    """ln Z, slopes and curvatures of Z = E[softmax(f)_label], or of E[Σ_c w_c softmax(f)_c].

    ``labels`` are class numbers, or w. With r = Σ_c r_c and o = Σ_c w_c r_c the mix has the slopes
    ∫ Π r_a (w_a r - o) dt and the second derivatives ∫ Π F_a"/F_a (o - w_a r) dt.

    The slopes are α = ∂ ln Z / ∂m. The Hessian -∂² ln Z / ∂m² has the vector of ones in its null
    space, as diag(β) - β βᵀ / Σβ has. The curvatures lie between that Hessian's diagonal and the β
    whose diagonal agrees with it: given the label, class a's logit has mean m_a + v_a α_a and is
    taken to have variance v_a - v_a² β_a, independent of the other classes, for which β itself is
    too much where one class is nearly certain.
    """
    weights, (below, density, bend) = _runners(mean, variance)
    hazard = density / below
    product = weights * np.exp(np.log(below).sum(axis=-1))
    if labels.ndim == mean.ndim:
        own = (hazard * labels[..., None, :]).sum(axis=-1)
        apart = labels[..., None, :] * hazard.sum(axis=-1)[..., None] - own[..., None]
        apart = product[..., None] * apart
        evidence = np.maximum((product * own).sum(axis=-1), _LEAST)
        slopes = (apart * hazard).sum(axis=-2) / evidence[..., None]
        second = -(apart * bend / below).sum(axis=-2)
    else:
        is_own = labels[..., None] == np.arange(mean.shape[-1])
        own = (hazard * is_own[..., None, :]).sum(axis=-1)  # (..., T)
        joint = product * own
        evidence = np.maximum(joint.sum(axis=-1), _LEAST)
        others = np.where(is_own, 0.0, -(joint[..., None] * hazard).sum(axis=-2))
        slopes = np.where(is_own, -others.sum(axis=-1, keepdims=True), others) / evidence[..., None]
        second = (joint[..., None] * bend / below).sum(axis=-2)
        # The own runner's density is differentiated twice; by parts, once, against the others.
        rivals = product[..., None] * (hazard.sum(axis=-1) - own)[..., None]
        second = np.where(is_own, -(rivals * bend / below).sum(axis=-2), second)
    diagonal = np.square(slopes) - second / evidence[..., None]
    diagonal = np.maximum(diagonal, 1e-14 / (1.0 + variance))  # of the size that wide logits have
    # Beyond the mixture's tail a label would pull harder than any softmax can: α_label ≤ 1.
    slopes = slopes / np.maximum(slopes.max(axis=-1, keepdims=True), 1.0)
    return np.log(evidence), slopes, balanced(diagonal, np, _FEW_ROUNDS)


def balanced(
    diagonal: Float[Array, "*n"], xp: ModuleType, rounds: int = _ROUNDS, *, axis: int = -1
) -> Float[Array, "*n"]:
    """β with β_a - β_a² / Σβ = diagonal_a: diag(β) - β βᵀ / Σβ has that diagonal.

    Classes lie along ``axis``. Every round comes closer, slowly where one class has nearly all of
    the sum.
    """

    def nearer(curvature: Any) -> Any:
        total = xp.maximum(curvature.sum(axis=axis, keepdims=True), _LEAST)
        return diagonal + xp.square(curvature) / total

    return _repeated(rounds, nearer, diagonal, xp)


def _ends(mean: _Logits, variance: _Logits) -> tuple[Float[Array, "*n 1"], Float[Array, "*n 1"]]:
    """Where the product of all distribution functions leaves zero, and where it has reached one.

    The more runners, the later it leaves, their best being seldom slow: found by bisection.
    """
    deviation = np.sqrt(variance + GUMBEL_VARIANCE)
    slope = 1.0 / deviation
    offset = (mean + _CENTRE) * slope
    low = (mean + _CENTRE - _BELOW * deviation).max(axis=-1, keepdims=True)
    high = (mean + _CENTRE + _ABOVE * deviation).max(axis=-1, keepdims=True)
    # A probability that is not normalised needs the fastest of C runners whole.
    high = high + float(np.log(mean.shape[-1]))

    def halved(ends: tuple[Any, Any]) -> tuple[Any, Any]:
        middle = 0.5 * (ends[0] + ends[1])
        below, _ = normal(middle * slope - offset)
        is_early = below.prod(axis=-1, keepdims=True) < _NOTHING
        return np.where(is_early, middle, ends[0]), np.where(is_early, ends[1], middle)

    return _repeated(8, halved, (low, high), np)[0], high


def _repeated(times: int, step: Callable[[Any], Any], state: Any, xp: ModuleType) -> Any:
    """The step applied again and again; in JAX a loop, which compiles faster than its copies."""
    if xp is not np:
        import jax

        return jax.lax.fori_loop(0, times, lambda _, inner: step(inner), state)
    for _ in range(times):
        state = step(state)
    return state


def _runners(
    mean: _Logits, variance: _Logits
) -> tuple[Float[Array, "*n T"], list[Float[Array, "*n T C"]]]:
    """Quadrature weights and F, F', F" of every runner, for labels."""
    nodes, weights = _legendre(_NODES, mean.dtype)
    low, high = _ends(mean, variance)
    half = 0.5 * (high - low)
    t = low + half * (nodes + 1.0)
    first = (-1, *[1] * (mean.ndim + 1))  # sums over a short last axis take three times as long
    share, centre, width = (np.asarray(x, mean.dtype).reshape(first) for x in _FOR_LABELS)
    scale = 1.0 / np.sqrt(variance[..., None, :] + np.square(width))
    z = (t[..., :, None] - mean[..., None, :] - centre) * scale  # (terms, ..., T, C)
    below, bell = normal(z)
    density = (share / _ROOT) * scale * bell
    values = [(share * below).sum(axis=0), density.sum(axis=0), -(z * scale * density).sum(axis=0)]
    values[0] = np.maximum(values[0], _LEAST)  # a label, however improbable, needs the far tail
    return half * weights, values


@cache
def _legendre(n_nodes: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return nodes.astype(dtype), weights.astype(dtype)
