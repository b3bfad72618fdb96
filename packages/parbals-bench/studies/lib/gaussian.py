"""What studies ask of a Gaussian posterior that the library has no use for."""

from typing import Any

import numpy as np

__all__ = ["covariance_with"]


def covariance_with(channels: Any, X: np.ndarray) -> np.ndarray:
    """S_a xᵀ (A, d, M) for design rows X (M, d): cov(f_a(x'), f_a(x)) = x' S_a xᵀ."""
    whitened = channels.whitening.rows(X).T  # (d, M)
    inside = channels.basis.T @ whitened
    learnt = channels.roots @ (channels.roots.transpose(0, 2, 1) @ inside) - inside
    coloured = (whitened + channels.basis @ learnt).transpose(1, 0, 2)
    return np.asarray(channels.whitening.weights(coloured).transpose(1, 0, 2))
