"""Arrays, NumPy's and any other's: blocks of rows, padding to size buckets, weights, files.

Formulas that serve NumPy and JAX alike take the array module, ``xp``.
"""

import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["block_rows", "bucket", "drawn_positions", "effective_sample_size", "exact_products"]
__all__ += ["mean_prediction", "pad_rows", "release_pages", "safe_reciprocal", "times_log"]


def bucket(size: int, smallest: int = 16) -> int:
    """The next power of two, at least ``smallest``.

    Arrays that grow by one row at a time are padded to this length, so that growing from 1 to 256
    rows compiles five programs and not 256.
    """
    return max(smallest, 1 << (max(size, 1) - 1).bit_length())


def pad_rows(array: Any, rows: int) -> Any:
    """Append zero rows until the first axis has ``rows`` entries."""
    missing = rows - len(array)
    if missing == 0:
        return array
    xp = array.__array_namespace__()
    return xp.concatenate([array, xp.zeros((missing, *array.shape[1:]), array.dtype)])


def drawn_positions(
    generator: np.random.Generator, n_rows: int, size: int, leave_out: np.ndarray | None = None
) -> np.ndarray:
    """At most ``size`` different rows of ``n_rows``, ascending; none at ``leave_out``."""
    kept = np.arange(n_rows)
    if leave_out is not None:
        kept = np.delete(kept, leave_out)
    return kept if size >= len(kept) else np.sort(generator.choice(kept, size, replace=False))


def block_rows(n_rows: int, block: int) -> Iterator[slice]:
    """Consecutive slices of at most ``block`` rows that cover ``range(n_rows)``."""
    for start in range(0, n_rows, block):
        yield slice(start, min(start + block, n_rows))


def effective_sample_size(weights: np.ndarray) -> np.ndarray:
    """(Σ w)² / Σ w² over the last axis: how many equally weighted samples the weights are worth."""
    return weights.sum(axis=-1) ** 2 / np.square(weights).sum(axis=-1)


def mean_prediction(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """p̄ = Σ_k w_k p_k of samples (N, K, C), float64, every row summing to one: (N, C)."""
    mean = (weights.astype(probs.dtype) @ probs).astype(np.float64)
    return mean / mean.sum(axis=1, keepdims=True)


def release_pages(array: Any) -> None:
    """Forget the pages of a memory-mapped array that were read so far; anything else is left alone.

    The system would do so itself when memory runs short, but until then a walk over a large file
    looks, to every tool that watches the process, as if the whole file were held in memory.
    """
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


def exact_products(xp: ModuleType) -> AbstractContextManager[Any]:
    """Matrix products in full precision, which accelerators must be told; NumPy's always are."""
    if xp is np:
        return nullcontext()
    import jax

    return jax.default_matmul_precision("highest")


def safe_reciprocal(x: Any, xp: ModuleType) -> Any:
    """1/x where x > 0 and 0 elsewhere: an event of probability zero contributes nothing.

    Below 1e-18 nothing is told apart any more: products of two reciprocals stay finite in float32.
    """
    return xp.where(x > 0, 1.0 / xp.maximum(x, 1e-18), 0.0)


def times_log(x: Any, xp: ModuleType) -> Any:
    """x ln x for x ≥ 0: the smallest of numbers, added, is lost in any but 0, where it gives 0."""
    return x * xp.log(x + np.finfo(x.dtype).tiny)
