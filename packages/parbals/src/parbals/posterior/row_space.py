"""The part of weight space that the labelled rows touch: the only part that has to be moved.

Labels see the weights through the rows alone, so across the rows the posterior is the prior and
independent of what lies within. Particles are fitted and moved in the coordinates of an orthonormal
basis whose span holds the rows, and keep across it the prior draws they have: exact, and with
3,072 features and 30 labels a hundredth of the work. The basis is filled up to a power of two, so
that a growing number of rows compiles a handful of programs.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["RowSpace", "row_space"]


class RowSpace(NamedTuple):
    """The span of an orthonormal basis Q (d, r), or the whole space of d dimensions."""

    basis: np.ndarray | None = None

    def matrix(self, n_columns: int) -> np.ndarray:
        """Q (d, r), for d columns."""
        return np.eye(n_columns) if self.basis is None else self.basis

    def rows(self, X: np.ndarray) -> np.ndarray:
        """X Q (n, r): coordinates of rows (n, d)."""
        return X if self.basis is None else X @ self.basis

    def coordinates(self, vectors: np.ndarray) -> np.ndarray:
        """Qᵀ v (r, ...) of vectors v (d, ...)."""
        return vectors if self.basis is None else np.tensordot(self.basis.T, vectors, axes=1)

    def vectors(self, coordinates: np.ndarray) -> np.ndarray:
        """Q c (d, ...) of coordinates c (r, ...)."""
        return coordinates if self.basis is None else np.tensordot(self.basis, coordinates, axes=1)

    def replace(self, vectors: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
        """v + Q (c - Qᵀ v) (d, ...): new coordinates within, unchanged across."""
        if self.basis is None:
            return coordinates
        return vectors + self.vectors(coordinates - self.coordinates(vectors))


def row_space(X: np.ndarray, size: int | None = None) -> RowSpace:
    """A space of ``size`` ≥ n dimensions that holds rows X (n, d); the whole one if d ≤ size."""
    n_rows, n_columns = X.shape
    size = n_rows if size is None else size
    if size >= n_columns:
        return RowSpace()
    columns = np.zeros((n_columns, size))
    columns[:, :n_rows] = X.T
    return RowSpace(np.linalg.qr(columns)[0])  # orthonormal, whatever the rank
