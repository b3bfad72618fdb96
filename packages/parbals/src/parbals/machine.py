"""Devices and threads: NumPy on the threads of this CPU, or JAX on accelerators.

If JAX has one CPU and no accelerator, NumPy computes closed-form scores: loading JAX and its
programs takes longer than a whole batch. An accelerator takes two to three seconds to start. NumPy
therefore also computes the first batch of a process if it takes no longer than that, so a command
that chooses one batch never waits for the start; from the second batch on the accelerator is
faster. Both choose the same points in batches of up to 32, and points as good in larger ones.

JAX is loaded on first use, and no setting of the process is changed. Programs are compiled again in
every process unless JAX has a cache folder (``JAX_COMPILATION_CACHE_DIR``), as it has in commands
(:mod:`parbals.environment`).
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController

from parbals.environment import has_accelerator_package

if TYPE_CHECKING:
    import jax

__all__ = [
    "Workers",
    "compiled",
    "devices",
    "on_host",
    "several_threads",
    "sooner_on_host",
    "working_precision",
]

_STARTUP_OPERATIONS = 1.5e11
"""Operations of two cores in the two to three seconds that JAX takes to load, to start an
accelerator and to compile.
"""
_work_seen = deque[bool](maxlen=1)  # not empty once there has been work in this process


def on_host() -> bool:
    """Whether JAX has one CPU and no other device, or is not installed.

    JAX is only loaded if the environment does not tell.
    """
    if "jax" not in sys.modules and (find_spec("jax") is None or _has_one_cpu_only()):
        return True
    all_devices = devices()
    return len(all_devices) == 1 and all_devices[0].platform == "cpu"


def sooner_on_host(operations: int) -> bool:
    """Whether NumPy finishes this work before an accelerator has started.

    Call it once for each piece of work: only the first of a process can return True.
    """
    is_first = not _work_seen
    _work_seen.append(True)
    return is_first and operations < _STARTUP_OPERATIONS and not _has_jax_started()


def _has_jax_started() -> bool:
    """Whether JAX has already started its devices; False if that is unknown."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "backends_are_initialized", bool)())


def _has_one_cpu_only() -> bool:
    """Whether the environment shows, without loading JAX, that it has a single CPU device."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    is_cpu = platforms == "cpu" or not (platforms or has_accelerator_package())
    has_more_devices = "JAX_NUM_CPU_DEVICES" in os.environ or (
        "device_count" in os.environ.get("XLA_FLAGS", "")
    )
    return is_cpu and not has_more_devices


def devices() -> list["jax.Device"]:
    """All devices of this process, or JAX's default device if the user has set one."""
    import jax

    default = getattr(jax.config, "jax_default_device", None)
    if isinstance(default, jax.Device):
        return [default]
    return jax.local_devices(backend=default)[:1] if default else jax.local_devices()


def working_precision(dtype: np.dtype) -> AbstractContextManager[None]:
    """Let JAX compute in the precision of the data: float64 for float64 input.

    By default JAX truncates to float32. The setting is scoped to the ``with`` block and to this
    thread, so the caller's configuration of JAX stays as it was.
    """
    import jax

    return jax.enable_x64(np.dtype(dtype) == np.float64)


@cache
def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function of arrays, options and the array module ``xp``, compiled by JAX."""
    import jax

    return jax.jit(partial(function, xp=jax.numpy, **options))


class Workers:
    """Threads that share a list of tasks."""

    def __init__(self, n_threads: int, pool: ThreadPoolExecutor) -> None:
        self.n_threads = n_threads
        self._pool = pool

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        """Results of the function for all tasks, in order."""
        task_list = list(tasks)
        if self.n_threads == 1 or len(task_list) == 1:
            return [function(task) for task in task_list]
        return list(self._pool.map(function, task_list))


@contextmanager
def several_threads(max_threads: int | None = None) -> Iterator[Workers]:
    """As many threads as BLAS would use, each of which calls BLAS with one thread.

    At most ``max_threads`` of them share the work. The threads of BLAS are meant for large
    matrices: they wait for each other by spinning, which takes ten times as long as the products
    themselves on small matrices or on a busy machine.

    The limit of BLAS applies to the thread or to the process, depending on how it was built, so a
    nested or concurrent block may read a number that is already limited. The largest number among
    all open blocks is therefore the one to use and to restore.

    >>> with several_threads() as workers:
    ...     workers.map(abs, [-1, 2])
    [1, 2]
    """
    blas = _blas_libraries(len(sys.modules))
    with _lock:
        current_limit = max([1, *(library["num_threads"] for library in blas.info())])
        n_threads = max([current_limit, *_open_blocks])
        _open_blocks.append(n_threads)
    limit_to_one = partial(blas.limit, limits=1)
    limit_to_one()
    try:
        with ThreadPoolExecutor(n_threads, initializer=limit_to_one) as pool:
            yield Workers(min(n_threads, max_threads or n_threads), pool)
    finally:
        with _lock:
            _open_blocks.remove(n_threads)
            # A block around this one stays limited.
            restored_limit = current_limit if _open_blocks else n_threads
            # Inside the lock: the next block must not read the limit of this one.
            blas.limit(limits=restored_limit)


_lock = threading.Lock()
_open_blocks: list[int] = []  # number of threads of every open block


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> ThreadpoolController:
    """The loaded BLAS libraries; searched again, in milliseconds, only after further imports."""
    return ThreadpoolController().select(user_api="blas")
