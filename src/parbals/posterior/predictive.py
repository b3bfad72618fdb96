"""Predictive samples p_k(y | x) of every point and posterior draw, in blocks of fixed size."""

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from parbals.arrays import block_rows, pad_rows
from parbals.posterior.likelihood import class_probs

__all__ = ["add_bias", "mean_proba", "sample_proba"]

_BLOCK_ENTRIES = 4_000_000


def add_bias(X: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Design rows (N, D+1): the features and a constant 1."""
    return np.concatenate([X.astype(dtype), np.ones((len(X), 1), dtype)], axis=1)


def sample_proba(X: np.ndarray, coefficients: np.ndarray, n_classes: int) -> np.ndarray:
    """(N, K, C) float32 probabilities of design rows X (N, D+1) under weights V (D+1, J, K)."""
    n_samples = coefficients.shape[2]
    out = np.empty((len(X), n_samples, n_classes), np.float32)
    for rows, probs in _blocks(X, coefficients, n_classes):
        out[rows] = probs.swapaxes(1, 2)
    return out


def mean_proba(
    X: np.ndarray, coefficients: np.ndarray, n_classes: int, weights: np.ndarray
) -> np.ndarray:
    """(N, C) float64 probabilities averaged over the weighted draws; (N, K, C) is never held."""
    out = np.empty((len(X), n_classes))
    for rows, probs in _blocks(X, coefficients, n_classes):
        out[rows] = probs.astype(np.float64) @ weights
    return out / out.sum(axis=1, keepdims=True)


def _blocks(
    X: np.ndarray, coefficients: np.ndarray, n_classes: int
) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows and their probabilities (rows, C, K), block by block."""
    n_samples = coefficients.shape[2]
    block = int(np.clip(_BLOCK_ENTRIES // (n_samples * n_classes), 16, 2048))
    block = 1 << (block.bit_length() - 1)
    flat = coefficients.reshape(len(coefficients), -1).astype(np.float32)
    for rows in block_rows(len(X), block):
        padded = pad_rows(X[rows].astype(np.float32), block)
        probs = _block_probs(padded, flat, n_classes=n_classes)
        yield rows, np.asarray(probs)[: rows.stop - rows.start]


@partial(jax.jit, static_argnames=("n_classes",))
def _block_probs(
    X: Float[Array, "N d"], flat: Float[Array, "d JK"], *, n_classes: int
) -> Float[Array, "N C K"]:
    contrasts = jax.numpy.matmul(X, flat, precision=jax.lax.Precision.HIGHEST)
    return class_probs(contrasts.reshape(X.shape[0], n_classes - 1, -1), n_classes)
