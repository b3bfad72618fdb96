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
J diag(c) J'ᵀ, J = E[∂ softmax / ∂f] (:mod:`parbals.race`), and the mutual information

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
as the form does (``studies/screening.py``). With two classes it is the form itself, h = a.

Functions take NumPy arrays and, given JAX's module, JAX's.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.mixture import sigmoid_means
from parbals.race import balanced, class_slopes
from parbals.shapes import Array, Float

__all__ = ["Covariances", "closed_bald", "closed_epig", "probs_and_gains", "quadratic_gain"]
__all__ += ["rough_gains", "screen", "screening_gains", "sum_over_latents", "target_gains"]

# Of points and targets, in every universe; of logits, in every latent.
_Points = Float[Array, "*U n"]
_Targets = Float[Array, "*U M"]
_Table = Float[Array, "*U n M"]
_Pairs = Float[Array, "*#pairs"]
_Logits = Float[Array, "A *n"]
_Gains = Float[Array, "A *U n"]
_OtherGains = Float[Array, "A *U M"]
_Share = Float[Array, " M"]

_ORDER = 5
_LEAST = 1e-30
_MOST_PAIRS = 2**29  # of points and targets, in all latents and universes: 2 GB a table
# H(σ(f)) = Σ_i a_i exp(-f² / (2 t_i²)), largest error 4.3e-7: a minimax fit.
_WIDTHS = (0.87391920, 1.18762279, 1.59751311, 2.14570090, 2.87234328, 3.86305225)
_HEIGHTS = (0.01204564, 0.10817146, 0.24530049, 0.23062558, 0.08880657, 0.00819701)


class Covariances(NamedTuple):
    """cov(f_a(x), f_a(x')) of n points and M targets, made of less: base_aᵀ + left_a right_aᵀ.

    The table of a latent is made when it is asked for: those of all latents at once would leave
    the cache. Targets lie along the first axis in memory, because some of them may be wanted alone,
    and rows of memory are copied faster than columns.
    """

    base: Float[Array, "A M n"]
    left: Float[Array, "A *U n R"]
    right: Float[Array, "A M R"]

    def latents(self) -> "Iterator[Covariances]":
        """Those of each latent alone, without the axis A."""
        return map(Covariances, *self)

    def table(self, targets: Any = slice(None)) -> Float[Array, "*U n m"]:
        """Of one latent alone, with all targets or with those at some positions (m,)."""
        table = self.right[targets] @ self.left.swapaxes(-1, -2)
        table += self.base[targets]
        return table.swapaxes(-1, -2)


def sum_over_latents(
    term: Callable[..., tuple[Any, ...]], covariances: Covariances, *others: Any, xp: ModuleType
) -> tuple[Any, ...]:
    """Σ_a of what ``term`` makes of a latent's covariances and of its part of ``others`` (A, ...).

    NumPy goes through the latents one by one, an accelerator takes them all at once where their
    tables have room.
    """
    if xp is not np:
        import jax

        pairs = covariances.left[..., :1].size * covariances.base.shape[1]
        size = len(covariances.left) if pairs <= _MOST_PAIRS else 1
        parts = jax.lax.map(lambda each: term(*each), (covariances, *others), batch_size=size)
        return tuple(part.sum(axis=0) for part in parts)
    first, *latents = zip(covariances.latents(), *others, strict=True)
    sums = term(*first)
    for latent in latents:
        for total, part in zip(sums, term(*latent), strict=True):
            total += part
    return sums


def closed_epig(
    mean: _Points,
    variance: _Points,
    target_mean: _Targets,
    target_variance: _Targets,
    covariance: _Table,
    share: _Share | None = None,
    xp: ModuleType = np,
) -> _Points:
    """The mean over the targets of I(Y_x ; Y_x'); their shares are equal by default.

    The covariance of both labels is by the series.
    """
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
    gains = label_information(here[0][..., :, None], there[0][..., None, :], joint, xp)
    return gains.mean(axis=-1) if share is None else gains @ share


def label_information(p: _Pairs, q: _Pairs, cov: _Pairs, xp: ModuleType = np) -> _Pairs:
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


def closed_bald(
    mean: Float[Array, " N"], variance: Float[Array, " N"], xp: ModuleType = np
) -> Float[Array, " N"]:
    """H(E[σ(f)]) - E[H(σ(f))], f ~ N(mean, variance)."""
    (p,) = sigmoid_means(mean, variance, 0, xp)
    cells = xp.maximum(xp.stack([p, 1.0 - p]), _LEAST)
    expected = xp.zeros_like(mean)
    for width, height in zip(_WIDTHS, _HEIGHTS, strict=True):
        spread = width**2 + variance
        expected = expected + height * width / xp.sqrt(spread) * xp.exp(-0.5 * mean**2 / spread)
    return xp.maximum(-(cells * xp.log(cells)).sum(axis=0) - expected, 0.0)


def target_gains(mean: _Logits, variance: _Logits, xp: ModuleType = np) -> _Logits:
    """What points contribute to the quadratic form: a with two classes (A = 1), g with more."""
    return probs_and_gains(mean, variance, xp)[1]


def probs_and_gains(
    mean: _Logits, variance: _Logits, xp: ModuleType = np
) -> tuple[_Logits, _Logits]:
    """Class probabilities, with two classes the second's alone, and what points contribute."""
    if len(mean) == 1:
        p, slope = sigmoid_means(mean, variance, 1, xp)
        return p, _gain(p, slope, xp)
    p, slope = class_slopes(mean.reshape(len(mean), -1), variance.reshape(len(mean), -1), xp)
    gains = balanced(xp.maximum(_gain(p, slope, xp), _LEAST), xp, axis=0)
    return p.reshape(mean.shape), gains.reshape(mean.shape)


def rough_gains(mean: _Logits, variance: _Logits, xp: ModuleType = np) -> _Logits:
    """Gains to screen by, a fiftieth of the work; with two classes the gains."""
    if len(mean) == 1:
        return target_gains(mean, variance, xp)
    narrowing = 1.0 / (1.0 + 0.125 * np.pi * variance)
    logits = mean * xp.sqrt(narrowing)
    probs = xp.exp(logits - logits.max(axis=0))
    probs /= probs.sum(axis=0)
    return xp.maximum(probs * (1.0 - probs) * narrowing, _LEAST)


def _gain(p: _Logits, slope: _Logits, xp: ModuleType) -> _Logits:
    """slope² / (p (1-p)); as E[σ(1-σ)] ≤ p (1-p), no more than the slope where both round to 0."""
    return slope * xp.minimum(slope / xp.maximum(p * (1.0 - p), _LEAST), 1.0)


def quadratic_gain(
    covariances: Covariances,
    gains: _Gains,
    other_gains: _OtherGains,
    share: _Share,
    xp: ModuleType = np,
) -> _Points:
    """EPIG to first order of every point, from its gains and those of targets with these shares."""
    weights = share * other_gains
    if len(gains) == 1:
        return 0.5 * _squares(covariances, gains, weights, xp)
    total, other_total = gains.sum(axis=0), other_gains.sum(axis=0)
    weights = xp.stack([weights * (1.0 - other_gains / other_total), weights], axis=-1)

    def term(latent: Covariances, gain: Any, other: Any, weight: Any) -> tuple[Any, Any]:
        here = latent.table()
        form = xp.square(here) @ weight  # (*U, n, 2)
        pulled = here * other[..., None, :]
        pulled *= gain[..., None]
        return gain * form[..., 0] - xp.square(gain) / total * form[..., 1], pulled

    alone, together = sum_over_latents(term, covariances, gains, other_gains, weights, xp=xp)
    form = (xp.square(together) @ (share / other_total)[..., None])[..., 0]
    return 0.5 * (alone + form / total)


def screening_gains(gains: _Logits, xp: ModuleType = np) -> _Logits:
    """h of every point, from a or g."""
    if len(gains) == 1:
        return gains
    return gains * xp.sqrt(xp.maximum(1.0 - gains / gains.sum(axis=0), 0.0))


def screen(
    covariances: Covariances,
    gains: _Gains,
    other_gains: _OtherGains,
    share: _Share,
    xp: ModuleType = np,
) -> _Points:
    """By which points are chosen for a closer look; arguments as of the form."""
    here, weights = screening_gains(gains, xp), share * screening_gains(other_gains, xp)
    return 0.5 * _squares(covariances, here, weights, xp)


def _squares(
    covariances: Covariances, own: _Gains, weights: _OtherGains, xp: ModuleType
) -> _Points:
    """Σ_a own_a Σ_x' weights_a c_a²."""

    def term(latent: Covariances, own: Any, weight: Any) -> tuple[Any]:
        return (own * (xp.square(latent.table()) @ weight[..., None])[..., 0],)

    return sum_over_latents(term, covariances, own, weights, xp=xp)[0]
