"""Principal directions of a pool, fitted on the pool alone, over arrays of any size."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from parbals.errors import InputError

__all__ = ["Principal", "float_blocks", "principal", "singular_directions"]

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
