"""A certified upper bound on EPIG for a whole pool, without logarithms and without the target set.

With χ²(x̂, x) = Σ_ab c_ab² / (P_a P_b), the information of two labels is at most ln(1 + χ²), and
since the logarithm is concave

    EPIG(x̂) ≤ ln(1 + mean_x χ²(x̂, x)).

The mean is a quadratic form zᵀ G z of the candidate's centred row, with one K×K matrix G for the
whole pool: it costs O(N K²), whatever the size of the target set.

``argmax_certified`` scores exactly only the candidates that the bound cannot rule out. The result
is that of exhaustive scoring.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products, safe_reciprocal
from parbals.scores.epig import TargetStats, row_means
from parbals.scores.rows import map_points
from parbals.shapes import Array, Float

__all__ = ["CertifiedArgmax", "argmax_certified", "bound_of_points"]

_SLACK = 1e-3
"""Relative allowance for rounding in the quadratic form, far above float32's error there."""
_TIE_TOLERANCE = 1e-9  # relative: equal sums differ in their last digits by the order of addition


def bound_of_points(points: Any, weights: np.ndarray, stats: TargetStats) -> np.ndarray:
    """Upper bounds (N,) on the EPIG of points.

    Args:
        points: rows (N, A, K), or an object that gives them by ``points[rows]``.
        weights: of the samples (K,).
        stats: of the targets.

    >>> from parbals.scores.epig import target_stats
    >>> rows = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> weights = np.array([0.5, 0.5])
    >>> bound_of_points(rows, weights, target_stats(rows[:1], weights)).round(3)
    array([0.344, 0.   ])
    """
    entries = stats.weighted.shape[0] * stats.weighted.shape[2]
    return map_points(_bound, points, weights, _gram(stats), entries=entries)


def _gram(stats: TargetStats) -> Float[Array, "K K"]:
    """G (K, K), from the targets' centred rows ``stats.weighted`` = w_k (q_k - q̄)."""
    xp = stats.mean.__array_namespace__()
    rows = stats.weighted.reshape(-1, stats.weighted.shape[2])
    factor = safe_reciprocal(_chi2_scale(stats.mean.T), xp).T.reshape(-1) / stats.mean.shape[1]
    with exact_products(xp):
        return (rows * factor[:, None]).T @ rows


def _bound(
    rows: Float[Array, "N A K"],
    weights: Float[Array, " K"],
    gram: Float[Array, "K K"],
    xp: ModuleType,
) -> Float[Array, " N"]:
    """Upper bounds on the EPIG of one block of candidates."""
    mean = row_means(rows, weights, xp)
    flat = (rows - mean[:, :, None]).reshape(-1, rows.shape[2])
    with exact_products(xp):
        form = xp.einsum("nk,nk->n", flat @ gram, flat)  # zᵀ G z of every row
    chi2 = xp.maximum(form.reshape(mean.shape), 0.0) * safe_reciprocal(_chi2_scale(mean), xp)
    return (1.0 + _SLACK) * xp.log1p(chi2.sum(axis=1))


def _chi2_scale(mean: Float[Array, "N A"]) -> Float[Array, "N A"]:
    """Normaliser of χ² for each row: with two classes, one row represents all four cells."""
    return mean * (1.0 - mean) if mean.shape[1] == 1 else mean


class CertifiedArgmax(NamedTuple):
    """The best candidate, and the number of candidates scored to certify it."""

    winner: int
    score: float
    n_scored: int  # candidates scored exactly under at least one posterior


def argmax_certified(
    bounds: np.ndarray,
    shares: np.ndarray,
    free: np.ndarray,
    score: Callable[[int, np.ndarray], np.ndarray],
    n_leaders: int = 256,
) -> CertifiedArgmax:
    """The free candidate with the largest Σ_g shares[g] · score_g; ties go to the lowest index.

    The ``n_leaders`` candidates with the highest bounds are scored under every posterior g and give
    a value to beat. The others are scored under one posterior after another: each exact value
    replaces its bound, and candidates that can no longer win are dropped.

    Args:
        bounds: (G, N) upper bounds on each posterior's scores.
        shares: (G,) positive weights of the posteriors.
        free: (N,) True where a candidate may be chosen.
        score: exact scores under posterior g of the given candidate indices.
        n_leaders: candidates that are scored first.

    >>> exact = np.array([[0.1, 0.5, 0.3]])
    >>> argmax_certified(
    ...     bounds=exact + 0.1,
    ...     shares=np.ones(1),
    ...     free=np.array([True, True, True]),
    ...     score=lambda g, candidates: exact[g, candidates],
    ...     n_leaders=1,
    ... )
    CertifiedArgmax(winner=1, score=0.5, n_scored=1)
    """
    total_bound = np.where(free, shares @ bounds, -np.inf)
    leaders = np.argsort(-total_bound, kind="stable")[: min(n_leaders, int(free.sum()))]
    leader_scores = sum(shares[g] * score(g, leaders) for g in range(len(bounds)))
    best = leader_scores.max()
    winner = int(leaders[leader_scores == best].min())

    is_challenger = free & (total_bound >= best)
    is_challenger[leaders] = False
    challengers = np.flatnonzero(is_challenger)
    n_scored = len(leaders) + len(challengers)
    exact_part = np.zeros(len(challengers))
    bound_part = total_bound[challengers]
    for g in range(len(bounds)):
        if len(challengers) == 0:
            break
        exact_part = exact_part + shares[g] * score(g, challengers)
        bound_part = bound_part - shares[g] * bounds[g, challengers]
        can_win = exact_part + bound_part >= best - _TIE_TOLERANCE * abs(best)
        challengers = challengers[can_win]
        exact_part = exact_part[can_win]
        bound_part = bound_part[can_win]
    if len(challengers) and exact_part.max() >= best:
        challenger = int(challengers[exact_part == exact_part.max()].min())
        is_tie = exact_part.max() == best
        winner = min(winner, challenger) if is_tie else challenger
        best = exact_part.max()
    return CertifiedArgmax(winner, float(best), n_scored)
