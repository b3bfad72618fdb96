"""JAX, where it is installed and has more than this CPU; it is loaded by what is called here.

Nothing is set for the whole process. Programs are compiled anew in every process unless the user
gives JAX a folder to keep them in (``JAX_COMPILATION_CACHE_DIR``).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import jax

__all__ = ["COMPILED_SOON", "compiled", "devices", "platform", "working_precision"]

COMPILED_SOON = {"xla_gpu_autotune_level": "0"}
"""Compiler options of large programs: on a GPU, choosing the fastest of all kernels for every
product takes half a minute, and gains a few hundredths of a second."""


def devices() -> list["jax.Device"]:
    """All devices of this process, or the one that the user told JAX to use."""
    import jax

    told = getattr(jax.config, "jax_default_device", None)
    if isinstance(told, jax.Device):
        return [told]
    return jax.local_devices(backend=told)[:1] if told else jax.local_devices()


def platform() -> str:
    """``cpu``, or ``gpu`` for any accelerator: what decides how much is done at once."""
    return "cpu" if devices()[0].platform == "cpu" else "gpu"


def working_precision(dtype: np.dtype) -> AbstractContextManager[None]:
    """Compute in the precision of the caller's data: float64 in, float64 throughout.

    JAX truncates to float32 unless told otherwise; the setting is scoped to the ``with`` block and
    to this thread, so the caller's own JAX configuration is left as it was.
    """
    import jax

    return jax.enable_x64(np.dtype(dtype) == np.float64)


@cache
def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function of arrays, options and the array module ``xp``, compiled for JAX's arrays."""
    import jax

    return jax.jit(partial(function, xp=jax.numpy, **options))
