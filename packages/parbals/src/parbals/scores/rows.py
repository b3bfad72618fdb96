"""Predictive samples laid out for scoring, and scores of them, block by block.

Two classes need one row of K numbers a point (p of class 1; the other follows), C > 2 classes need
C. A score is a formula over an array module: NumPy computes it on the threads of this CPU, JAX
where there is an accelerator.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.machine import Workers, compiled, on_host, several_threads, working_precision
from parbals.shapes import Array, Float

__all__ = ["LazyPoints", "class_rows", "computing", "map_points", "placed"]

_HOST_ENTRIES, _DEVICE_ENTRIES = 1 << 17, 1 << 23
"""Numbers that a score holds for one block of points: on a CPU as many as its cache keeps."""
_FEW_ENTRIES = 1 << 14


def class_rows(probs: Float[Array, "N K C"]) -> Float[Array, "N A K"]:
    """Rows from predictive samples: A = 1 for two classes, else C."""
    if probs.shape[2] == 2:
        return np.ascontiguousarray(probs[:, :, 1])[:, None, :]
    return np.ascontiguousarray(probs.swapaxes(1, 2))


@contextmanager
def computing(dtype: Any) -> Iterator[Workers | None]:
    """JAX computes in this precision where there is an accelerator; else NumPy on these threads.

    Threads that an outer ``computing`` has opened are used again: to open them takes half a
    millisecond, and while they are open no matrix product waits for threads of its own.
    """
    if not on_host():
        with working_precision(np.dtype(dtype)):
            yield None
    elif getattr(_opened, "workers", None) is not None:
        yield _opened.workers
    else:
        with several_threads() as _opened.workers:
            try:
                yield _opened.workers
            finally:
                _opened.workers = None


_opened = threading.local()


class LazyPoints:
    """Points (N, ...) that ``made`` computes from their sources whenever they are needed.

    Nothing of the pool's size is held twice.
    """

    def __init__(
        self, sources: Any, made: Callable[[Any], np.ndarray], dtype: Any = np.float32
    ) -> None:
        self._sources, self._made, self.dtype = sources, made, np.dtype(dtype)

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self._made(self._sources[rows]).astype(self.dtype, copy=False)


def placed(array: np.ndarray) -> Any:
    """The array where scores of it are computed: here, or on the accelerator."""
    if on_host():
        return array
    from jax import device_put

    with computing(array.dtype):
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
    if on_host() and len(points) * entries <= _FEW_ENTRIES:  # to find the threads takes longer
        return np.asarray(score(points[:], *more, xp=np, **options))
    with computing(points.dtype) as workers:
        if workers is not None:
            size = min(-(-len(points) // workers.n_threads), max(1, _HOST_ENTRIES // entries))
            blocks = block_rows(len(points), size)
            parts = workers.map(lambda rows: score(points[rows], *more, xp=np, **options), blocks)
            return np.concatenate(parts)
        size = min(bucket(len(points)), max(16, 1 << (_DEVICE_ENTRIES // entries).bit_length()))
        # Dispatched without waiting: the next block is laid out while this one is scored.
        parts = [
            compiled(score, **options)(pad_rows(points[rows], size), *more)
            for rows in block_rows(len(points), size)
        ]
        return np.concatenate([np.asarray(part) for part in parts])[: len(points)]
