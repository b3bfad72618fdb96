"""Small numerical tools that every layer shares: safe logarithms, padding to size buckets, weights.

Axis letters: N pool points, M target points, K posterior samples, C classes, D features.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = [
    "block_rows",
    "bucket",
    "effective_sample_size",
    "entropy",
    "normalise_log_weights",
    "pad_rows",
    "safe_reciprocal",
    "use_disk_cache",
    "working_precision",
]


def working_precision(dtype: np.dtype) -> AbstractContextManager[None]:
    """Compute in the precision of the caller's data: float64 in, float64 throughout.

    JAX truncates to float32 unless told otherwise; the setting is scoped to the ``with`` block and
    to this thread, so the caller's own JAX configuration is left as it was.
    """
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def use_disk_cache(folder: Path | None = None) -> Path:
    """Keep compiled programs on disk, so that the next process on this machine does not compile them again.

    By default in ``$PARBALS_CACHE_DIR``, else in the user's cache folder. Only commands call this: a library leaves
    its caller's JAX configuration alone.
    """
    if folder is None:
        base = os.environ.get("PARBALS_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "parbals"
        folder = Path(base).expanduser()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


def bucket(size: int, smallest: int = 16) -> int:
    """The next power of two, at least ``smallest``.

    Arrays that grow by one row at a time are padded to this length, so that growing from 1 to 256
    rows compiles five programs and not 256.
    """
    return max(smallest, 1 << (max(size, 1) - 1).bit_length())


def pad_rows(array: np.ndarray, rows: int) -> np.ndarray:
    """Append zero rows until the first axis has ``rows`` entries."""
    missing = rows - len(array)
    if missing == 0:
        return array
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])


def block_rows(n_rows: int, block: int) -> Iterator[slice]:
    """Consecutive slices of at most ``block`` rows that cover ``range(n_rows)``."""
    for start in range(0, n_rows, block):
        yield slice(start, min(start + block, n_rows))


def safe_reciprocal(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1/x where x > 0 and 0 elsewhere: an event of probability zero contributes nothing."""
    positive = x > 0
    return jnp.where(positive, 1.0 / jnp.where(positive, x, 1.0), 0.0)


def entropy(probs: Float[Array, "... C"]) -> Float[Array, "..."]:
    """Shannon entropy in nats over the last axis, with 0 ln 0 = 0."""
    return -jnp.sum(jax.scipy.special.xlogy(probs, probs), axis=-1)


def normalise_log_weights(log_weights: np.ndarray) -> np.ndarray:
    """Weights that sum to one over the last axis, from unnormalised logarithms."""
    shifted = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def effective_sample_size(weights: np.ndarray) -> np.ndarray:
    """(Σ w)² / Σ w² over the last axis: how many equally weighted samples the weights are worth."""
    return weights.sum(axis=-1) ** 2 / np.square(weights).sum(axis=-1)
