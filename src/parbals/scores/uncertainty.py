"""Scores that need the pool alone: BALD, and the classical measures of an averaged prediction."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.numerics import entropy, working_precision
from parbals.validate import check_probs, check_weights

__all__ = ["bald", "least_confidence", "margin", "mean_prediction", "predictive_entropy"]

_BLOCK_ENTRIES = 1 << 21


def bald(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """Mutual information of label and parameters, H(p̄) - Σ_k w_k H(p_k), in nats: (N,).

    Computed as Σ_k w_k KL(p_k ‖ p̄): a sum of non-negative terms, so that it is never negative and
    small values keep their digits.
    """
    return _map_pool(_bald_block, pool_probs, sample_weights)


def predictive_entropy(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """H(p̄) of the averaged prediction in nats: (N,)."""
    return _map_pool(_entropy_block, pool_probs, sample_weights)


def least_confidence(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """1 - max_y p̄(y): (N,)."""
    return _map_pool(_least_confidence_block, pool_probs, sample_weights)


def margin(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """1 - (p̄ of the first class - p̄ of the second): (N,); larger means less decided."""
    return _map_pool(_margin_block, pool_probs, sample_weights)


def mean_prediction(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """p̄ = Σ_k w_k p_k, float64, every row summing to one: (N, C)."""
    mean = _map_pool(_mean_block, pool_probs, sample_weights).astype(np.float64)
    return mean / mean.sum(axis=1, keepdims=True)


def _map_pool(block_score: Any, pool_probs: Any, sample_weights: Any) -> np.ndarray:
    probs = check_probs(pool_probs, "pool_probs")
    _, n_samples, n_classes = probs.shape
    weights = check_weights(sample_weights, n_samples).astype(probs.dtype)
    parts = []
    most = max(16, 1 << (_BLOCK_ENTRIES // (n_samples * n_classes)).bit_length())
    block = min(bucket(len(probs)), most)
    with working_precision(probs.dtype):
        for rows in block_rows(len(probs), block):
            # Dispatched without waiting: the next block is laid out while this one is scored.
            parts.append(block_score(pad_rows(probs[rows], block), weights))
        return np.concatenate([np.asarray(part) for part in parts])[: len(probs)]


def _mean(probs: Float[Array, "N K C"], weights: Float[Array, " K"]) -> Float[Array, "N C"]:
    return jnp.einsum("nkc,k->nc", probs, weights, precision=jax.lax.Precision.HIGHEST)


_mean_block = jax.jit(_mean)


@jax.jit
def _bald_block(probs: Float[Array, "N K C"], weights: Float[Array, " K"]) -> Float[Array, " N"]:
    mean = _mean(probs, weights)[:, None, :]
    ratio = jnp.where(mean > 0, probs / jnp.where(mean > 0, mean, 1.0), 1.0)
    # p ln(p/p̄) - p + p̄ ≥ 0 term by term; the added parts sum to zero over the classes.
    divergence = mean * (jax.scipy.special.xlogy(ratio, ratio) - (ratio - 1.0))
    return jnp.einsum(
        "nkc,k->n", jnp.maximum(divergence, 0.0), weights, precision=jax.lax.Precision.HIGHEST
    )


@jax.jit
def _entropy_block(probs: Float[Array, "N K C"], weights: Float[Array, " K"]) -> Float[Array, " N"]:
    return entropy(_mean(probs, weights))


@jax.jit
def _least_confidence_block(
    probs: Float[Array, "N K C"], weights: Float[Array, " K"]
) -> Float[Array, " N"]:
    return 1.0 - _mean(probs, weights).max(axis=1)


@jax.jit
def _margin_block(probs: Float[Array, "N K C"], weights: Float[Array, " K"]) -> Float[Array, " N"]:
    first, second = jax.lax.top_k(_mean(probs, weights), 2)[0].T
    return 1.0 - (first - second)
