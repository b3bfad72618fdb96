"""The prior as a linear map: rows are whitened at the door, and all weights are then N(0, I).

With design rows x̃ = (x, 1), a centre μ of the features and a matrix T (d, d)

    z = (x̃ - (μ, 0)) T,        f = z·v = x̃·w,        v ~ N(0, I),

so a class has weights w = T v, of covariance T Tᵀ, for features that are counted from μ.
"""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Whitening"]


class Whitening(NamedTuple):
    """T is ``left`` where that is square, else diag(deviations) + left right, q columns and rows.

    Methods take NumPy arrays and, held by JAX arrays, JAX's.
    """

    centre: Any  # (d,), the last entry 0
    deviations: Any  # (d,)
    left: Any  # (d, q)
    right: Any  # (q, d)

    @classmethod
    def diagonal(cls, deviations: np.ndarray, centre: np.ndarray | None = None) -> "Whitening":
        """Independent weights with these deviations (d,)."""
        n_columns = len(deviations)
        none = np.zeros((n_columns, 0))
        return cls(np.zeros(n_columns) if centre is None else centre, deviations, none, none.T)

    @property
    def is_whole(self) -> bool:
        n_columns, n_directions = self.left.shape
        return bool(n_columns == n_directions)

    def rows(self, X: Any) -> Any:
        """z (N, d) of design rows X (N, d); rows of zeros, which pad, stay zeros."""
        shifted = self.shifted(X)
        if self.is_whole:
            return shifted @ self.left
        if self.left.shape[1] == 0:
            return shifted * self.deviations
        return shifted * self.deviations + (shifted @ self.left) @ self.right

    def shifted(self, X: Any) -> Any:
        """Design rows X (N, d) counted from the centre."""
        return (X - X[:, -1:] * self.centre).astype(self.left.dtype, copy=False)

    def coloured(self, v: np.ndarray) -> np.ndarray:
        """T v (d, ...) of whitened weights v (d, ...), for design rows counted from the centre."""
        if self.is_whole:
            return np.tensordot(self.left, v, axes=1)
        w = self.deviations.reshape(-1, *[1] * (v.ndim - 1)) * v
        return np.asarray(w + np.tensordot(self.left, np.tensordot(self.right, v, axes=1), axes=1))

    def weights(self, v: np.ndarray) -> np.ndarray:
        """The same for design rows as they are."""
        w = self.coloured(v)
        w[-1] -= np.tensordot(self.centre, w, axes=1)
        return w

    def single(self) -> "Whitening":
        """The same in single precision, but for the centre: features may lie far from zero."""
        parts = (self.deviations, self.left, self.right)
        return Whitening(self.centre, *(np.asarray(x, np.float32) for x in parts))

    def times(self, factor: float) -> "Whitening":
        """The same prior with all deviations ``factor`` times as large."""
        right = self.right if self.is_whole else factor * self.right
        left = factor * self.left if self.is_whole else self.left
        return Whitening(self.centre, factor * self.deviations, left, right)
