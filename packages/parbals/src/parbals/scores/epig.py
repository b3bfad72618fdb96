"""EPIG: expected predictive information gain of a point's label about the target set's labels.

With weighted posterior samples p_k (weights w_k), for a candidate x̂ and a target x,

    P_ab = Σ_k w_k p_k(a|x̂) p_k(b|x),      I(Y_x ; Y_x̂) = Σ_ab P_ab ln( P_ab / (P_a P_b) ),

and EPIG(x̂) is the mean of I over the target set. Everything is computed from the covariance

    c_ab = P_ab - P_a P_b = Σ_k w_k (p_k(a|x̂) - P_a)(p_k(b|x) - P_b),      t_ab = c_ab / (P_a P_b),
    I = Σ_ab P_a P_b g(t_ab),        g(t) = (1+t) ln(1+t) - t  ≥ 0,

(the terms linear in t sum to zero). This form cannot be negative, is accurate when I is small, and
suits low-precision matrix units, because the factors are centred. Two classes need only c_11: the
other three cells are ±c_11, so scoring is one matrix product.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import block_rows, exact_products
from parbals.scores.losses import LOSSES, ClassWeights, Loss, gain_on_targets
from parbals.scores.rows import LazyPoints, class_rows, map_points
from parbals.shapes import Array, Float
from parbals.validate import check_choice, check_same_samples, check_samples

__all__ = ["TargetStats", "epig", "epig_of_points", "epig_scores", "row_means", "target_stats"]

_CHUNK_COLUMNS = 512
"""(target, class) pairs that NumPy multiplies a block of candidates with at once."""
_STRIP_ENTRIES = 1 << 16
"""Entries of the covariance table whose logarithms are taken at once: they fit a core's cache."""


class TargetStats(NamedTuple):
    """Centred samples and means of the target set, under one set of weights."""

    weighted: Float[Array, "A M K"]  # w_k (q_k - q̄)
    mean: Float[Array, "A M"]  # q̄
    class_weights: ClassWeights | None = None


def epig(
    pool_probs: Any, target_probs: Any, sample_weights: Any = None, *, loss: Loss = "log"
) -> np.ndarray:
    """EPIG in nats of every pool point, (N,); with ``loss="error"`` its expected error reduction.

    Args:
        pool_probs: predictive samples (N, K, C) of the candidates.
        target_probs: predictive samples (M, K, C) of the target set, from the same K posterior
            draws.
        sample_weights: (K,) weights of the draws; ``None`` means equal.
        loss: ``"log"`` for log loss (nats), ``"error"`` for the share of wrong predictions; both
            follow from one cost, see :mod:`parbals.scores.losses`.

    >>> from parbals import epig
    >>> uncertain = [[0.9, 0.1], [0.1, 0.9]]  # two draws that disagree
    >>> certain = [[0.5, 0.5], [0.5, 0.5]]
    >>> epig([uncertain, certain], [uncertain]).round(3)
    array([0.222, 0.   ])
    """
    check_choice(loss, LOSSES, "loss")
    pool, weights = check_samples(pool_probs, sample_weights)
    return epig_scores(pool, check_same_samples(target_probs, pool), weights, loss)


def epig_scores(
    pool: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    loss: Loss = "log",
    class_weights: ClassWeights | None = None,
) -> np.ndarray:
    """:func:`epig` for checked samples and weights."""
    dtype = np.result_type(pool, target)
    weights = weights.astype(dtype)
    stats = target_stats(class_rows(target).astype(dtype, copy=False), weights, class_weights)
    return epig_of_points(LazyPoints(pool, class_rows, dtype), weights, stats, loss)


def target_stats(
    rows: Float[Array, "M A K"],
    weights: Float[Array, " K"],
    class_weights: ClassWeights | None = None,
) -> TargetStats:
    """Centre the target rows (M, A, K) under the weights, once for all candidates."""
    xp = rows.__array_namespace__()
    by_class = rows.swapaxes(0, 1)
    mean = row_means(by_class, weights, xp)
    if class_weights is not None:
        positive = class_weights.positive
        class_weights = ClassWeights(
            values=np.asarray(class_weights.values, rows.dtype),
            positive=None if positive is None else np.asarray(positive, rows.dtype),
        )
    return TargetStats(weights * (by_class - mean[:, :, None]), mean, class_weights)


def row_means(
    rows: Float[Array, "n m K"], weights: Float[Array, " K"], xp: ModuleType
) -> Float[Array, "n m"]:
    """Weighted means Σ_k w_k p_k over the samples: (n, m)."""
    with exact_products(xp):
        return rows @ weights


def epig_of_points(points: Any, weights: np.ndarray, stats: TargetStats, loss: Loss) -> np.ndarray:
    """EPIG (N,) of points: rows (N, A, K), or an object that gives them by ``points[rows]``.

    >>> rows = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> weights = np.array([0.5, 0.5])
    >>> epig_of_points(rows, weights, target_stats(rows[:1], weights), "log").round(3)
    array([0.222, 0.   ])
    """
    n_rows, n_targets = stats.mean.shape
    # A quarter, because larger matrix products are faster and the steps after them work in strips.
    entries = max(1, n_rows * min(n_rows * n_targets, _CHUNK_COLUMNS) // 4)
    return map_points(_epig, points, weights, stats, entries=entries, loss=loss)


def _epig(
    rows: Float[Array, "N A K"],
    weights: Float[Array, " K"],
    stats: TargetStats,
    *,
    loss: Loss,
    xp: ModuleType,
) -> Float[Array, " N"]:
    """EPIG of one block of candidates."""
    n_points, n_rows, n_samples = rows.shape
    n_targets = stats.mean.shape[1]
    mean = row_means(rows, weights, xp)
    centred = (rows - mean[:, :, None]).reshape(-1, n_samples)
    chunk = max(1, _CHUNK_COLUMNS // n_rows) if xp is np else n_targets
    total = xp.zeros(n_points, rows.dtype)
    for targets in block_rows(n_targets, chunk):
        with exact_products(xp):
            table = centred @ stats.weighted[:, targets].reshape(-1, n_samples).T
        target_mean = stats.mean[:, targets]
        strip_size = n_points
        if xp is np:
            strip_size = max(1, _STRIP_ENTRIES // (n_rows * table.shape[1]))
        gains = [
            gain_on_targets(
                table[n_rows * strip.start : n_rows * strip.stop],
                mean[strip],
                target_mean,
                loss,
                stats.class_weights,
                xp,
            )
            for strip in block_rows(n_points, strip_size)
        ]
        total += xp.concatenate(gains)
    return xp.maximum(total, 0.0) / n_targets
