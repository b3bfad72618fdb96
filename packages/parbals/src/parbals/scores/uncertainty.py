"""Scores that need the pool alone: BALD, and the classical measures of an averaged prediction."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from parbals.arrays import exact_products, times_log
from parbals.scores.rows import map_points
from parbals.shapes import Array, Float
from parbals.validate import check_samples

__all__ = ["bald", "bald_scores", "confidence_scores", "entropy_scores", "least_confidence"]
__all__ += ["margin", "margin_scores", "predictive_entropy"]


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


# One block of samples (N, K, C) and weights (K,), of NumPy or JAX.

_Samples = Float[Array, "N K C"]
_Weights = Float[Array, " K"]
_Points = Float[Array, " N"]


def _mean(probs: _Samples, weights: _Weights, xp: ModuleType) -> Float[Array, "N C"]:
    with exact_products(xp):
        return weights @ probs


def _bald(probs: _Samples, weights: _Weights, xp: ModuleType) -> _Points:
    mean = _mean(probs, weights, xp)
    counts = mean > np.finfo(mean.dtype).tiny  # whose reciprocal is finite
    ratio = probs * xp.where(counts, 1.0 / xp.where(counts, mean, 1.0), 0.0)[:, None, :]
    # p ln(p/p̄) - p + p̄ ≥ 0 term by term; the added parts sum to zero over the samples.
    divergence = times_log(ratio, xp) - (ratio - 1.0)
    return xp.maximum((mean * _mean(divergence, weights, xp)).sum(axis=1), 0.0)


def _entropy(probs: _Samples, weights: _Weights, xp: ModuleType) -> _Points:
    return -times_log(_mean(probs, weights, xp), xp).sum(axis=1)


def _least_confidence(probs: _Samples, weights: _Weights, xp: ModuleType) -> _Points:
    return 1.0 - _mean(probs, weights, xp).max(axis=1)


def _margin(probs: _Samples, weights: _Weights, xp: ModuleType) -> _Points:
    ordered = xp.sort(_mean(probs, weights, xp), axis=1)
    return 1.0 - (ordered[:, -1] - ordered[:, -2])


def _scores(score: Callable[..., Any], probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of samples and weights that have been checked."""
    return map_points(score, probs, weights.astype(probs.dtype))


bald_scores = partial(_scores, _bald)
entropy_scores = partial(_scores, _entropy)
confidence_scores = partial(_scores, _least_confidence)
margin_scores = partial(_scores, _margin)
