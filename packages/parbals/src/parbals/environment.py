"""Environment variables that libraries read when they are loaded."""

import os
from importlib.util import find_spec
from pathlib import Path

__all__ = ["accelerator_environment", "has_accelerator_package"]

_ACCELERATOR_PACKAGES = ("jax_plugins", "libtpu")


def has_accelerator_package() -> bool:
    """Whether JAX may find a GPU or TPU: a package for one is installed."""
    return any(map(find_spec, _ACCELERATOR_PACKAGES))


def accelerator_environment() -> dict[str, str]:
    """Environment variables with which JAX shares a GPU and keeps its compiled programs.

    * JAX takes a GPU's memory as it needs it, and not three quarters of it at its first array,
      because PyTorch shares the GPU.
    * Programs for an accelerator are compiled once on a machine, and kept in the user's cache
      folder. ``JAX_ENABLE_COMPILATION_CACHE=false`` turns this off. Those for CPUs are not kept:
      machines that share a home folder may have CPUs of different kinds.

    Commands and the processes that they start use them unless the user has set others. The library
    leaves the environment to the program that imports it.

    >>> accelerator_environment()["XLA_PYTHON_CLIENT_PREALLOCATE"]
    'false'
    """
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if has_accelerator_package():
        cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        environment["JAX_COMPILATION_CACHE_DIR"] = str(cache_folder / "parbals" / "compiled")
        # Even programs that compile in a fraction of a second: a batch needs several.
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return environment
