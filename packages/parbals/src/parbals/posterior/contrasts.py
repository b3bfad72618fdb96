"""Contrasts of classes, the softmax and its curvature; in NumPy, and one in JAX as well.

:mod:`parbals.posterior.likelihood` says what contrasts are for.
"""

from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["class_probs", "contrast_basis", "curvature", "softmax"]


def contrast_basis(n_classes: int) -> np.ndarray:
    """Orthonormal basis (C, C-1) of the vectors that sum to zero (Helmert's)."""
    basis = np.zeros((n_classes, n_classes - 1))
    for j in range(1, n_classes):
        basis[:j, j - 1] = -1.0
        basis[j, j - 1] = j
        basis[:, j - 1] /= np.sqrt(j * (j + 1))
    return basis


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis (NumPy, for the float64 work on the host)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def curvature(probs: np.ndarray) -> np.ndarray:
    """Mean curvature of -ln p in the contrast coordinates: (1 - Σ_c p_c²) / (C - 1).

    The Hessian in class logits is diag(p) - ppᵀ; its trace is 1 - Σp² and none of it lies along the
    vector of ones. For two classes this is the whole Hessian, 2 p (1-p).
    """
    return (1.0 - np.square(probs).sum(axis=-1)) / (probs.shape[-1] - 1)


def class_probs(contrasts: Any, n_classes: int, xp: ModuleType = np) -> Any:
    """Class probabilities (N, C, K) from contrast logits (N, C-1, K), in their precision."""
    if n_classes == 2:
        root = np.asarray(np.sqrt(0.5), contrasts.dtype)  # of half the logit √2 f
        positive = 0.5 + 0.5 * xp.tanh(root * contrasts[:, 0])
        return xp.stack([1.0 - positive, positive], axis=1)
    logits = contrast_basis(n_classes).astype(contrasts.dtype) @ contrasts
    logits -= logits.max(axis=1, keepdims=True)
    probs = xp.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs
