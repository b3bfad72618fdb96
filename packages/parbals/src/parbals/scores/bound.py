"""A certified upper bound on EPIG for a whole pool, without logarithms and without the target set.

Write t_ab = P_ab/(P_a P_b) - 1 and χ² = Σ_ab P_a P_b t_ab². Information is I = Σ_ab P_a P_b g(t_ab)
with g(t) = (1+t) ln(1+t) - t. Since g(t)/t² decreases in t, every cell with t ≥ -τ satisfies

    g(t) ≤ h(τ) t²,      h(τ) = ((1-τ) ln(1-τ) + τ) / τ²,      h(0) = ½,  h(τ ≥ 1) = 1,

and Cauchy-Schwarz gives |t_ab| ≤ cv_a(x̂) cv_b(x): the coefficients of variation of the two
predicted probabilities over the posterior. Hence

    EPIG(x̂) ≤ mean_x h(cv(x̂) cv(x)) χ²(x̂, x)        (½ χ² where predictions vary little, χ² at
    worst), EPIG(x̂) ≤ ln(1 + mean_x χ²)                      (I ≤ ln(1 + χ²), and Jensen).

With h evaluated at one pivot c for the candidate, mean_x h(c·cv(x)) χ²(x̂, x) is a quadratic form
zᵀ G z of the candidate's centred row, with one K×K matrix G for the whole pool; another candidate's
cv changes it by at most the factor max_x h(cv(x̂) cv(x)) / h(c cv(x)). Cost O(N K²) whatever the
size of the target set.

``argmax_certified`` scores exactly only those that the bound cannot rule out: the answer is the one
exhaustive scoring gives.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products, safe_reciprocal
from parbals.scores.epig import TargetStats, row_means
from parbals.scores.rows import map_points
from parbals.shapes import Array, Float

__all__ = ["BoundStats", "Certified", "argmax_certified", "bound_of_points", "bound_stats"]

_SLACK = 1e-3
"""Relative allowance for rounding in the quadratic form, far above what float32 loses there."""
_GRID = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 63)])


class BoundStats(NamedTuple):
    """What the bound needs of the target set under one set of weights."""

    gram: Float[Array, "K K"]  # G, with the weights folded in
    factors: Float[Array, " grid"]  # max_x h(cv cv(x)) / h(c cv(x)) at each grid value of cv
    smallest_h: Float[Array, ""]


def bound_of_points(points: Any, weights: np.ndarray, stats: TargetStats) -> np.ndarray:
    """(N,) upper bounds on the EPIG of points, which are rows (N, A, K) or give them."""
    entries = stats.weighted.shape[0] * stats.weighted.shape[2]
    return map_points(_bound, points, weights, bound_stats(stats, weights), entries=entries)


def bound_stats(
    stats: TargetStats, weights: Float[Array, " K"], pivot: float | None = None
) -> BoundStats:
    """Build G for targets whose centred rows are ``stats.weighted`` = w_k (q_k - q̄).

    The bound is tightest for candidates whose cv is the pivot; by default that of the median
    target.
    """
    xp = stats.mean.__array_namespace__()
    rows = stats.weighted.reshape(-1, stats.weighted.shape[2])
    with exact_products(xp):
        variance = xp.square(rows) @ safe_reciprocal(weights, xp)
    scale, variation = _scale_and_variation(stats.mean.T, variance.reshape(stats.mean.shape).T, xp)
    scale, variation = scale.T.reshape(-1), variation.T.reshape(-1)
    real = scale > 0
    if pivot is None:
        middle = xp.sort(xp.where(real, variation, xp.inf))[real.sum() // 2]
        pivot = xp.where(real.any(), middle, 1.0)
    h = _h(pivot * variation, xp)
    with exact_products(xp):
        factor = h * safe_reciprocal(scale, xp) / stats.mean.shape[1]
        gram = (rows * factor[:, None]).T @ rows
    grid = xp.asarray(_GRID, dtype=rows.dtype)
    ratios = xp.where(real, _h(grid[:, None] * variation, xp) / h, 0.0)
    return BoundStats(gram, ratios.max(axis=1), xp.where(real, h, 1.0).min())


def _bound(
    rows: Float[Array, "N A K"], weights: Float[Array, " K"], bound: BoundStats, xp: ModuleType
) -> Float[Array, " N"]:
    """Upper bounds on the EPIG of one block of candidates."""
    mean = row_means(rows, weights, xp)
    centred = rows - mean[:, :, None]
    with exact_products(xp):
        variance = xp.square(centred) @ weights
        flat = centred.reshape(-1, rows.shape[2])
        form = xp.einsum("nk,nk->n", flat @ bound.gram, flat)  # zᵀ G z of every row
    scale, variation = _scale_and_variation(mean, variance, xp)
    chi2 = xp.maximum(form.reshape(mean.shape), 0.0) * safe_reciprocal(scale, xp)
    # Rounded up to the next grid value: the factors increase with cv.
    place = xp.searchsorted(xp.asarray(_GRID, dtype=rows.dtype), variation * (1.0 + _SLACK))
    factor = xp.where(
        place < len(_GRID), bound.factors[xp.minimum(place, len(_GRID) - 1)], 1.0 / bound.smallest_h
    )
    tight = (factor * chi2).sum(axis=1)
    jensen = xp.log1p(chi2.sum(axis=1) / bound.smallest_h)
    return (1.0 + _SLACK) * xp.minimum(tight, jensen)


class Certified(NamedTuple):
    """The best candidate, and how much was scored to be sure of it."""

    winner: int
    score: float
    n_scored: int  # candidates scored exactly in at least one posterior
    n_evaluations: int  # (candidate, posterior) pairs scored exactly


def argmax_certified(
    bounds: np.ndarray,
    shares: np.ndarray,
    free: np.ndarray,
    score: Callable[[int, np.ndarray], np.ndarray],
    first: int = 256,
) -> Certified:
    """The free candidate with the largest Σ_g shares[g] · score_g; among equals the lowest index.

    The ``first`` candidates in the order of the bound are scored under every posterior g and give a
    value to beat. The others are scored under one posterior after another: each exact value takes
    the place of its bound, and candidates that can no longer win are dropped.

    Args:
        bounds: (G, N) upper bounds on each posterior's scores.
        shares: (G,) positive weights of the posteriors.
        free: (N,) True where a candidate may be chosen.
        score: exact scores under posterior g of the given candidate indices.
    """
    total = np.where(free, shares @ bounds, -np.inf)
    leaders = np.argsort(-total, kind="stable")[: min(first, int(free.sum()))]
    exact = sum(shares[g] * score(g, leaders) for g in range(len(bounds)))
    best = exact.max()
    winner = int(leaders[exact == best].min())

    challengers = free & (total >= best)
    challengers[leaders] = False
    left = np.flatnonzero(challengers)
    n_scored, n_evaluations = len(leaders) + len(left), len(leaders) * len(bounds)
    known, open_bound = np.zeros(len(left)), total[left]
    for g in range(len(bounds)):
        if len(left) == 0:
            break
        n_evaluations += len(left)
        known = known + shares[g] * score(g, left)
        open_bound = open_bound - shares[g] * bounds[g, left]
        # Equal sums may differ in their last digits by the order of addition: none is dropped then.
        alive = known + open_bound >= best - 1e-9 * abs(best)
        left, known, open_bound = left[alive], known[alive], open_bound[alive]
    if len(left) and known.max() >= best:
        tied = int(left[known == known.max()].min())
        winner, best = (min(winner, tied) if known.max() == best else tied), known.max()
    return Certified(winner, float(best), n_scored, n_evaluations)


def _scale_and_variation(
    mean: Float[Array, "N A"], variance: Float[Array, "N A"], xp: ModuleType
) -> tuple[Float[Array, "N A"], Float[Array, "N A"]]:
    """Normaliser of χ² and largest coefficient of variation of each row.

    Two classes (one row) stand for all four cells: χ² = c²/(p(1-p) q(1-q)). Otherwise a row is one
    class.
    """
    deviation = xp.sqrt(xp.maximum(variance, 0.0))
    if mean.shape[1] == 1:
        return mean * (1.0 - mean), deviation * safe_reciprocal(xp.minimum(mean, 1.0 - mean), xp)
    return mean, deviation * safe_reciprocal(mean, xp)


def _h(tau: Float[Array, "..."], xp: ModuleType) -> Float[Array, "..."]:
    clipped = xp.clip(tau, 1e-2, 1.0 - 1e-6)
    exact = ((1.0 - clipped) * xp.log1p(-clipped) + clipped) / xp.square(clipped)
    # Below 1e-2 the quotient loses digits in float32; h increases, so its value there is a bound.
    return xp.where(tau >= 1.0 - 1e-6, 1.0, exact)
