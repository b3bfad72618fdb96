"""Environment variables that libraries read when they are loaded."""

import os
from importlib.util import find_spec
from pathlib import Path

__all__ = ["command_environment", "has_accelerator_package"]

_ACCELERATOR_PACKAGES = ("jax_plugins", "libtpu")


def has_accelerator_package() -> bool:
    """Whether JAX may find a GPU or TPU: a package for one is installed."""
    return any(map(find_spec, _ACCELERATOR_PACKAGES))


def command_environment() -> dict[str, str]:
    """Environment variables with which commands waste no memory and no CPU time.

    * The threads of OpenBLAS sleep half a millisecond after a product. By default they wait 30
      times as long for another, at full speed, and once when NumPy is loaded: a third of the CPU
      time of a command that only prints.
    * JAX takes a GPU's memory as it needs it, and not three quarters of it at its first array,
      because PyTorch shares the GPU.
    * Programs for an accelerator are compiled once on a machine, and kept in the user's cache
      folder. ``JAX_ENABLE_COMPILATION_CACHE=false`` turns this off. Those for CPUs are not kept:
      machines that share a home folder may have CPUs of different kinds.

    Commands and the processes that they start use them unless the user has set others. The library
    leaves the environment to the program that imports it.

    >>> command_environment()["XLA_PYTHON_CLIENT_PREALLOCATE"]
    'false'
    """
    environment = {
        "OPENBLAS_THREAD_TIMEOUT": "20",  # 2^20 cycles
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if has_accelerator_package():
        cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        environment["JAX_COMPILATION_CACHE_DIR"] = str(cache_folder / "parbals" / "compiled")
        # Even programs that compile in a fraction of a second: a batch needs several.
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return environment
