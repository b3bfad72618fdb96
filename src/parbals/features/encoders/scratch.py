"""Matrices larger than memory: rows in a file without a name, which is gone when nobody uses them
any more."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from parbals.arrays import release_pages
from parbals.errors import InputError

__all__ = ["ROWS", "reduced_rows", "row_blocks", "scratch", "standardised_rows"]

ROWS = 8192
_LEARN_FROM = 20_000


def scratch(shape: tuple[int, int], folder: Path | None, dtype: str = "<f4") -> np.ndarray:
    """A writable matrix of zeros in a file in ``folder`` (by default where the system keeps
    temporary files)."""
    n_bytes = max(1, shape[0] * shape[1] * np.dtype(dtype).itemsize)
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            # Room that is promised now cannot be missing later, when writing to the mapping could
            # only crash.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
        except OSError as error:
            raise InputError(
                f"There is no room for features of {n_bytes:,} bytes in "
                f"{folder or tempfile.gettempdir()} ({error.strerror}); nothing has been changed."
            ) from None
        return np.memmap(file, dtype, "r+", shape=shape)


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Slices that cover all rows, a few thousand at a time."""
    for start in range(0, n_rows, ROWS):
        yield slice(start, min(start + ROWS, n_rows))


def reduced_rows(
    raw: np.ndarray, length: float, folder: Path | None, blank: Sequence[int] = ()
) -> np.ndarray:
    """PCA to 99 % of the variance, as in the paper, scaled so that the root mean square length of a
    row is ``length``.

    Mean and directions are those of 20,000 rows evenly spread where there are more. Columns that
    never change carry no variance, so they are gone. The rows ``blank`` become zero.
    """
    from parbals.features.pca import PoolPCA

    if len(raw) < 2:
        return np.asarray(raw, np.float32)
    pca = PoolPCA(0.99).fit(_spread(raw, -(-len(raw) // _LEARN_FROM)))
    rows = scratch((len(raw), pca.n_components_), folder)
    total = 0.0
    for block in row_blocks(len(raw)):
        rows[block] = pca.transform(raw[block])
        rows[[row for row in blank if block.start <= row < block.stop]] = 0.0
        total += float(np.square(rows[block], dtype=np.float64).sum())
        _release(raw, rows)
    factor = np.float32(length / np.sqrt(total / len(raw)))
    for block in row_blocks(len(raw)):
        rows[block] *= factor
        _release(rows)
    return rows


def standardised_rows(raw: np.ndarray, folder: Path | None) -> np.ndarray:
    """Each column with mean 0 and deviation 1; a column that never changes becomes zero."""
    mean = sum(raw[block].sum(axis=0) for block in row_blocks(len(raw))) / len(raw)
    square = sum(np.square(raw[block] - mean).sum(axis=0) for block in row_blocks(len(raw))) / len(
        raw
    )
    deviation = np.sqrt(square)
    rows = scratch((len(raw), raw.shape[1]), folder)
    for block in row_blocks(len(raw)):
        rows[block] = (raw[block] - mean) / np.where(deviation > 0, deviation, 1.0)
        _release(raw, rows)
    return rows


def _spread(raw: np.ndarray, step: int) -> np.ndarray:
    """Every ``step``-th row, read block by block: one stride over a mapped file would map all of
    it."""
    parts = []
    for block in row_blocks(len(raw)):
        parts.append(np.array(raw[block][-block.start % step :: step]))
        release_pages(raw)
    return np.concatenate(parts)


def _release(*arrays: np.ndarray) -> None:
    for array in arrays:
        release_pages(array)
