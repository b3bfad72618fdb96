"""Matrices larger than memory: memory-mapped temporary files, removed when nobody uses them."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError
from parbals.features.pca import principal_components

__all__ = ["ROWS", "reduced_rows", "reserve", "scratch", "standardised_rows"]

ROWS = 8192
"""Rows that are processed at a time."""
_MAX_PCA_ROWS = 20_000
"""Rows to which PCA is fitted."""
_EXPLAINED_VARIANCE = 0.99


def reserve(file: IO[bytes], n_bytes: int, folder: Path | None) -> None:
    """Reserve disk space now: writing to a mapped file on a full disk would crash the process."""
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
    """A writable matrix of zeros in a file of ``folder``, by default that of temporary files.

    >>> matrix = scratch((2, 3), None)
    >>> matrix.shape, matrix.dtype
    ((2, 3), dtype('float32'))
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        reserve(file, max(1, shape[0] * shape[1] * np.dtype(dtype).itemsize), folder)
        return np.memmap(file, dtype, "r+", shape=shape)


def reduced_rows(
    raw: np.ndarray, length: float, folder: Path | None, blank: Sequence[int] = ()
) -> np.ndarray:
    """PCA to 99 % of the variance, as in the paper; the root mean square of a row is ``length``.

    Mean and directions are fitted to 20,000 evenly spaced rows of more. Constant columns carry no
    variance and are dropped. The rows ``blank`` become zero.
    """
    if len(raw) < 2:
        return np.asarray(raw, np.float32)
    blocks = list(block_rows(len(raw), ROWS))
    step = -(-len(raw) // _MAX_PCA_ROWS)
    mean, directions, _ = principal_components(_every_nth_row(raw, step), _EXPLAINED_VARIANCE)
    if not len(directions):
        raise InputError("Every column of the pool is constant, so all rows are equal.")
    rows = scratch((len(raw), len(directions)), folder)
    total = 0.0
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


def _every_nth_row(raw: np.ndarray, step: int) -> np.ndarray:
    """Every ``step``-th row, block by block: one stride over a mapped file would map all of it."""
    samples = []
    for block in block_rows(len(raw), ROWS):
        samples.append(np.array(raw[block][-block.start % step :: step]))
        release_pages(raw)
    return np.concatenate(samples)


def standardised_rows(raw: np.ndarray, folder: Path | None) -> np.ndarray:
    """Each column with mean 0 and standard deviation 1; a constant column becomes zero."""
    blocks = list(block_rows(len(raw), ROWS))
    mean = sum(raw[block].sum(axis=0) for block in blocks) / len(raw)
    variance = sum(np.square(raw[block] - mean).sum(axis=0) for block in blocks) / len(raw)
    deviation = np.where(variance > 0, np.sqrt(variance), 1.0)
    rows = scratch((len(raw), raw.shape[1]), folder)
    for block in blocks:
        rows[block] = (raw[block] - mean) / deviation
        release_pages(raw)
        release_pages(rows)
    return rows
