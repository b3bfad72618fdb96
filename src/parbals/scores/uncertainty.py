"""Scores that need the pool alone: BALD, and the classical measures of an averaged prediction."""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from parbals.arrays import block_rows, bucket, exact_products, pad_rows
from parbals.machine import on_host, several_threads
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
_CACHED_ENTRIES = 1 << 15
Score = Callable[[Any, Any, ModuleType], Any]


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
    return _map_pool(_bald, probs, weights)


def entropy_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_entropy, probs, weights)


def confidence_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_least_confidence, probs, weights)


def margin_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _map_pool(_margin, probs, weights)


def _map_pool(score: Score, probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A score of every pool point, block by block, in the precision of the samples.

    On a CPU by NumPy: to load JAX takes longer than to score ten thousand points.
    """
    entries, small = int(np.prod(probs.shape[1:])), weights.astype(probs.dtype)
    if on_host():
        scores = np.empty(len(probs), probs.dtype)

        def write(rows: slice) -> None:
            scores[rows] = score(probs[rows], small, np)

        with several_threads() as workers:
            workers.map(write, block_rows(len(probs), max(1, _CACHED_ENTRIES // entries)))
        return scores
    from parbals.numerics import working_precision

    block = min(bucket(len(probs)), max(16, 1 << (_BLOCK_ENTRIES // entries).bit_length()))
    with working_precision(probs.dtype):
        # Dispatched without waiting: the next block is laid out while this one is scored.
        parts = [
            _compiled(score)(pad_rows(probs[rows], block), small)
            for rows in block_rows(len(probs), block)
        ]
        return np.concatenate([np.asarray(part) for part in parts])[: len(probs)]


@cache
def _compiled(score: Score) -> Callable[[Any, Any], Any]:
    import jax

    return jax.jit(lambda probs, weights: score(probs, weights, jax.numpy))


# One block: samples (N, K, C) and weights (K,), of NumPy or JAX.


def _mean(probs: Any, weights: Any, xp: ModuleType) -> Any:
    with exact_products(xp):
        return weights @ probs  # (N, C)


def _bald(probs: Any, weights: Any, xp: ModuleType) -> Any:
    mean = _mean(probs, weights, xp)[:, None, :]
    ratio = xp.where(mean > 0, probs / xp.where(mean > 0, mean, 1.0), 1.0)
    # p ln(p/p̄) - p + p̄ ≥ 0 term by term; the added parts sum to zero over the classes.
    divergence = mean * (_times_log(ratio, xp) - (ratio - 1.0))
    with exact_products(xp):
        return xp.maximum(divergence, 0.0).sum(axis=2) @ weights


def _entropy(probs: Any, weights: Any, xp: ModuleType) -> Any:
    return -_times_log(_mean(probs, weights, xp), xp).sum(axis=1)


def _least_confidence(probs: Any, weights: Any, xp: ModuleType) -> Any:
    return 1.0 - _mean(probs, weights, xp).max(axis=1)


def _margin(probs: Any, weights: Any, xp: ModuleType) -> Any:
    ordered = xp.sort(_mean(probs, weights, xp), axis=1)
    return 1.0 - (ordered[:, -1] - ordered[:, -2])


def _times_log(x: Any, xp: ModuleType) -> Any:
    """x ln x, 0 at 0."""
    return x * xp.log(xp.maximum(x, np.finfo(x.dtype).tiny))
