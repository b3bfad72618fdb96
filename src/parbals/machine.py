"""What there is to compute with: whether NumPy on this CPU does the work, and on how many threads.

Where JAX would compute on one CPU, formulas in closed form are computed by NumPy: to load JAX and
its programs takes longer than a whole batch.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["Workers", "on_host", "several_threads"]

_PLUGINS = ("jax_plugins", "libtpu")
"""Packages that bring accelerators to JAX."""


def on_host() -> bool:
    """Whether JAX has one CPU and nothing else; it is loaded only where that is not obvious."""
    if "jax" not in sys.modules and _is_obvious():
        return True
    from parbals.numerics import devices

    found = devices()
    return len(found) == 1 and found[0].platform == "cpu"


def _is_obvious() -> bool:
    platforms = os.environ.get("JAX_PLATFORMS", "")
    is_cpu = platforms == "cpu" or not (platforms or any(map(find_spec, _PLUGINS)))
    many = "JAX_NUM_CPU_DEVICES" in os.environ
    return is_cpu and not many and "device_count" not in os.environ.get("XLA_FLAGS", "")


class Workers:
    """Threads that share a list of tasks."""

    def __init__(self, n_threads: int, pool: ThreadPoolExecutor) -> None:
        self.n_threads, self._pool = n_threads, pool

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        """What the function makes of each task, in their order."""
        if self.n_threads == 1:
            return [function(task) for task in tasks]
        return list(self._pool.map(function, tasks))


@contextmanager
def several_threads() -> Iterator[Workers]:
    """As many threads as the linear algebra library would take, which meanwhile takes one in each.

    Its own threads are for large matrices: they wait for each other by spinning, which on small
    ones, or on a machine that is busy, takes ten times as long as the products themselves.
    """
    n_threads = _library.enter()
    try:
        with ThreadPoolExecutor(n_threads) as pool:
            yield Workers(n_threads, pool)
    finally:
        _library.leave()


class _Library:
    """Its number of threads, which is that of the whole process: the last to leave resets it."""

    def __init__(self) -> None:
        self._lock, self._n_inside, self._n_threads = threading.Lock(), 0, 1
        self._limit: Any = None

    def enter(self) -> int:
        with self._lock:
            if self._n_inside == 0:
                library = ThreadpoolController().select(user_api="blas")
                self._n_threads = max([part["num_threads"] for part in library.info()], default=1)
                self._limit = library.limit(limits=1)
            self._n_inside += 1
            return self._n_threads

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.restore_original_limits()


_library = _Library()
