"""One fresh process for each library, pinned to a number of cores.

Libraries disturb each other inside one process: thread pools spin, allocators keep memory, JAX
fixes its devices at its first use. So every engine lives in a process of its own, is asked for one
measurement at a time, and sleeps while another one works. Nothing here imports a numerical library:
the environment must be set before the first of them is loaded.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = [
    "Worker",
    "WorkerError",
    "compile_counter",
    "memory_peak",
    "pin_cores",
    "reset_memory_peak",
    "timed",
]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


class WorkerError(RuntimeError):
    """A measurement failed in its process; the text is that process's traceback."""


def pin_cores(n_cores: int) -> list[str]:
    """Restrict this process and all that it starts to ``n_cores``; returns warnings for people."""
    warnings = []
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(n_cores)
    # A compilation cache left by an earlier run would make the first call look fast.
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if not hasattr(os, "sched_setaffinity"):
        return [
            f"This system cannot pin a process to cores: more than {n_cores} cores may be used."
        ]
    available = sorted(os.sched_getaffinity(0))
    cores = _distinct_cores(available)[:n_cores]
    if len(cores) < n_cores:  # fewer real cores than asked for: take hyperthreads too
        cores = available[:n_cores]
    if len(cores) < n_cores:
        warnings.append(f"Only {len(cores)} of {n_cores} cores are available.")
    if n_cores > 2:
        warnings.append(f"{n_cores} cores are used; the published ratios are for two.")
    os.sched_setaffinity(0, cores)
    return warnings


def _distinct_cores(processors: list[int]) -> list[int]:
    """One processor of each physical core: two hyperthreads of one core are not two cores."""
    first: dict[str, int] = {}
    for processor in processors:
        siblings = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        key = siblings.read_text() if siblings.exists() else str(processor)
        first.setdefault(key, processor)
    return list(first.values())


class Worker:
    """A fresh process that runs importable functions one at a time and returns their results."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, environment or {}, multiprocessing.get_start_method())
        )
        self._process.start()
        theirs.close()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function(*arguments)`` over there."""
        try:
            self._connection.send((function, arguments))
            succeeded, value = self._connection.recv()
        except (EOFError, BrokenPipeError):
            self._process.join(5)
            raise WorkerError(
                f"the process of {function.__name__} ended without an answer (exit code "
                f"{self._process.exitcode}); a negative code is a signal, -9 usually means that "
                "memory ran out"
            ) from None
        if not succeeded:
            raise WorkerError(value)
        return value

    def close(self) -> None:
        """End the process, politely first."""
        self._connection.close()
        self._process.join(0.5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(3)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(connection: Any, environment: dict[str, str], start_method: str) -> None:
    # A spawned process spawns its own children too. PyMC would then load itself anew for every
    # chain, ten times the cost of a refit, which it does not do when a plain script calls it.
    multiprocessing.set_start_method(start_method, force=True)
    # Ctrl-C reaches the whole terminal group; the parent decides, and ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # No tidy exit: it would take the compiler's threads down with a crash of their own.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    os.environ.update(environment)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        except Exception:
            connection.send((False, traceback.format_exc()))
            continue
        try:
            answer = (True, function(*arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        with suppress(BrokenPipeError):
            connection.send(answer)


def timed(function: Callable[[], Any], pause: float = 0.1) -> tuple[float, Any]:
    """Seconds and result of one call.

    The pause lets the thread pool of whatever ran before stop spinning.
    """
    time.sleep(pause)
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def reset_memory_peak() -> int:
    """Forget the peak so far; returns the bytes resident now."""
    # Where this is impossible the peak includes what came before: an overestimate, never an
    # underestimate.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS") or memory_peak()


def memory_peak() -> int:
    """Bytes of the largest resident set since the last reset (since the start, where that is
    impossible)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status_bytes("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    for line in status.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def compile_counter() -> Callable[[], tuple[int, float]]:
    """A function that tells how many programs XLA compiled since it was made, and the seconds that
    took."""
    import jax

    durations: list[float] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            durations.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return lambda: (len(durations), sum(durations))
