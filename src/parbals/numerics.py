"""Small numerical tools in JAX that every layer shares.

Axis letters: N pool points, M target points, K posterior samples, C classes, D features.
"""

from contextlib import AbstractContextManager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["entropy", "safe_reciprocal", "use_disk_cache", "working_precision"]


def working_precision(dtype: np.dtype) -> AbstractContextManager[None]:
    """Compute in the precision of the caller's data: float64 in, float64 throughout.

    JAX truncates to float32 unless told otherwise; the setting is scoped to the ``with`` block and
    to this thread, so the caller's own JAX configuration is left as it was.
    """
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def use_disk_cache(folder: Path) -> None:
    """Keep compiled programs in a folder, so that the next process does not compile them again.

    Only commands call this: a library leaves its caller's JAX configuration alone.
    """
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def safe_reciprocal(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1/x where x > 0 and 0 elsewhere: an event of probability zero contributes nothing.

    Below 1e-18 nothing is told apart any more: products of two reciprocals stay finite in float32.
    """
    return jnp.where(x > 0, 1.0 / jnp.maximum(x, 1e-18), 0.0)


def entropy(probs: Float[Array, "... C"]) -> Float[Array, "..."]:
    """Shannon entropy in nats over the last axis, with 0 ln 0 = 0."""
    return -jnp.sum(jax.scipy.special.xlogy(probs, probs), axis=-1)
