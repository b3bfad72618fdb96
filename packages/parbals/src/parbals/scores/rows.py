"""Predictive samples laid out for scoring, and scores of them, block by block.

Two classes need one row of K numbers a point (p of class 1; the other follows), C > 2 classes need
C. A score is a formula over an array module: NumPy computes it on the threads of this CPU, JAX
where there is an accelerator.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.machine import on_host, several_threads
from parbals.shapes import Array, Float

__all__ = ["class_rows", "map_points", "placed", "precision_of"]

_HOST_ENTRIES, _DEVICE_ENTRIES = 1 << 17, 1 << 23
"""Numbers that a score holds for one block of points: on a CPU as many as its cache keeps."""


def class_rows(probs: Float[Array, "N K C"]) -> Float[Array, "N A K"]:
    """Rows from predictive samples: A = 1 for two classes, else C."""
    if probs.shape[2] == 2:
        return np.ascontiguousarray(probs[:, :, 1])[:, None, :]
    return np.ascontiguousarray(probs.swapaxes(1, 2))


def precision_of(dtype: Any) -> AbstractContextManager[Any]:
    """Compute in a precision; JAX must be told, NumPy goes by its arrays."""
    if on_host():
        return nullcontext()
    from parbals.accelerators import working_precision

    return working_precision(np.dtype(dtype))


def placed(array: np.ndarray) -> Any:
    """The array where scores of it are computed: here, or on the accelerator."""
    if on_host():
        return array
    from jax import device_put

    with precision_of(array.dtype):
        return device_put(array)


def map_points(
    score: Callable[..., Any], points: Any, *more: Any, entries: int | None = None, **options: Any
) -> np.ndarray:
    """A score (N,) of every point, block by block, in the precision of the points.

    Args:
        score: a function of a block of points, of ``more``, of ``options`` and of ``xp``.
        points: an array of N points, or anything that gives blocks of one by ``points[rows]``.
        more: arrays that every block needs, such as weights (K,).
        entries: how many numbers the score holds for a point; those of the point if not given.
        options: what a compiled program is for, such as the loss.
    """
    entries = int(np.prod(points.shape[1:])) if entries is None else entries
    if on_host():
        blocks = list(block_rows(len(points), max(1, _HOST_ENTRIES // entries)))
        if len(blocks) == 1:  # to find the threads takes longer
            return np.asarray(score(points[blocks[0]], *more, xp=np, **options))
        with several_threads() as workers:
            parts = workers.map(lambda rows: score(points[rows], *more, xp=np, **options), blocks)
        return np.concatenate(parts)
    from parbals.accelerators import compiled

    block = min(bucket(len(points)), max(16, 1 << (_DEVICE_ENTRIES // entries).bit_length()))
    with precision_of(points.dtype):
        # Dispatched without waiting: the next block is laid out while this one is scored.
        parts = [
            compiled(score, **options)(pad_rows(points[rows], block), *more)
            for rows in block_rows(len(points), block)
        ]
        return np.concatenate([np.asarray(part) for part in parts])[: len(points)]
