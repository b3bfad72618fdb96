"""Class contrasts, and predictive samples p_k(y | x) for every point and posterior draw.

A softmax with class weights W (C, D+1) does not change when one vector is added to every class.
With independent N(0, σ²) priors that shared direction is independent of the data and can be
omitted: write W = Q V with an orthonormal basis Q (C, C-1) of the contrasts (columns orthogonal to
the vector of ones). Then V (C-1, D+1) again has independent N(0, σ²) coordinates, and the class
probabilities have exactly the distribution they have under W. For two classes V is one vector and

    p(class 1 | x) = sigmoid(√2 v·x),   √2 v ~ N(0, 2σ²)  =  the law of w₁ - w₀.
"""

from collections.abc import Callable

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads

__all__ = [
    "add_bias",
    "class_probs",
    "contrast_basis",
    "curvature",
    "mean_proba",
    "sample_proba",
    "softmax",
]

_BLOCK_PROBS = 2**17  # half a megabyte: fits a core's cache


def contrast_basis(n_classes: int) -> np.ndarray:
    """Orthonormal basis (C, C-1) of the vectors that sum to zero (Helmert's).

    >>> contrast_basis(2).round(3)
    array([[-0.707],
           [ 0.707]])
    """
    basis = np.zeros((n_classes, n_classes - 1))
    for j in range(1, n_classes):
        basis[:j, j - 1] = -1.0
        basis[j, j - 1] = j
        basis[:, j - 1] /= np.sqrt(j * (j + 1))
    return basis


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in NumPy.

    >>> softmax(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def curvature(probs: np.ndarray) -> np.ndarray:
    """Mean curvature of -ln p in the contrast coordinates: (1 - Σ_c p_c²) / (C - 1).

    The Hessian in class logits is diag(p) - ppᵀ; its trace is 1 - Σp² and none of it lies along the
    vector of ones. For two classes this is the whole Hessian, 2 p (1-p).

    >>> curvature(np.array([[0.5, 0.5]]))
    array([0.5])
    """
    return (1.0 - np.square(probs).sum(axis=-1)) / (probs.shape[-1] - 1)


def class_probs(contrasts: np.ndarray, n_classes: int) -> np.ndarray:
    """Class probabilities (N, C, K) from contrast logits (N, C-1, K), in their precision.

    >>> class_probs(np.zeros((1, 2, 1)), n_classes=3).round(2)[0, :, 0]
    array([0.33, 0.33, 0.33])
    """
    if n_classes == 2:
        # The logit is √2 f, and σ(x) = ½ + ½ tanh(x/2).
        half_root_two = np.asarray(np.sqrt(0.5), contrasts.dtype)
        positive = 0.5 + 0.5 * np.tanh(half_root_two * contrasts[:, 0])
        return np.stack([1.0 - positive, positive], axis=1)
    logits = contrast_basis(n_classes).astype(contrasts.dtype) @ contrasts
    logits -= logits.max(axis=1, keepdims=True)
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


def add_bias(X: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Design rows (N, D+1): the features and a constant 1.

    Rows are contiguous in memory, whatever the layout of X: sums and matrix products round in an
    order that follows the layout, and equal features must give equal choices.

    >>> add_bias(np.array([[2.0, 3.0]]))
    array([[2., 3., 1.]])
    """
    design = np.ones((len(X), X.shape[1] + 1), dtype)
    design[:, :-1] = X
    return design


def sample_proba(X: np.ndarray, coefficients: np.ndarray, n_classes: int) -> np.ndarray:
    """Predictive samples (N, K, C) float32 of design rows X (N, D+1).

    ``coefficients``: contrast weights V (D+1, J, K).

    >>> sample_proba(np.array([[1.0]]), np.zeros((1, 1, 2)), n_classes=2).tolist()
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    n_samples = coefficients.shape[2]
    out = np.empty((len(X), n_samples, n_classes), np.float32)

    def write(rows: slice, probs: np.ndarray) -> None:
        out[rows] = probs.swapaxes(1, 2)

    _for_each_block(X, coefficients, n_classes, write)
    return out


def mean_proba(
    X: np.ndarray, coefficients: np.ndarray, n_classes: int, weights: np.ndarray
) -> np.ndarray:
    """Probabilities (N, C) float64 averaged over the weighted draws, without holding (N, K, C).

    >>> mean_proba(np.array([[1.0]]), np.zeros((1, 1, 2)), 2, np.array([0.5, 0.5]))
    array([[0.5, 0.5]])
    """
    out = np.empty((len(X), n_classes))

    def write(rows: slice, probs: np.ndarray) -> None:
        out[rows] = probs.astype(np.float64) @ weights

    _for_each_block(X, coefficients, n_classes, write)
    return out / out.sum(axis=1, keepdims=True)


def _for_each_block(
    X: np.ndarray,
    coefficients: np.ndarray,
    n_classes: int,
    write: Callable[[slice, np.ndarray], None],
) -> None:
    """Call ``write`` with the rows and probabilities (rows, C, K) of every block."""
    n_samples = coefficients.shape[2]
    block_size = max(1, _BLOCK_PROBS // (n_samples * n_classes))
    flat = coefficients.reshape(len(coefficients), -1).astype(np.float32)

    def compute(rows: slice) -> None:
        contrasts = X[rows].astype(np.float32) @ flat
        contrasts = contrasts.reshape(-1, n_classes - 1, n_samples)
        write(rows, class_probs(contrasts, n_classes))

    with several_threads() as workers:
        workers.map(compute, block_rows(len(X), block_size))
