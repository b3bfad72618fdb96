"""Predictive samples laid out for scoring: a row of K numbers for each point and free class.

Two classes need one row a point (p of class 1; the other follows), C > 2 classes need C. Rows are
padded to whole blocks with zeros, which every score maps to a contribution of zero.
"""

from collections.abc import Iterator

import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows

__all__ = [
    "class_rows",
    "padded_targets",
    "pool_block",
    "pool_blocks",
    "target_chunk",
    "target_rows",
]

_TABLE_ENTRIES = 1 << 20
"""Entries of the largest table of (candidate, class) × (target, class) pairs that is held at once:
4 MB, so that it stays in cache between the matrix product and the logarithms."""


def class_rows(probs: np.ndarray) -> np.ndarray:
    """(N, A, K) from predictive samples (N, K, C): A = 1 for two classes, else C."""
    if probs.shape[2] == 2:
        return np.ascontiguousarray(probs[:, :, 1])[:, None, :]
    return np.ascontiguousarray(probs.swapaxes(1, 2))


def target_chunk(n_targets: int, n_rows: int) -> int:
    """How many targets are scored against at once."""
    return min(bucket(n_targets), 1024 if n_rows == 1 else 64)


def pool_block(n_pool: int, n_targets: int, n_rows: int) -> int:
    """How many candidates are scored at once, so that the table of pairs stays small."""
    return min(
        bucket(n_pool), max(8, _TABLE_ENTRIES // (target_chunk(n_targets, n_rows) * n_rows**2))
    )


def padded_targets(n_targets: int, n_rows: int) -> int:
    """M', the number of targets padded to whole chunks."""
    chunk = target_chunk(n_targets, n_rows)
    return -(-n_targets // chunk) * chunk


def target_rows(probs: np.ndarray) -> np.ndarray:
    """Class rows of the target set (M', A, K)."""
    rows = class_rows(probs)
    return pad_rows(rows, padded_targets(*rows.shape[:2]))


def pool_blocks(probs: np.ndarray, block: int) -> Iterator[np.ndarray]:
    """Class rows of the pool, one padded block (block, A, K) at a time."""
    for rows in block_rows(len(probs), block):
        yield pad_rows(class_rows(probs[rows]), block)
