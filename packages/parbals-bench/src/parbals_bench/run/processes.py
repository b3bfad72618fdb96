"""Local processes, each pinned to its share of the cores.

Every run then computes with the same number of threads whatever else is running, and the processes
do not get in each other's way. They are started fresh (not forked), end with the process that
started them, and one that dies takes only its run with it, which is tried once more.

On a GPU the processes share it: a run keeps the GPU busy for a small part of its time only (on an
H200 with NVIDIA's multi-process service, MPS, eight at a time took as long each as one alone). A
suite lists every strategy of one seed before the next seed, so the first run of a cell has mostly
compiled its programs and left them on disk when the others begin.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

from parbals.environment import command_environment

from parbals_bench.run.executors import Loader, Outcome, attempt
from parbals_bench.run.spec import Run

__all__ = ["LocalProcesses"]

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_MAX_TRIES = 2


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Any
    cores: tuple[int, ...]
    run: Run | None = None


class LocalProcesses:
    """``n_workers`` processes; by default one per core, which finishes a grid soonest."""

    def __init__(self, n_workers: int | None = None) -> None:
        cores = _cores()
        n_workers = n_workers or len(cores)
        share = max(1, len(cores) // n_workers)
        # More processes than cores share them; otherwise no core has two owners.
        self._shares = [
            tuple(cores[(i * share + j) % len(cores)] for j in range(share))
            for i in range(n_workers)
        ]

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        waiting = deque(runs)
        tries: dict[str, int] = {}
        unloadable: dict[str, str] = {}
        workers: list[_Worker] = []
        try:
            workers += [_start(cores, loader) for cores in self._shares[: len(runs)]]
            while waiting or any(worker.run for worker in workers):
                for worker in workers:
                    while worker.run is None and waiting:
                        run = waiting.popleft()
                        if run.reference in unloadable:
                            yield Outcome(run, None, unloadable[run.reference], no_data=True)
                            continue
                        worker.run = run
                        with suppress(OSError):  # it died while idle; noticed below
                            worker.pipe.send(run)
                busy = [worker for worker in workers if worker.run is not None]
                if not busy:  # the last runs were of data that cannot be loaded
                    continue
                ready = connection.wait([worker.pipe for worker in busy])
                for worker in busy:
                    if worker.pipe not in ready:
                        continue
                    assert worker.run is not None
                    run = worker.run
                    try:
                        outcome = worker.pipe.recv()
                    except (EOFError, OSError):
                        worker.process.join()
                        tries[run.key] = tries.get(run.key, 0) + 1
                        if tries[run.key] < _MAX_TRIES:
                            waiting.appendleft(run)
                        else:
                            yield Outcome(run, None, _death_message(worker.process))
                        workers[workers.index(worker)] = _start(worker.cores, loader)
                        continue
                    worker.run = None
                    if outcome.no_data:
                        unloadable[run.reference] = outcome.error
                    yield outcome
        finally:
            for worker in workers:
                worker.pipe.close()
                worker.process.kill()  # nothing it holds needs saving
            for worker in workers:
                worker.process.join()


def _start(cores: tuple[int, ...], loader: Loader) -> _Worker:
    context = get_context("spawn")
    parent_pipe, worker_pipe = context.Pipe()
    process = context.Process(target=_serve, args=(worker_pipe, loader), daemon=True)
    with _pinned(cores):
        process.start()
    worker_pipe.close()  # so that its death is seen as the end of the pipe
    return _Worker(process, parent_pipe, cores)


def _serve(pipe: Any, loader: Loader) -> None:
    """The loop of a worker process: compute every run it receives until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            run = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(attempt(run, loader))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _pinned(cores: tuple[int, ...]) -> Iterator[None]:
    """A process started meanwhile has these cores and thread counts from its first instruction."""
    before = dict(os.environ)
    os.environ.update({**command_environment(), **before})
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(len(cores))))
    allowed = None
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)
        os.environ.clear()
        os.environ.update(before)


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _death_message(process: BaseProcess) -> str:
    return (
        f"Its process died twice (exit code {process.exitcode}); if the machine ran out of memory, "
        "use fewer --workers."
    )
