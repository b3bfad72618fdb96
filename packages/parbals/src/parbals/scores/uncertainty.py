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
    "map_points",
    "margin",
    "margin_scores",
    "predictive_entropy",
    "times_log",
]

_BLOCK_ENTRIES = 1 << 21
_CACHED_ENTRIES = 1 << 17
Score = Callable[..., Any]


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
    return map_points(_bald, probs, weights)


def entropy_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return map_points(_entropy, probs, weights)


def confidence_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return map_points(_least_confidence, probs, weights)


def margin_scores(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return map_points(_margin, probs, weights)


def map_points(
    score: Score, probs: np.ndarray, *more: np.ndarray, entries: int | None = None
) -> np.ndarray:
    """A score of every point of (N, K, C), block by block, in the precision of the samples.

    On a CPU by NumPy: to load JAX takes longer than to score ten thousand points.

    Args:
        score: a function of a block (n, K, C), of ``more``, and of the array module.
        more: arrays that every block needs, such as weights (K,).
        entries: how many numbers the score holds for a point; K·C if not given.
    """
    entries = int(np.prod(probs.shape[1:])) if entries is None else entries
    more = tuple(array.astype(probs.dtype) for array in more)
    if on_host():
        blocks = list(block_rows(len(probs), max(1, _CACHED_ENTRIES // entries)))
        if len(blocks) == 1:  # to find the threads takes longer
            return np.asarray(score(probs, *more, np))
        with several_threads() as workers:
            parts = workers.map(lambda rows: score(probs[rows], *more, np), blocks)
        return np.concatenate(parts)
    from parbals.numerics import working_precision

    block = min(bucket(len(probs)), max(16, 1 << (_BLOCK_ENTRIES // entries).bit_length()))
    with working_precision(probs.dtype):
        # Dispatched without waiting: the next block is laid out while this one is scored.
        parts = [
            _compiled(score)(pad_rows(probs[rows], block), *more)
            for rows in block_rows(len(probs), block)
        ]
        return np.concatenate(parts)[: len(probs)]


@cache
def _compiled(score: Score) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda *arrays: score(*arrays, jax.numpy))


# One block: samples (N, K, C) and weights (K,), of NumPy or JAX.


def _mean(probs: Any, weights: Any, xp: ModuleType) -> Any:
    with exact_products(xp):
        return weights @ probs  # (N, C)


def _bald(probs: Any, weights: Any, xp: ModuleType) -> Any:
    mean = _mean(probs, weights, xp)
    counts = mean > np.finfo(mean.dtype).tiny  # whose reciprocal is finite
    ratio = probs * xp.where(counts, 1.0 / xp.where(counts, mean, 1.0), 0.0)[:, None, :]
    # p ln(p/p̄) - p + p̄ ≥ 0 term by term; the added parts sum to zero over the samples.
    divergence = times_log(ratio, xp) - (ratio - 1.0)
    return xp.maximum((mean * _mean(divergence, weights, xp)).sum(axis=1), 0.0)


def _entropy(probs: Any, weights: Any, xp: ModuleType) -> Any:
    return -times_log(_mean(probs, weights, xp), xp).sum(axis=1)


def _least_confidence(probs: Any, weights: Any, xp: ModuleType) -> Any:
    return 1.0 - _mean(probs, weights, xp).max(axis=1)


def _margin(probs: Any, weights: Any, xp: ModuleType) -> Any:
    ordered = xp.sort(_mean(probs, weights, xp), axis=1)
    return 1.0 - (ordered[:, -1] - ordered[:, -2])


def times_log(x: Any, xp: ModuleType) -> Any:
    """x ln x for x ≥ 0: the smallest of numbers, added, is lost in any but 0, where it gives 0."""
    return x * xp.log(x + np.finfo(x.dtype).tiny)
