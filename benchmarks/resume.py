"""Runs that are computed once each and kept as lines of JSON, so that a stopped program goes on."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

__all__ = ["Todo", "read_records", "resumed"]

Todo = tuple[tuple[Any, ...], Callable[[], dict[str, Any]]]
"""A run's name and how to compute it; with several workers the latter must be picklable."""

_WORKER = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # one GPU serves all workers
}


def resumed(
    file: Path, runs: Iterable[Todo], shown: str = "", workers: int = 1
) -> list[dict[str, Any]]:
    """Every record in ``file``, and of the runs those that it lacks.

    ``shown`` is the entry that is printed when a run is done. Each of several workers is a process
    with a core and a thread of its own; records are then in the order in which they were done.
    """
    records = read_records(file)
    done = {tuple(record["run"]) for record in records}
    todo = [one for one in runs if one[0] not in done]
    for record in _in_processes(todo, workers) if workers > 1 else map(_computed, todo):
        records.append(record)
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        values = [record[name] for name in (shown, "cpu_seconds") if name]
        print(*record["run"], *values, file=sys.stderr, flush=True)
    return records


def read_records(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def _computed(one: Todo) -> dict[str, Any]:
    run, compute = one
    began = time.process_time()
    record = {"run": run, **compute()}
    return {**record, "cpu_seconds": round(time.process_time() - began, 2)}


def _in_processes(todo: list[Todo], workers: int) -> Iterator[dict[str, Any]]:
    """Records as they come. A worker that dies ends the program; the next one goes on."""
    os.environ.update(_WORKER)  # started processes have it before they load NumPy
    context = get_context("spawn")
    places = context.SimpleQueue()
    for worker in range(workers):
        places.put(worker)
    pool = ProcessPoolExecutor(workers, context, initializer=_settle, initargs=(places,))
    try:
        for future in as_completed([pool.submit(_computed, one) for one in todo]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _settle(places: "SimpleQueue[int]") -> None:
    """On a core of one's own, so that no library starts more threads than that."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[places.get() % len(cores)]})
