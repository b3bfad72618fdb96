"""Contrasts of classes, and predictive samples p_k(y | x) of every point and posterior draw.

A softmax with class weights W (C, D+1) does not change when one vector is added to every class.
With independent N(0, σ²) priors that shared direction is independent of the data, so it can be left
out: write W = Q V with an orthonormal basis Q (C, C-1) of the contrasts (columns orthogonal to the
vector of ones). Then V (C-1, D+1) again has independent N(0, σ²) coordinates, and the class
probabilities have exactly the distribution they have under W. For two classes V is one vector and

    p(class 1 | x) = sigmoid(√2 v·x),   √2 v ~ N(0, 2σ²)  =  the law of w₁ - w₀.
"""

from collections.abc import Callable

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads

__all__ = ["add_bias", "class_probs", "contrast_basis", "curvature", "mean_proba", "sample_proba"]
__all__ += ["softmax"]


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


def class_probs(contrasts: np.ndarray, n_classes: int) -> np.ndarray:
    """Class probabilities (N, C, K) from contrast logits (N, C-1, K), in their precision."""
    if n_classes == 2:
        root = np.asarray(np.sqrt(0.5), contrasts.dtype)  # of half the logit √2 f
        positive = 0.5 + 0.5 * np.tanh(root * contrasts[:, 0])
        return np.stack([1.0 - positive, positive], axis=1)
    logits = contrast_basis(n_classes).astype(contrasts.dtype) @ contrasts
    logits -= logits.max(axis=1, keepdims=True)
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


_BLOCK_ENTRIES = 2**17  # half a megabyte: what a core has nearby


def add_bias(X: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Design rows (N, D+1): the features and a constant 1.

    One row lies behind the other in memory, however X does: sums and matrix products round in an
    order that follows the layout, and equal features must give equal choices.
    """
    design = np.ones((len(X), X.shape[1] + 1), dtype)
    design[:, :-1] = X
    return design


def sample_proba(X: np.ndarray, coefficients: np.ndarray, n_classes: int) -> np.ndarray:
    """(N, K, C) float32 probabilities of design rows X (N, D+1) under weights V (D+1, J, K)."""
    n_samples = coefficients.shape[2]
    out = np.empty((len(X), n_samples, n_classes), np.float32)

    def write(rows: slice, probs: np.ndarray) -> None:
        out[rows] = probs.swapaxes(1, 2)

    _each_block(X, coefficients, n_classes, write)
    return out


def mean_proba(
    X: np.ndarray, coefficients: np.ndarray, n_classes: int, weights: np.ndarray
) -> np.ndarray:
    """(N, C) float64 probabilities averaged over the weighted draws; (N, K, C) is never held."""
    out = np.empty((len(X), n_classes))

    def write(rows: slice, probs: np.ndarray) -> None:
        out[rows] = probs.astype(np.float64) @ weights

    _each_block(X, coefficients, n_classes, write)
    return out / out.sum(axis=1, keepdims=True)


def _each_block(
    X: np.ndarray,
    coefficients: np.ndarray,
    n_classes: int,
    write: Callable[[slice, np.ndarray], None],
) -> None:
    """Give ``write`` rows and their probabilities (rows, C, K), block by block."""
    n_samples = coefficients.shape[2]
    block = max(1, _BLOCK_ENTRIES // (n_samples * n_classes))
    flat = coefficients.reshape(len(coefficients), -1).astype(np.float32)

    def compute(rows: slice) -> None:
        contrasts = X[rows].astype(np.float32) @ flat
        contrasts = contrasts.reshape(-1, n_classes - 1, n_samples)
        write(rows, class_probs(contrasts, n_classes))

    with several_threads() as workers:
        workers.map(compute, block_rows(len(X), block))
