"""Scores that need the pool alone: BALD, and the classical measures of an averaged prediction."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.numerics import entropy, working_precision
from parbals.validate import check_samples

__all__ = [
    "bald",
    "bald_scores",
    "confidence_scores",
    "entropy_scores",
    "least_confidence",
    "margin",
    "margin_scores",
    "predictive_entropy",
]

_BLOCK_ENTRIES = 1 << 21


def bald(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """Mutual information of label and parameters, H(p̄) - Σ_k w_k H(p_k), in nats: (N,).

    Computed as Σ_k w_k KL(p_k ‖ p̄): a sum of non-negative terms, so that it is never negative and
    small values keep their digits.
    """
    return bald_scores(*check_samples(pool_probs, sample_weights))


def predictive_entropy(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """H(p̄) of the averaged prediction in nats: (N,)."""
    return entropy_scores(*check_samples(pool_probs, sample_weights))


def least_confidence(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """1 - max_y p̄(y): (N,)."""
    return confidence_scores(*check_samples(pool_probs, sample_weights))


def margin(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """1 - (p̄ of the first class - p̄ of the second): (N,); larger means less decided."""
    return margin_scores(*check_samples(pool_probs, sample_weights))


# The same of samples (N, K, C) and weights (K,) that have been checked.


def bald_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_bald_block, probs, weights)


def entropy_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_entropy_block, probs, weights)


def confidence_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_least_confidence_block, probs, weights)


def margin_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_margin_block, probs, weights)


def _map_pool(block_score: Any, probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A score of every pool point, block by block, in the precision of the samples."""
    _, n_samples, n_classes = probs.shape
    small = weights.astype(probs.dtype)
    most = max(16, 1 << (_BLOCK_ENTRIES // (n_samples * n_classes)).bit_length())
    block = min(bucket(len(probs)), most)
    with working_precision(probs.dtype):
        # Dispatched without waiting: the next block is laid out while this one is scored.
        parts = [
            block_score(pad_rows(probs[rows], block), small)
            for rows in block_rows(len(probs), block)
        ]
        return np.concatenate([np.asarray(part) for part in parts])[: len(probs)]


def _mean(probs: Float[Array, "N K C"], weights: Float[Array, " K"]) -> Float[Array, "N C"]:
    return jnp.einsum("nkc,k->nc", probs, weights, precision=jax.lax.Precision.HIGHEST)


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
