"""EPIG: the expected information a point's label carries about the labels of the target set.

With weighted posterior samples p_k (weights w_k), for a candidate x̂ and a target x,

    P_ab = Σ_k w_k p_k(a|x̂) p_k(b|x),      I(Y_x ; Y_x̂) = Σ_ab P_ab ln( P_ab / (P_a P_b) ),

and EPIG(x̂) is the mean of I over the target set. Everything is computed from the covariance

    c_ab = P_ab - P_a P_b = Σ_k w_k (p_k(a|x̂) - P_a)(p_k(b|x) - P_b),      t_ab = c_ab / (P_a P_b),
    I = Σ_ab P_a P_b g(t_ab),        g(t) = (1+t) ln(1+t) - t  ≥ 0,

(the terms linear in t sum to zero). This form cannot be negative, loses no digits when I is small,
and keeps low-precision matrix units accurate, because what is multiplied is centred. Two classes
need only c_11: the other three cells are ±c_11, so scoring is one matrix product.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from parbals.numerics import working_precision
from parbals.scores.losses import LOSSES, Loss, Stakes, gain_of_table
from parbals.scores.rows import pool_block, pool_blocks, target_chunk, target_rows
from parbals.validate import check_choice, check_probs, check_same_samples, check_samples

__all__ = ["TargetStats", "epig", "epig_of_block", "epig_scores", "row_means", "target_stats"]


class TargetStats(NamedTuple):
    """What scoring needs of the target set under one set of weights: M' padded targets, A rows."""

    weighted: Float[Array, "M A K"]  # w_k (q_k - q̄)
    mean: Float[Array, "M A"]  # q̄
    n_targets: Float[Array, ""]  # M without padding
    stakes: Stakes | None = None


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
    """
    check_choice(loss, LOSSES, "loss")
    pool, weights = check_samples(pool_probs, sample_weights)
    target = check_probs(target_probs, "target_probs")
    check_same_samples(pool, target)
    return epig_scores(pool, target, weights, loss)


def epig_scores(
    pool: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    loss: Loss = "log",
    stakes: Stakes | None = None,
) -> np.ndarray:
    """:func:`epig` of samples and weights that have been checked."""
    dtype = np.result_type(pool, target)
    with working_precision(dtype):
        small = weights.astype(dtype)
        rows = target_rows(target.astype(dtype, copy=False))
        stats = target_stats(rows, small, len(target), stakes)
        block = pool_block(len(pool), len(target), stats.mean.shape[1])
        # Dispatched without waiting: the next block is laid out while this one is scored.
        parts = [
            epig_of_block(padded.astype(dtype, copy=False), small, stats, loss=loss)
            for padded in pool_blocks(pool, block)
        ]
        return np.concatenate([np.asarray(part) for part in parts])[: len(pool)]


@jax.jit
def target_stats(
    rows: Float[Array, "M A K"],
    weights: Float[Array, " K"],
    n_targets: Any,
    stakes: Stakes | None = None,
) -> TargetStats:
    """Centre the target rows under the weights, once for all candidates."""
    mean = row_means(rows, weights)
    centred = weights * (rows - mean[:, :, None])
    stakes = jax.tree.map(lambda part: jnp.asarray(part, rows.dtype), stakes)
    return TargetStats(centred, mean, jnp.asarray(n_targets, rows.dtype), stakes)


def row_means(rows: Float[Array, "N A K"], weights: Float[Array, " K"]) -> Float[Array, "N A"]:
    """Σ_k w_k p_k of every row."""
    return jnp.matmul(rows, weights, precision=jax.lax.Precision.HIGHEST)


@partial(jax.jit, static_argnames=("loss",))
def epig_of_block(
    rows: Float[Array, "N A K"],
    weights: Float[Array, " K"],
    stats: TargetStats,
    *,
    loss: Loss = "log",
) -> Float[Array, " N"]:
    """EPIG of one block of candidates; the largest thing held is a block × a chunk of targets."""
    n_points, n_rows, n_samples = rows.shape
    mean = row_means(rows, weights)
    centred = (rows - mean[:, :, None]).reshape(n_points * n_rows, n_samples)
    chunk = target_chunk(stats.weighted.shape[0], n_rows)
    gain = gain_of_table(loss, n_rows, stats.stakes)

    def add_chunk(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        weighted, target_mean = part
        covariance = jnp.matmul(
            centred,
            weighted.reshape(chunk * n_rows, n_samples).T,
            precision=jax.lax.Precision.HIGHEST,
        )
        return total + gain(covariance, mean, target_mean), None

    parts = (
        stats.weighted.reshape(-1, chunk, n_rows, n_samples),
        stats.mean.reshape(-1, chunk, n_rows),
    )
    total, _ = jax.lax.scan(add_chunk, jnp.zeros(n_points, rows.dtype), parts)
    return jnp.maximum(total, 0.0) / stats.n_targets
