"""What there is to compute with: NumPy on the threads of this CPU, or JAX where that has more.

Where JAX would compute on one CPU, formulas in closed form are computed by NumPy: to load JAX and
its programs takes longer than a whole batch. An accelerator takes some four seconds to start,
before it has computed anything. So the first batch of a process is NumPy's as well where that takes
no longer, and a command that asks for one batch never pays the start; from the second batch on the
accelerator is worth it. Both choose the same points.

JAX is loaded by what is called here, and nothing is set for the whole process. Programs are
compiled anew in every process unless the user gives JAX a folder to keep them in
(``JAX_COMPILATION_CACHE_DIR``).
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

if TYPE_CHECKING:
    import jax

__all__ = ["Workers", "compiled", "devices", "on_host", "several_threads", "sooner_on_host"]
__all__ += ["working_precision"]

_PLUGINS = ("jax_plugins", "libtpu")
"""Packages that bring accelerators to JAX."""
_START = 2.5e11
"""Operations that two cores do in the four or five seconds that JAX takes to load, to start an
accelerator and to compile.
"""
_asked = deque[bool](maxlen=1)  # whether there has been work


def on_host() -> bool:
    """Whether JAX has one CPU and nothing else, or is not installed.

    It is loaded only where that is not obvious.
    """
    if "jax" not in sys.modules and (find_spec("jax") is None or _is_obvious()):
        return True
    found = devices()
    return len(found) == 1 and found[0].platform == "cpu"


def sooner_on_host(operations: int) -> bool:
    """Whether NumPy is done with the first work of this process before an accelerator has started.

    It is asked once for each piece of work; the first answer alone may be yes.
    """
    is_first = not _asked
    _asked.append(True)
    return is_first and operations < _START and not _is_started()


def _is_started() -> bool:
    """Whether the user has let JAX start its devices already; if that cannot be told, not."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "backends_are_initialized", bool)())


def _is_obvious() -> bool:
    platforms = os.environ.get("JAX_PLATFORMS", "")
    is_cpu = platforms == "cpu" or not (platforms or any(map(find_spec, _PLUGINS)))
    many = "JAX_NUM_CPU_DEVICES" in os.environ
    return is_cpu and not many and "device_count" not in os.environ.get("XLA_FLAGS", "")


def devices() -> list["jax.Device"]:
    """All devices of this process, or the one that the user told JAX to use."""
    import jax

    told = getattr(jax.config, "jax_default_device", None)
    if isinstance(told, jax.Device):
        return [told]
    return jax.local_devices(backend=told)[:1] if told else jax.local_devices()


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


class Workers:
    """Threads that share a list of tasks."""

    def __init__(self, n_threads: int, pool: ThreadPoolExecutor) -> None:
        self.n_threads, self._pool = n_threads, pool

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        """What the function makes of each task, in their order."""
        todo = list(tasks)
        if self.n_threads == 1 or len(todo) == 1:
            return [function(task) for task in todo]
        return list(self._pool.map(function, todo))


@contextmanager
def several_threads(most: int | None = None) -> Iterator[Workers]:
    """As many threads as the linear algebra library would take, which meanwhile takes one in each.

    At most ``most`` of them share the work. Its own threads are for large matrices: they wait for
    each other by spinning, which on small ones, or on a machine that is busy, takes ten times as
    long as the products themselves. Its limit holds for a thread or for the process, as it was
    built: what another one that is inside has limited is not the number to use.
    """
    library = _libraries(len(sys.modules))
    with _lock:
        before = max([1, *(part["num_threads"] for part in library.info())])
        n_threads = max([before, *_inside])
        _inside.append(n_threads)
    limited = partial(library.limit, limits=1)
    limited()
    try:
        with ThreadPoolExecutor(n_threads, initializer=limited) as pool:
            yield Workers(min(n_threads, most or n_threads), pool)
    finally:
        with _lock:
            _inside.remove(n_threads)
            # Inside the lock: who enters next must not take the limit for the number to use.
            library.limit(limits=before if _inside else n_threads)  # one around this stays limited


_lock, _inside = threading.Lock(), list[int]()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Those that are loaded; to look for them takes milliseconds, and only an import loads more."""
    return ThreadpoolController().select(user_api="blas")
