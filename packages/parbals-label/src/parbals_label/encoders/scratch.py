"""Matrices larger than memory: rows in a file without a name, gone when nobody uses them."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError
from parbals.features.pca import principal

__all__ = ["ROWS", "reduced_rows", "reserve", "scratch", "standardised_rows"]

ROWS = 8192
_LEARN_FROM = 20_000


def reserve(file: IO[bytes], n_bytes: int, folder: Path | None) -> None:
    """Room that is promised now: writing to a mapping that finds none later could only crash."""
    try:
        file.flush()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            file.truncate(n_bytes)
    except OSError as error:
        raise InputError(
            f"There is no room for features of {n_bytes:,} bytes in "
            f"{folder or tempfile.gettempdir()} ({error.strerror}); nothing has been changed."
        ) from None


def scratch(shape: tuple[int, int], folder: Path | None, dtype: str = "<f4") -> np.ndarray:
    """A writable matrix of zeros in ``folder``, by default where temporary files are kept."""
    with tempfile.TemporaryFile(dir=folder) as file:
        reserve(file, max(1, shape[0] * shape[1] * np.dtype(dtype).itemsize), folder)
        return np.memmap(file, dtype, "r+", shape=shape)


def reduced_rows(
    raw: np.ndarray, length: float, folder: Path | None, blank: Sequence[int] = ()
) -> np.ndarray:
    """PCA to 99 % of the variance, as in the paper; the root mean square of a row is ``length``.

    Mean and directions are those of 20,000 rows evenly spread where there are more. Columns that
    never change carry no variance, so they are gone. The rows ``blank`` become zero.
    """
    if len(raw) < 2:
        return np.asarray(raw, np.float32)
    blocks = list(block_rows(len(raw), ROWS))
    mean, directions, _ = principal(_sample(raw, -(-len(raw) // _LEARN_FROM)), 0.99)
    if not len(directions):
        raise InputError("Every column of the pool is constant, so its rows are all alike.")
    rows, total = scratch((len(raw), len(directions)), folder), 0.0
    for block in blocks:
        rows[block] = (np.asarray(raw[block], np.float64) - mean) @ directions.T
        rows[[row for row in blank if block.start <= row < block.stop]] = 0.0
        total += float(np.square(rows[block], dtype=np.float64).sum())
        release_pages(raw)
        release_pages(rows)
    factor = np.float32(length / np.sqrt(total / len(raw)))
    for block in blocks:
        rows[block] *= factor
        release_pages(rows)
    return rows


def _sample(raw: np.ndarray, step: int) -> np.ndarray:
    """Every ``step``-th row, block by block: one stride over a mapped file would map all of it."""
    parts = []
    for block in block_rows(len(raw), ROWS):
        parts.append(np.array(raw[block][-block.start % step :: step]))
        release_pages(raw)
    return np.concatenate(parts)


def standardised_rows(raw: np.ndarray, folder: Path | None) -> np.ndarray:
    """Each column with mean 0 and deviation 1; a column that never changes becomes zero."""
    blocks = list(block_rows(len(raw), ROWS))
    mean = sum(raw[block].sum(axis=0) for block in blocks) / len(raw)
    square = sum(np.square(raw[block] - mean).sum(axis=0) for block in blocks) / len(raw)
    deviation = np.where(square > 0, np.sqrt(square), 1.0)
    rows = scratch((len(raw), raw.shape[1]), folder)
    for block in blocks:
        rows[block] = (raw[block] - mean) / deviation
        release_pages(raw)
        release_pages(rows)
    return rows
