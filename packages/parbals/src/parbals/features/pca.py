"""Principal directions of a pool, fitted on the pool alone: of arrays of any size, and of wide
sparse matrices, such as raw TF-IDF."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.wording import percent

__all__ = ["WIDE", "Principal", "SparseReduction", "float_blocks", "is_sparse", "principal"]
__all__ += ["singular_directions"]

WIDE = 1_024
"""With more columns than this a sparse matrix is reduced; with fewer it is taken as it is."""
_DIRECTIONS = 256
"""As many as the embedding of a small encoder has: what a few hundred labels can weigh."""
_LEARN_FROM = 20_000
_ROWS = 8_192
_NEGLIGIBLE = 1e-12
"""Of a column's square: rounding of the mean leaves that much variance in one that is constant."""


class Principal(NamedTuple):
    """The mean (D,), directions (q, D), largest variance first, and their shares of it (q,)."""

    mean: np.ndarray
    directions: np.ndarray
    shares: np.ndarray


def principal(rows: Any, keep: float | int = 1.0) -> Principal:
    """The directions in which the rows (N, D) differ most.

    Rows are read in blocks and widened before anything is added up (float16 overflows at 65,504),
    so memory-mapped embeddings of any number of rows work. A direction's sign is arbitrary: its
    largest entry is made positive, so that the same rows give the same directions anywhere. Where
    all rows are alike there is none.

    Args:
        keep: a share of the variance, 0 < keep ≤ 1, or a whole number of directions.
    """
    n_rows, n_columns = rows.shape
    mean = np.asarray(sum(block.sum(axis=0) for block in float_blocks(rows)) / n_rows)
    moments = np.asarray(sum(np.square(block - mean).sum(axis=0) for block in float_blocks(rows)))
    varies = moments > _NEGLIGIBLE * n_rows * np.square(mean)
    if not varies.any():
        return Principal(mean, np.zeros((0, n_columns)), np.zeros(0))
    centred = ((block - mean)[:, varies] for block in float_blocks(rows))
    if n_rows < n_columns:  # the short side decides the cost
        _, roots, axes = np.linalg.svd(np.concatenate(list(centred)), full_matrices=False)
        values = np.square(roots)
    else:
        values, columns = np.linalg.eigh(np.asarray(sum(block.T @ block for block in centred)))
        values, axes = np.maximum(values[::-1], 0.0), columns.T[::-1]
    shares = values / values.sum()
    n_kept = int(keep)
    if isinstance(keep, float):
        n_kept = int(np.searchsorted(np.cumsum(shares), keep * (1.0 - 1e-12))) + 1
    n_kept = min(n_kept, int(np.count_nonzero(values)))
    directions = np.zeros((n_kept, n_columns))
    directions[:, varies] = axes[:n_kept]
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.sign(directions[np.arange(n_kept), largest])[:, None]
    return Principal(mean, directions, shares[:n_kept])


def singular_directions(rows: Any, n_directions: int, seed: int = 0) -> np.ndarray:
    """(n_directions, D): the leading right singular vectors of sparse rows, nothing centred."""
    from sklearn.decomposition import TruncatedSVD

    with np.errstate(invalid="ignore"):  # the share of a variance that is zero: equal rows
        svd = TruncatedSVD(n_directions, random_state=seed).fit(rows)
    return np.asarray(svd.components_)


def float_blocks(table: Any) -> Iterator[np.ndarray]:
    """Row blocks as float64, each checked to be finite."""
    for start in range(0, len(table), _ROWS):
        block = np.asarray(table[start : start + _ROWS], np.float64)
        if not np.isfinite(block).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
            raise InputError(
                f"Row {start + row}, column {column} is {block[row, column]}; features must not "
                "contain NaN or inf."
            )
        yield block


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
