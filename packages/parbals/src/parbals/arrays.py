"""Small array functions: blocks of rows, padding, sample weights, memory maps.

Functions for both NumPy and JAX take the array module, ``xp``.
"""

import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

__all__ = [
    "block_rows",
    "bucket",
    "drawn_positions",
    "effective_sample_size",
    "exact_products",
    "inverse_lower",
    "mean_prediction",
    "pad_rows",
    "release_pages",
    "safe_reciprocal",
    "solve_lower",
    "times_log",
    "without_broken_rows",
]

_BROKEN_DISTANCE = 10.0
_MAX_BROKEN_SHARE = 0.01
_TRIANGLE_ROWS = 32  # up to which a triangular matrix is inverted as any other
_MIN_DENOMINATOR = 1e-18  # products of two reciprocals stay finite in float32


def bucket(size: int, smallest: int = 16) -> int:
    """The next power of two, at least ``smallest``.

    Arrays that grow row by row are padded to this length, so that growing from 1 to 256 rows
    compiles five programs and not 256.

    >>> bucket(5), bucket(16), bucket(17)
    (16, 16, 32)
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
    generator: "np.random.Generator", n_rows: int, size: int, leave_out: np.ndarray | None = None
) -> np.ndarray:
    """At most ``size`` random positions below ``n_rows``, ascending, none in ``leave_out``.

    >>> drawn_positions(np.random.default_rng(0), 5, size=9, leave_out=np.array([2]))
    array([0, 1, 3, 4])
    """
    positions = np.arange(n_rows)
    if leave_out is not None:
        positions = np.delete(positions, leave_out)
    if size >= len(positions):
        return positions
    return np.sort(generator.choice(positions, size, replace=False))


def block_rows(n_rows: int, block: int) -> Iterator[slice]:
    """Consecutive slices of at most ``block`` rows that cover ``range(n_rows)``.

    >>> list(block_rows(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for start in range(0, n_rows, block):
        yield slice(start, min(start + block, n_rows))


def effective_sample_size(weights: np.ndarray) -> np.ndarray:
    """(Σ w)² / Σ w² over the last axis: the number of equally weighted samples worth as much.

    >>> float(effective_sample_size(np.array([0.5, 0.5, 0.0])))
    2.0
    """
    return weights.sum(axis=-1) ** 2 / np.square(weights).sum(axis=-1)


def mean_prediction(probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean prediction p̄ = Σ_k w_k p_k (N, C) of samples (N, K, C), float64, normalised."""
    mean = (weights.astype(probs.dtype) @ probs).astype(np.float64)
    return mean / mean.sum(axis=1, keepdims=True)


def release_pages(array: Any) -> None:
    """Release the pages of a memory-mapped array from memory; do nothing for other arrays.

    The operating system would do so when memory runs short, but until then monitoring tools count
    the whole file as memory of this process.
    """
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


def exact_products(xp: ModuleType) -> AbstractContextManager[Any]:
    """Full precision of matrix products, which JAX must be asked for on accelerators."""
    if xp is np:
        return nullcontext()
    import jax

    return jax.default_matmul_precision("highest")


def safe_reciprocal(x: Any, xp: ModuleType) -> Any:
    """1/x where x > 0 and 0 elsewhere: an event of probability zero contributes nothing."""
    return xp.where(x > 0, 1.0 / xp.maximum(x, _MIN_DENOMINATOR), 0.0)


def inverse_lower(lower: np.ndarray) -> np.ndarray:
    """L⁻¹ of lower triangular L (..., r, r), by halves: five times as fast as a general inverse.

        | A 0 |⁻¹   |     A⁻¹       0  |
        | B D |   = | -D⁻¹ B A⁻¹   D⁻¹ |

    >>> inverse_lower(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    size = lower.shape[-1]
    if size <= _TRIANGLE_ROWS:
        return np.tril(np.linalg.inv(lower))
    half = size // 2
    first = inverse_lower(lower[..., :half, :half])
    second = inverse_lower(lower[..., half:, half:])
    inverse = np.zeros_like(lower)
    inverse[..., :half, :half] = first
    inverse[..., half:, half:] = second
    inverse[..., half:, :half] = -second @ (lower[..., half:, :half] @ first)
    return inverse


def solve_lower(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L⁻¹ R (..., r, m) for lower triangular L (..., r, r), by halves.

    SciPy has a function for this, but importing it takes as long as a command may take.

    >>> solve_lower(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[2.0], [3.0]]))
    array([[1.],
           [2.]])
    """
    size = lower.shape[-1]
    if size <= _TRIANGLE_ROWS:
        return np.asarray(inverse_lower(lower) @ right)
    half = size // 2
    first = solve_lower(lower[..., :half, :half], right[..., :half, :])
    remainder = right[..., half:, :] - lower[..., half:, :half] @ first
    second = solve_lower(lower[..., half:, half:], remainder)
    return np.concatenate([first, second], axis=-2)


def times_log(x: Any, xp: ModuleType) -> Any:
    """x ln x for x ≥ 0, with value 0 at x = 0."""
    # Adding the smallest normal number changes no x but 0.
    return x * xp.log(x + np.finfo(x.dtype).tiny)


def without_broken_rows(rows: np.ndarray) -> np.ndarray:
    """Leave out rows (m, D) so far from the others that they must be broken, such as ×100.

    These are at most one in a hundred, ten times as far from the columns' medians as half of the
    rows are, in units of the columns' standard deviations. One such row would otherwise dominate
    every moment. If more rows are as far, the data have heavy tails, and all rows are returned.

    >>> rows = np.append(np.linspace(-1.0, 1.0, 200), 100.0)[:, None]
    >>> len(without_broken_rows(rows))
    200
    """
    deviations = rows.std(axis=0)
    scaled = (rows - np.median(rows, axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
    distances = np.sqrt(np.square(scaled).sum(axis=1))
    is_far = distances > _BROKEN_DISTANCE * np.median(distances)
    if not 0 < is_far.sum() <= _MAX_BROKEN_SHARE * len(rows):
        return rows
    return np.asarray(rows[~is_far])
