"""A certified upper bound on EPIG for a whole pool, without logarithms and without the target set.

With χ²(x̂, x) = Σ_ab c_ab² / (P_a P_b), the information of two labels is at most ln(1 + χ²), and
since the logarithm is concave

    EPIG(x̂) ≤ ln(1 + mean_x χ²(x̂, x)).

The mean is a quadratic form zᵀ G z of the candidate's centred row, with one K×K matrix G for the
whole pool: it costs O(N K²), whatever the size of the target set.

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

__all__ = ["Certified", "argmax_certified", "bound_of_points"]

_SLACK = 1e-3
"""Relative allowance for rounding in the quadratic form, far above what float32 loses there."""


def bound_of_points(points: Any, weights: np.ndarray, stats: TargetStats) -> np.ndarray:
    """(N,) upper bounds on the EPIG of points, which are rows (N, A, K) or give them."""
    entries = stats.weighted.shape[0] * stats.weighted.shape[2]
    return map_points(_bound, points, weights, _gram(stats), entries=entries)


def _gram(stats: TargetStats) -> Float[Array, "K K"]:
    """G of targets whose centred rows are ``stats.weighted`` = w_k (q_k - q̄)."""
    xp = stats.mean.__array_namespace__()
    rows = stats.weighted.reshape(-1, stats.weighted.shape[2])
    factor = safe_reciprocal(_scale(stats.mean.T), xp).T.reshape(-1) / stats.mean.shape[1]
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
    chi2 = xp.maximum(form.reshape(mean.shape), 0.0) * safe_reciprocal(_scale(mean), xp)
    return (1.0 + _SLACK) * xp.log1p(chi2.sum(axis=1))


def _scale(mean: Float[Array, "N A"]) -> Float[Array, "N A"]:
    """The normaliser of χ² of each row: of two classes one stands for all four cells."""
    return mean * (1.0 - mean) if mean.shape[1] == 1 else mean


class Certified(NamedTuple):
    """The best candidate, and how much was scored to be sure of it."""

    winner: int
    score: float
    n_scored: int  # candidates scored exactly in at least one posterior


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
    n_scored = len(leaders) + len(left)
    known, open_bound = np.zeros(len(left)), total[left]
    for g in range(len(bounds)):
        if len(left) == 0:
            break
        known = known + shares[g] * score(g, left)
        open_bound = open_bound - shares[g] * bounds[g, left]
        # Equal sums may differ in their last digits by the order of addition: none is dropped then.
        alive = known + open_bound >= best - 1e-9 * abs(best)
        left, known, open_bound = left[alive], known[alive], open_bound[alive]
    if len(left) and known.max() >= best:
        tied = int(left[known == known.max()].min())
        winner, best = (min(winner, tied) if known.max() == best else tied), known.max()
    return Certified(winner, float(best), n_scored)
