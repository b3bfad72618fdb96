"""Scores that need the pool alone: BALD, entropy, least confidence and margin."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from parbals.arrays import exact_products, times_log
from parbals.scores.rows import map_points
from parbals.shapes import Array, Float
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


def bald(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """BALD (N,): mutual information of label and parameters, H(p̄) - Σ_k w_k H(p_k), in nats.

    Computed as Σ_k w_k KL(p_k ‖ p̄), a sum of non-negative terms: it is never negative, and small
    values are accurate.

    Args:
        pool_probs: predictive samples (N, K, C).
        sample_weights: (K,) weights of the draws; ``None`` means equal.

    >>> from parbals import bald
    >>> bald([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]).round(3)
    array([0.368, 0.   ])
    """
    return bald_scores(*check_samples(pool_probs, sample_weights))


def predictive_entropy(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """Entropy H(p̄) of the averaged prediction (N,), in nats.

    Arguments as of :func:`bald`.

    >>> from parbals import predictive_entropy
    >>> predictive_entropy([[[0.9, 0.1], [0.1, 0.9]]]).round(3)
    array([0.693])
    """
    return entropy_scores(*check_samples(pool_probs, sample_weights))


def least_confidence(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """Least confidence (N,): 1 - max_y p̄(y). Arguments as of :func:`bald`.

    >>> from parbals import least_confidence
    >>> least_confidence([[[0.75, 0.25]]])
    array([0.25])
    """
    return confidence_scores(*check_samples(pool_probs, sample_weights))


def margin(pool_probs: Any, sample_weights: Any = None) -> np.ndarray:
    """Margin score (N,): 1 - (largest p̄ - second largest p̄); larger means less decided.

    Arguments as of :func:`bald`.

    >>> from parbals import margin
    >>> margin([[[0.75, 0.25]]])
    array([0.5])
    """
    return margin_scores(*check_samples(pool_probs, sample_weights))


# The functions below score one block of samples (N, K, C) with weights (K,), in NumPy or JAX.

_Samples = Float[Array, "N K C"]
_Weights = Float[Array, " K"]
_Points = Float[Array, " N"]


def _mean(probs: _Samples, weights: _Weights, xp: ModuleType) -> Float[Array, "N C"]:
    with exact_products(xp):
        return weights @ probs


def _bald(probs: _Samples, weights: _Weights, xp: ModuleType) -> _Points:
    mean = _mean(probs, weights, xp)
    has_reciprocal = mean > np.finfo(mean.dtype).tiny
    reciprocal = xp.where(has_reciprocal, 1.0 / xp.where(has_reciprocal, mean, 1.0), 0.0)
    ratio = probs * reciprocal[:, None, :]
    # p ln(p/p̄) - p + p̄ ≥ 0 term by term; the added terms sum to zero over the samples.
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
    """Score checked samples and weights."""
    return map_points(score, probs, weights.astype(probs.dtype))


bald_scores = partial(_scores, _bald)
entropy_scores = partial(_scores, _entropy)
confidence_scores = partial(_scores, _least_confidence)
margin_scores = partial(_scores, _margin)
