"""Wide sparse matrices, such as raw TF-IDF, in a few directions."""

from typing import Any, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.features.pca import singular_directions
from parbals.wording import percent

__all__ = ["WIDE", "SparseReduction", "is_sparse"]

WIDE = 1_024
"""With more columns than this a sparse matrix is reduced; with fewer it is taken as it is."""
_DIRECTIONS = 256
"""As many as the embedding of a small encoder has: what a few hundred labels can weigh."""
_LEARN_FROM = 20_000


def is_sparse(X: Any) -> bool:
    """Whether X is one of SciPy's sparse matrices or arrays."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


class SparseReduction:
    """x → xV with the 256 leading right singular vectors V (D, d) of the pool's rows.

    Of 20,000 rows evenly spread where there are more. Nothing is centred or rescaled, so products
    of rows stay what they were as far as the directions reach.
    """

    def __init__(self, directions: np.ndarray, kept: float) -> None:
        self.directions, self.kept = directions, kept
        self.notes: tuple[str, ...] = (
            f"The {len(directions):,} sparse columns were reduced to {self.width} directions by "
            f"truncated SVD, which keep {percent(kept)} of their squares.",
        )

    @classmethod
    def fit(cls, X: Any, name: str, seed: int = 0) -> Self:
        rows = X.tocsr()
        _check_finite(rows, name)
        sample = rows[:: -(-rows.shape[0] // _LEARN_FROM)].astype(np.float64)
        size = min(_DIRECTIONS, min(sample.shape) - 1)
        total = float(sample.multiply(sample).sum())
        if size < 1 or total == 0.0:
            raise InputError(f"{name} is empty or has one row only; there is nothing to choose by.")
        directions = singular_directions(sample, size, seed)
        kept = float(np.square(sample @ directions.T).sum()) / total
        return cls(directions.T.astype(np.float32), min(kept, 1.0))

    @property
    def width(self) -> int:
        return int(self.directions.shape[1])

    def transform(self, X: Any, name: str = "X") -> np.ndarray:
        """(n, d) float32; X is sparse or dense and has the columns of the pool."""
        if len(np.shape(X)) != 2 or X.shape[1] != len(self.directions):
            raise ShapeError(
                f"{name} has shape {np.shape(X)}, but the pool has {len(self.directions)} columns."
            )
        if is_sparse(X):
            X = X.tocsr()
            _check_finite(X, name)
        return np.asarray(X @ self.directions, np.float32)


def _check_finite(rows: Any, name: str) -> None:
    if not np.isfinite(rows.data).all():
        raise InputError(f"{name} holds NaN or inf; features must be finite numbers.")
