"""Predictive samples p_k(y | x) of every point and posterior draw, in blocks."""

from collections.abc import Callable

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.posterior.contrasts import class_probs

__all__ = ["add_bias", "mean_proba", "sample_proba"]

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
