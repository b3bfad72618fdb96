"""Closed-form scores under a Gaussian posterior: no draws, no noise floor.

Two classes
-----------
f ~ N(m, v) at a pool point, f' ~ N(m', v') at a target point, covariance c. With p = E[σ(f)] and
q = E[σ(f')] the joint probability of two second-class labels is p q + cov, and by Price's theorem

    cov = Σ_{k ≥ 1} cᵏ/k! E[σ⁽ᵏ⁾(f)] E[σ⁽ᵏ⁾(f')],

truncated after five terms. The mutual information of the two labels follows from the four cells.
To first order in c the information is ½ cov² / (p(1-p) q(1-q)), hence

    EPIG(x) ≈ ½ a(x) mean_{x'} a(x') c(x, x')²,      a = E[σ'(f)]² / (p (1-p)),

a quadratic form that needs no logarithm.

More classes
------------
Class logits f_a ~ N(m_a, v_a) are independent of each other and covary with those of a target point
by c_a. To first order in c (Price's theorem again) the covariance of the probabilities is
J diag(c) J'ᵀ, J = E[∂ softmax / ∂f] (:mod:`parbals.race`), and the mutual information

    ½ Σ_ab cov_ab² / (p_a q_b) = ½ Σ_kl c_k c_l M_kl M'_kl,      M = Jᵀ diag(1/p) J.

M has the vector of ones in its null space, and so has diag(g) - g gᵀ / Σg. With a g whose diagonal
agrees, a point needs C numbers instead of C², and a pair C operations instead of C². The diagonal
is that of the binary labels "a or not a", M_aa ≈ J_aa² / (p_a (1-p_a)): the two-class formula, and
by the Cauchy-Schwarz inequality a lower bound. These g (a with two classes) are called *gains*.

Screening
---------
Without the products of two classes' covariances the form needs matrix products only:

    ½ Σ_k h_k(x) mean_{x'} h_k(x') c_k(x, x')²,      h = g √(1 - g / Σg),

equals the form where both points are evenly undecided between the same classes, however many, and
all their logits covary alike. It selects the points to score exactly. For the many points of a pool
the softmax is not integrated either: p is the softmax of m_a / √(1 + π v_a / 8), each logit on the
scale of the logistic function that it resembles, and g = p (1-p) / (1 + π v / 8). The ranking is
nearly that of the form (``studies/approximation/screening``). With two classes it is the form
itself, h = a.

Functions take NumPy arrays or, given JAX's module as ``xp``, JAX arrays.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.mixture import sigmoid_means
from parbals.race import class_slopes, curvatures_from_diagonal
from parbals.shapes import Array, Float

__all__ = [
    "Covariances",
    "approximate_gains",
    "closed_bald",
    "closed_epig",
    "label_gains",
    "label_information",
    "label_series",
    "probs_and_gains",
    "quadratic_gain",
    "screening_gains",
    "screening_scores",
    "series_epig",
    "sum_over_latents",
]

# U universes, n points, M targets, A latents.
_Points = Float[Array, "*U n"]
_Targets = Float[Array, "*U M"]
_Table = Float[Array, "*U n M"]
_Pairs = Float[Array, "*#pairs"]
_Logits = Float[Array, "A *n"]
_Gains = Float[Array, "A *U n"]
_TargetGains = Float[Array, "A *U M"]
_Share = Float[Array, " M"]

_N_TERMS = 5  # of the series
_EPS = 1e-30  # guards log and division
_MAX_PAIRS = 2**29  # points times targets, latents and universes at once: 2 GB per table
# H(σ(f)) = Σ_i a_i exp(-f² / (2 t_i²)), largest error 4.3e-7: a minimax fit.
_ENTROPY_WIDTHS = (0.87391920, 1.18762279, 1.59751311, 2.14570090, 2.87234328, 3.86305225)
_ENTROPY_HEIGHTS = (0.01204564, 0.10817146, 0.24530049, 0.23062558, 0.08880657, 0.00819701)


class Covariances(NamedTuple):
    """cov(f_a(x), f_a(x')) of n points and M targets, factorised: base_aᵀ + left_a right_aᵀ.

    The table of a latent is computed on demand: the tables of all latents at once would exceed the
    cache. Targets are the first axis in memory, because some of them may be selected, and rows are
    copied faster than columns.

    >>> covariances = Covariances(
    ...     base=np.ones((1, 2, 3)), left=np.zeros((1, 3, 1)), right=np.zeros((1, 2, 1))
    ... )
    >>> [latent.table().shape for latent in covariances.latents()]
    [(3, 2)]
    """

    base: Float[Array, "A M n"]
    left: Float[Array, "A *U n R"]
    right: Float[Array, "A M R"]

    def latents(self) -> "Iterator[Covariances]":
        """Iterate over the latents, each without the axis A."""
        return map(Covariances, *self)

    def table(self, targets: Any = slice(None)) -> Float[Array, "*U n m"]:
        """Covariances of a single latent with all targets, or with those at positions (m,)."""
        table = self.right[targets] @ self.left.swapaxes(-1, -2)
        table += self.base[targets]
        return table.swapaxes(-1, -2)


def sum_over_latents(
    term: Callable[..., tuple[Any, ...]], covariances: Covariances, *arrays: Any, xp: ModuleType
) -> tuple[Any, ...]:
    """Sum ``term(covariances_a, *arrays_a)`` over the latents a; ``arrays`` are (A, ...).

    NumPy handles one latent at a time, an accelerator all at once if their tables fit in memory.
    """
    if xp is not np:
        import jax

        n_pairs = covariances.left[..., :1].size * covariances.base.shape[1]
        batch_size = len(covariances.left) if n_pairs <= _MAX_PAIRS else 1
        terms = jax.lax.map(
            lambda latent: term(*latent), (covariances, *arrays), batch_size=batch_size
        )
        return tuple(values.sum(axis=0) for values in terms)
    first, *other_latents = zip(covariances.latents(), *arrays, strict=True)
    totals = term(*first)
    for latent in other_latents:
        for total, values in zip(totals, term(*latent), strict=True):
            total += values
    return totals


def closed_epig(
    mean: _Points,
    variance: _Points,
    target_mean: _Targets,
    target_variance: _Targets,
    covariance: _Table,
    share: _Share | None = None,
    xp: ModuleType = np,
) -> _Points:
    """EPIG of two classes by the series: the mean over the targets of I(Y_x ; Y_x').

    Args:
        mean: of f at the points (n,).
        variance: of f at the points (n,).
        target_mean: of f at the targets (M,).
        target_variance: of f at the targets (M,).
        covariance: of points and targets (n, M).
        share: weights (M,) of the targets; equal by default.
        xp: array module.

    >>> closed_epig(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1), np.ones((1, 1))).round(4)
    array([0.0151])
    """
    points = label_series(mean, variance, xp)
    targets = label_series(target_mean, target_variance, xp)
    if share is None:
        n_targets = target_mean.shape[-1]
        share = xp.full(n_targets, 1.0 / n_targets, dtype=target_mean.dtype)
    return series_epig(points, targets, covariance, share, xp)


def label_series(mean: _Points, variance: _Points, xp: ModuleType = np) -> Float[Array, "T *U n"]:
    """What :func:`series_epig` needs to know of points: the deviation √v of f, and E[σ⁽ᵏ⁾(f)] √vᵏ.

    Powers of the deviation are in the means, because those of the covariance would overflow where
    features are large.
    """
    deviation = xp.sqrt(xp.maximum(variance, _EPS))
    return xp.stack([deviation, *sigmoid_means(mean, variance, _N_TERMS, xp, deviation)])


def series_epig(
    points: Float[Array, "T *U n"],
    targets: Float[Array, "T *U M"],
    covariance: _Table,
    share: _Share,
    xp: ModuleType = np,
) -> _Points:
    """EPIG of two classes by the series; points and targets by :func:`label_series`."""
    deviation, p, *point_means = points[..., None]
    target_deviation, q, *target_means = targets[..., None, :]
    correlation = covariance / deviation
    correlation /= target_deviation
    correlation = xp.clip(correlation, -1.0, 1.0)
    label_covariance = xp.zeros_like(covariance)
    for k in range(_N_TERMS, 0, -1):  # Horner's rule, in place: passes over the table take the time
        label_covariance *= correlation / (k + 1)
        label_covariance += point_means[k - 1] * target_means[k - 1]
    label_covariance *= correlation
    information = label_information(p, q, label_covariance, xp)
    return (information @ share[..., None])[..., 0]


def label_information(p: _Pairs, q: _Pairs, cov: _Pairs, xp: ModuleType = np) -> _Pairs:
    """Mutual information of two binary labels with means p, q and covariance cov.

    Σ_ab P_ab ln(P_ab / (P_a P_b)): with P_ab = Q (1 + x) it is Σ Q ((1+x) ln(1+x) - x), which is
    accurate where x is small.
    """
    total = xp.zeros_like(cov)
    cells = (
        (p, q, 1.0),
        (p, 1.0 - q, -1.0),
        (1.0 - p, q, -1.0),
        (1.0 - p, 1.0 - q, 1.0),
    )
    for p_cell, q_cell, sign in cells:
        independent = p_cell * q_cell
        x = sign * cov
        x /= xp.maximum(independent, _EPS)
        x = xp.maximum(x, -1.0 + 1e-6)
        terms = xp.log1p(x)
        terms *= 1.0 + x
        terms -= x
        terms *= independent
        total += terms
    return total


def closed_bald(
    mean: Float[Array, " N"], variance: Float[Array, " N"], xp: ModuleType = np
) -> Float[Array, " N"]:
    """BALD of two classes: H(E[σ(f)]) - E[H(σ(f))], f ~ N(mean, variance), in nats.

    >>> closed_bald(np.zeros(1), np.array([4.0])).round(3)
    array([0.231])
    """
    (p,) = sigmoid_means(mean, variance, 0, xp)
    probs = xp.maximum(xp.stack([p, 1.0 - p]), _EPS)
    entropy = -(probs * xp.log(probs)).sum(axis=0)
    expected_entropy = xp.zeros_like(mean)
    for width, height in zip(_ENTROPY_WIDTHS, _ENTROPY_HEIGHTS, strict=True):
        spread = width**2 + variance
        bell = xp.exp(-0.5 * mean**2 / spread)
        expected_entropy = expected_entropy + height * width / xp.sqrt(spread) * bell
    return xp.maximum(entropy - expected_entropy, 0.0)


def label_gains(mean: _Logits, variance: _Logits, xp: ModuleType = np) -> _Logits:
    """Gains of points in the quadratic form: a with two classes (A = 1), g with more.

    >>> label_gains(np.zeros((1, 1)), np.zeros((1, 1))).round(3)
    array([[0.25]])
    """
    return probs_and_gains(mean, variance, xp)[1]


def probs_and_gains(
    mean: _Logits, variance: _Logits, xp: ModuleType = np
) -> tuple[_Logits, _Logits]:
    """Class probabilities (with two classes, of the second alone) and gains of points.

    >>> probs, gains = probs_and_gains(np.zeros((3, 1)), np.ones((3, 1)))
    >>> probs[:, 0].round(3)
    array([0.333, 0.333, 0.333])
    """
    if len(mean) == 1:
        p, slope = sigmoid_means(mean, variance, 1, xp)
        return p, _binary_gain(p, slope, xp)
    p, slope = class_slopes(mean.reshape(len(mean), -1), variance.reshape(len(mean), -1), xp)
    diagonal = xp.maximum(_binary_gain(p, slope, xp), _EPS)
    gains = curvatures_from_diagonal(diagonal, xp, axis=0)
    return p.reshape(mean.shape), gains.reshape(mean.shape)


def approximate_gains(mean: _Logits, variance: _Logits, xp: ModuleType = np) -> _Logits:
    """Gains for screening, at a fiftieth of the work; exact with two classes.

    >>> approximate_gains(np.zeros((2, 1)), np.zeros((2, 1)))
    array([[0.25],
           [0.25]])
    """
    if len(mean) == 1:
        return label_gains(mean, variance, xp)
    narrowing = 1.0 / (1.0 + 0.125 * np.pi * variance)
    logits = mean * xp.sqrt(narrowing)
    probs = xp.exp(logits - logits.max(axis=0))
    probs /= probs.sum(axis=0)
    return xp.maximum(probs * (1.0 - probs) * narrowing, _EPS)


def _binary_gain(p: _Logits, slope: _Logits, xp: ModuleType) -> _Logits:
    """slope² / (p (1-p)).

    Since E[σ(1-σ)] ≤ p (1-p), it is at most the slope, also where both round to 0.
    """
    return slope * xp.minimum(slope / xp.maximum(p * (1.0 - p), _EPS), 1.0)


def quadratic_gain(
    covariances: Covariances,
    gains: _Gains,
    target_gains: _TargetGains,
    share: _Share,
    xp: ModuleType = np,
) -> _Points:
    """EPIG of every point to first order.

    Args:
        covariances: of points and targets.
        gains: of the points.
        target_gains: of the targets.
        share: weights (M,) of the targets.
        xp: array module.

    Two points and one target, with which only the first point covaries:

    >>> covariances = Covariances(
    ...     base=np.array([[[1.0, 0.0]]]), left=np.zeros((1, 2, 1)), right=np.zeros((1, 1, 1))
    ... )
    >>> gains = label_gains(np.zeros((1, 2)), np.ones((1, 2)))
    >>> quadratic_gain(covariances, gains, gains[:, :1], share=np.ones(1)).round(4)
    array([0.0146, 0.    ])
    """
    weights = share * target_gains
    if len(gains) == 1:
        return 0.5 * _weighted_squares(covariances, gains, weights, xp)
    total = gains.sum(axis=0)
    target_total = target_gains.sum(axis=0)
    weights = xp.stack([weights * (1.0 - target_gains / target_total), weights], axis=-1)

    def term(latent: Covariances, gain: Any, target_gain: Any, weight: Any) -> tuple[Any, Any]:
        table = latent.table()
        form = xp.square(table) @ weight  # (*U, n, 2)
        product = table * target_gain[..., None, :]
        product *= gain[..., None]
        return gain * form[..., 0] - xp.square(gain) / total * form[..., 1], product

    squares, products = sum_over_latents(term, covariances, gains, target_gains, weights, xp=xp)
    form = (xp.square(products) @ (share / target_total)[..., None])[..., 0]
    return 0.5 * (squares + form / total)


def screening_gains(gains: _Logits, xp: ModuleType = np) -> _Logits:
    """h of every point, from its gains.

    >>> screening_gains(np.array([[0.5], [0.5]])).round(3)
    array([[0.354],
           [0.354]])
    """
    if len(gains) == 1:
        return gains
    return gains * xp.sqrt(xp.maximum(1.0 - gains / gains.sum(axis=0), 0.0))


def screening_scores(
    covariances: Covariances,
    gains: _Gains,
    target_gains: _TargetGains,
    share: _Share,
    xp: ModuleType = np,
) -> _Points:
    """Scores that select the points to score exactly; arguments as of :func:`quadratic_gain`."""
    weights = share * screening_gains(target_gains, xp)
    return 0.5 * _weighted_squares(covariances, screening_gains(gains, xp), weights, xp)


def _weighted_squares(
    covariances: Covariances, gains: _Gains, weights: _TargetGains, xp: ModuleType
) -> _Points:
    """Σ_a gains_a Σ_x' weights_a c_a²."""

    def term(latent: Covariances, gain: Any, weight: Any) -> tuple[Any]:
        return (gain * (xp.square(latent.table()) @ weight[..., None])[..., 0],)

    return sum_over_latents(term, covariances, gains, weights, xp=xp)[0]
