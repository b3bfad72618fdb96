"""Small numerical tools in JAX that every layer shares.

Axis letters: N pool points, M target points, K posterior samples, C classes, D features.
"""

import hashlib
import os
import platform as system
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from parbals.errors import InputError
from parbals.files import cache_folder, locked

__all__ = [
    "COMPILED_SOON",
    "devices",
    "keep_compiled",
    "platform",
    "safe_reciprocal",
    "working_precision",
]

_LARGEST_CACHE = 64 << 20
"""Bytes: a few thousand programs. JAX looks at all of them whenever it adds one."""
_SHORTEST_COMPILE = 0.02
"""Seconds. JAX's own limit of one second would drop nearly all of ours; at none, every small step
that a caller's own code takes would become a file."""


COMPILED_SOON = {"xla_gpu_autotune_level": "0"}
"""Compiler options of large programs: on a GPU, choosing the fastest of all kernels for every
product takes half a minute, and gains a few hundredths of a second."""


def working_precision(dtype: np.dtype) -> AbstractContextManager[None]:
    """Compute in the precision of the caller's data: float64 in, float64 throughout.

    JAX truncates to float32 unless told otherwise; the setting is scoped to the ``with`` block and
    to this thread, so the caller's own JAX configuration is left as it was.
    """
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def devices() -> list[jax.Device]:
    """All devices of this process, or the one that the user told JAX to use."""
    told = getattr(jax.config, "jax_default_device", None)
    if isinstance(told, jax.Device):
        return [told]
    return jax.local_devices(backend=told)[:1] if told else jax.local_devices()


def platform() -> str:
    """``cpu``, or ``gpu`` for any accelerator: what decides how much is done at once."""
    return "cpu" if devices()[0].platform == "cpu" else "gpu"


def keep_compiled() -> None:
    """Keep compiled programs in the user's cache folder, so that the next process finds them.

    A caller who has given JAX a folder of its own (``JAX_COMPILATION_CACHE_DIR``, ``jax.config``)
    or turned its cache off (``JAX_ENABLE_COMPILATION_CACHE=0``) keeps that. Where the folder cannot
    be written to, nothing is kept.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    with suppress(OSError, RuntimeError):  # not ours to write, or nobody's home
        folder = cache_folder() / "compiled" / _processor()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(folder)
        config.update("jax_compilation_cache_dir", str(folder))
        config.update("jax_compilation_cache_max_size", _LARGEST_CACHE)
        config.update("jax_persistent_cache_min_compile_time_secs", _SHORTEST_COMPILE)


def _processor() -> str:
    """A name for the instructions this machine has: a home folder may serve several machines."""
    text = ""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        text = next((line for line in file if line.startswith(("flags", "Features"))), "")
    text = text or system.processor()
    return f"{system.machine()}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def _sweep(folder: Path) -> None:
    """Remove programs that a process was killed over writing, which JAX would stumble over.

    JAX writes a program to X-cache and then the time to X-atime, under this lock.
    """
    busy = InputError("another process is at it")
    with suppress(InputError), locked(folder / ".lockfile", busy):
        names = set(os.listdir(folder))
        for name in names:
            if name.endswith("-cache") and f"{name.removesuffix('-cache')}-atime" not in names:
                (folder / name).unlink(missing_ok=True)


def safe_reciprocal(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1/x where x > 0 and 0 elsewhere: an event of probability zero contributes nothing.

    Below 1e-18 nothing is told apart any more: products of two reciprocals stay finite in float32.
    """
    return jnp.where(x > 0, 1.0 / jnp.maximum(x, 1e-18), 0.0)


keep_compiled()  # everything that compiles imports this module, or one that does
