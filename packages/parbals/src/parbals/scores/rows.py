"""Layout of predictive samples for scoring, and scoring them block by block.

Two classes need one row of K numbers per point (p of class 1; the other follows), C > 2 classes
need C. A score is a formula over an array module: NumPy computes it on the threads of this CPU, or
JAX on an accelerator if there is one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.machine import Workers, compiled, on_host, several_threads, working_precision
from parbals.shapes import Array, Float

__all__ = ["LazyPoints", "class_rows", "compute_context", "map_points", "to_device"]

_HOST_BLOCK_ENTRIES = 1 << 17  # numbers a score holds for one block of points: fits the cache
_DEVICE_BLOCK_ENTRIES = 1 << 23
_MIN_THREADED_ENTRIES = 1 << 14  # opening threads for fewer numbers takes longer than scoring


def class_rows(probs: Float[Array, "N K C"]) -> Float[Array, "N A K"]:
    """Lay out predictive samples as rows (N, A, K): A = 1 for two classes, else C.

    >>> class_rows(np.array([[[0.3, 0.7], [0.6, 0.4]]]))
    array([[[0.7, 0.4]]])
    """
    if probs.shape[2] == 2:
        return np.ascontiguousarray(probs[:, :, 1])[:, None, :]
    return np.ascontiguousarray(probs.swapaxes(1, 2))


@contextmanager
def compute_context(dtype: Any) -> Iterator[Workers | None]:
    """Set up scoring: JAX in this precision on an accelerator, else NumPy on the yielded threads.

    Threads of an outer ``compute_context`` are reused: opening them takes half a millisecond, and
    while they are open no matrix product starts threads of its own.
    """
    if not on_host():
        with working_precision(np.dtype(dtype)):
            yield None
    elif getattr(_thread_state, "workers", None) is not None:
        yield _thread_state.workers
    else:
        with several_threads() as _thread_state.workers:
            try:
                yield _thread_state.workers
            finally:
                _thread_state.workers = None


_thread_state = threading.local()


class LazyPoints:
    """Points (N, ...) that are computed from their sources when needed.

    Nothing of the pool's size is held twice.

    >>> points = LazyPoints(np.array([1.0, 2.0]), compute=lambda sources: 10 * sources)
    >>> points[:1]
    array([10.], dtype=float32)
    """

    def __init__(
        self, sources: Any, compute: Callable[[Any], np.ndarray], dtype: Any = np.float32
    ) -> None:
        self._sources = sources
        self._compute = compute
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self._compute(self._sources[rows]).astype(self.dtype, copy=False)


def to_device(array: np.ndarray) -> Any:
    """Move an array to the accelerator, if scores are computed there."""
    if on_host():
        return array
    from jax import device_put

    with compute_context(array.dtype):
        return device_put(array)


def map_points(
    score: Callable[..., Any],
    points: Any,
    *arrays: Any,
    entries: int | None = None,
    **options: Any,
) -> np.ndarray:
    """Score (N,) every point, block by block, in the precision of the points.

    Args:
        score: a function of a block of points, of ``arrays``, of ``options`` and of ``xp``.
        points: an array of N points, or an object that gives blocks by ``points[rows]``.
        arrays: that every block needs, such as weights (K,).
        entries: how many numbers the score holds per point; by default the size of a point.
        options: static arguments of the compiled program, such as the loss.

    >>> map_points(lambda rows, xp: rows.sum(axis=1), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.])
    """
    n_points = len(points)
    if entries is None:
        entries = int(np.prod(points.shape[1:]))
    if on_host() and n_points * entries <= _MIN_THREADED_ENTRIES:
        return np.asarray(score(points[:], *arrays, xp=np, **options))
    with compute_context(points.dtype) as workers:
        if workers is not None:
            cache_size = max(1, _HOST_BLOCK_ENTRIES // entries)
            size = min(-(-n_points // workers.n_threads), cache_size)
            scores = workers.map(
                lambda rows: score(points[rows], *arrays, xp=np, **options),
                block_rows(n_points, size),
            )
            return np.concatenate(scores)
        memory_size = max(16, 1 << (_DEVICE_BLOCK_ENTRIES // entries).bit_length())
        size = min(bucket(n_points), memory_size)
        # Dispatched without waiting: the next block is laid out while this one is scored.
        scores = [
            compiled(score, **options)(pad_rows(points[rows], size), *arrays)
            for rows in block_rows(n_points, size)
        ]
        return np.concatenate([np.asarray(block) for block in scores])[:n_points]
