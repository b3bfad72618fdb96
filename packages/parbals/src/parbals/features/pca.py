"""Principal components of a pool, and truncated SVD of wide sparse matrices such as TF-IDF.

Both are fitted on the pool alone.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.wording import percent

__all__ = [
    "MAX_UNREDUCED_COLUMNS",
    "PrincipalComponents",
    "SparseReduction",
    "float_blocks",
    "is_sparse",
    "principal_components",
    "singular_directions",
]

MAX_UNREDUCED_COLUMNS = 1_024
"""A sparse matrix with more columns is reduced."""
_N_DIRECTIONS = 256
"""As many as the embedding of a small encoder: a few hundred labels can fit that many weights."""
_MAX_FIT_ROWS = 20_000
_BLOCK_ROWS = 8_192
_ROUNDING = 1e-12
"""Variance of a constant column, relative to its squared mean, that rounding can leave."""


class PrincipalComponents(NamedTuple):
    """Principal components of rows (N, D)."""

    mean: np.ndarray  # (D,)
    directions: np.ndarray  # (q, D), largest variance first
    shares: np.ndarray  # (q,) share of the variance that each explains


def principal_components(rows: Any, keep: float | int = 1.0) -> PrincipalComponents:
    """The directions in which rows (N, D) vary most; none if all rows are equal.

    Rows are read in blocks and converted to float64 before they are summed (float16 overflows at
    65,504), so memory-mapped embeddings of any size work. The sign of a direction is arbitrary: its
    largest entry is made positive, so that equal rows give equal directions on every machine.

    >>> pca = principal_components(np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))
    >>> pca.directions.tolist(), pca.shares.tolist()
    ([[1.0, 0.0]], [1.0])

    Args:
        rows: (N, D).
        keep: a share of the variance, 0 < keep ≤ 1, or a whole number of directions.
    """
    n_rows, n_columns = rows.shape
    mean = np.asarray(sum(block.sum(axis=0) for block in float_blocks(rows)) / n_rows)
    moments = np.asarray(sum(np.square(block - mean).sum(axis=0) for block in float_blocks(rows)))
    varies = moments > _ROUNDING * n_rows * np.square(mean)
    if not varies.any():
        return PrincipalComponents(mean, np.zeros((0, n_columns)), np.zeros(0))
    centred = ((block - mean)[:, varies] for block in float_blocks(rows))
    if n_rows < n_columns:  # the smaller dimension determines the cost
        _, singular_values, axes = np.linalg.svd(np.concatenate(list(centred)), full_matrices=False)
        variances = np.square(singular_values)
    else:
        covariance = np.asarray(sum(block.T @ block for block in centred))
        eigenvalues, eigenvectors = np.linalg.eigh(covariance)
        variances = np.maximum(eigenvalues[::-1], 0.0)
        axes = eigenvectors.T[::-1]
    shares = variances / variances.sum()
    n_kept = int(keep)
    if isinstance(keep, float):
        n_kept = int(np.searchsorted(np.cumsum(shares), keep * (1.0 - 1e-12))) + 1
    n_kept = min(n_kept, int(np.count_nonzero(variances)))
    directions = np.zeros((n_kept, n_columns))
    directions[:, varies] = axes[:n_kept]
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.sign(directions[np.arange(n_kept), largest])[:, None]
    return PrincipalComponents(mean, directions, shares[:n_kept])


def singular_directions(rows: Any, n_directions: int, seed: int = 0) -> np.ndarray:
    """Leading right singular vectors (n_directions, D) of sparse rows, without centring."""
    from sklearn.decomposition import TruncatedSVD

    with np.errstate(invalid="ignore"):  # equal rows have variance zero, of which shares are NaN
        svd = TruncatedSVD(n_directions, random_state=seed).fit(rows)
    return np.asarray(svd.components_)


def float_blocks(table: Any) -> Iterator[np.ndarray]:
    """Blocks of rows as float64, each checked to be finite."""
    for start in range(0, len(table), _BLOCK_ROWS):
        block = np.asarray(table[start : start + _BLOCK_ROWS], np.float64)
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0].tolist()
            raise InputError(
                f"Row {start + row}, column {column} is {block[row, column]}; features must not "
                "contain NaN or inf."
            )
        yield block


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


class SparseReduction:
    """Truncated SVD: x → xV with the 256 leading right singular vectors V (D, d) of the pool.

    Fitted on 20,000 evenly spread rows if there are more. Rows are neither centred nor rescaled, so
    inner products of rows are preserved as far as the directions span them.
    """

    def __init__(self, directions: np.ndarray, explained: float) -> None:
        self.directions = directions
        self.explained = explained  # share of the sum of squares
        self.notes: tuple[str, ...] = (
            f"The {len(directions):,} sparse columns were reduced to {self.width} directions by "
            f"truncated SVD, which keep {percent(explained)} of their squares.",
        )

    @classmethod
    def fit(cls, X: Any, name: str, seed: int = 0) -> Self:
        """Learn the directions from a sparse matrix, which error messages call ``name``."""
        rows = X.tocsr()
        _check_finite(rows, name)
        step = -(-rows.shape[0] // _MAX_FIT_ROWS)
        sample = rows[::step].astype(np.float64)
        n_directions = min(_N_DIRECTIONS, min(sample.shape) - 1)
        total = float(sample.multiply(sample).sum())
        if n_directions < 1 or total == 0.0:
            raise InputError(f"{name} is empty or has one row only; there is nothing to choose by.")
        directions = singular_directions(sample, n_directions, seed)
        explained = float(np.square(sample @ directions.T).sum()) / total
        return cls(directions.T.astype(np.float32), min(explained, 1.0))

    @property
    def width(self) -> int:
        """d."""
        return int(self.directions.shape[1])

    def transform(self, X: Any, name: str = "X") -> np.ndarray:
        """Features (n, d) float32 of a sparse or dense matrix with the pool's columns."""
        if len(np.shape(X)) != 2 or X.shape[1] != len(self.directions):
            raise ShapeError(
                f"{name} has shape {np.shape(X)}, but the pool has {len(self.directions)} columns."
            )
        if is_sparse(X):
            X = X.tocsr()
            _check_finite(X, name)
        return np.asarray(X @ self.directions, np.float32)


def _check_finite(rows: Any, name: str) -> None:
    """Raise an error if a sparse matrix holds NaN or inf."""
    if not np.isfinite(rows.data).all():
        raise InputError(f"{name} holds NaN or inf; features must be finite numbers.")
