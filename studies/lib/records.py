"""Resumable studies: each run is computed once, stored as a JSON line and shown on a page."""

import argparse
import json
import lzma
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, TextIO

__all__ = ["Record", "Todo", "study"]

Record = dict[str, Any]
Todo = tuple[tuple[Any, ...], Callable[[], Record]]
"""A run's name and how to compute it; with several workers the latter must be picklable."""

_WORKER = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # one GPU serves all workers
}


def study(
    about: str,
    records: Path,
    page: Path,
    runs: Callable[[argparse.Namespace], Iterable[Todo]],
    lines: Callable[[list[Record]], Iterable[str]],
    *,
    seeds: int,
    options: Mapping[str, Any],
) -> int:
    """The program of a study: computes the runs that its records lack, then writes its page.

    Records are packed where their name ends in .xz; with --out both records and page are in that
    folder. ``options`` are further ones with their defaults; ``runs`` raises ValueError where it
    cannot use them.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the datasets' folder; by default $PARBALS_DATA")
    for name, default in options.items():
        text = f"by default {default or 'none'}".replace("%", "%%")
        parser.add_argument(f"--{name}", default=default, type=type(default), help=text)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--workers", type=int, default=1, help="processes, a core each")
    parser.add_argument("--platform", help="cpu or cuda; by default what JAX finds")
    parser.add_argument("--out", type=Path, help="folder of records and page")
    parser.add_argument("--tables", action="store_true", help="compute nothing")
    arguments = parser.parse_args()
    for variable, value in (
        ("PARBALS_DATA", arguments.data),
        ("JAX_PLATFORMS", arguments.platform),
    ):
        if value is not None:
            os.environ[variable] = str(value)
    try:
        todo = [] if arguments.tables else list(runs(arguments))
    except ValueError as error:
        parser.error(str(error))
    file = arguments.out / records.name if arguments.out else records
    all_records = _resumed(file, todo, arguments.workers)
    text = "\n".join(lines(all_records)) + "\n"
    (arguments.out / page.name if arguments.out else page).write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


def _resumed(file: Path, runs: list[Todo], workers: int) -> list[Record]:
    """Every record in ``file``, and of the runs those that it lacks.

    Each of several workers is a process with a core and a thread of its own; records are then in
    the order in which they were done.
    """
    records: list[Record] = []
    if file.exists():
        with _opened(file, "rt") as stream:
            records += map(json.loads, stream)
    computed = {tuple(record["run"]) for record in records}
    todo = [run for run in runs if run[0] not in computed]
    for record in _in_processes(todo, workers) if workers > 1 else map(_computed, todo):
        records.append(record)
        with _opened(file, "at") as stream:
            stream.write(json.dumps(record) + "\n")
        print(*record["run"], record["cpu_seconds"], file=sys.stderr, flush=True)
    return records


def _opened(file: Path, mode: str) -> TextIO:
    return (lzma.open if file.suffix == ".xz" else open)(file, mode, encoding="utf-8")


def _computed(todo: Todo) -> Record:
    run, compute = todo
    started = time.process_time()
    record = {"run": list(run), **compute()}  # as it will be read
    return {**record, "cpu_seconds": round(time.process_time() - started, 2)}


def _in_processes(todo: list[Todo], workers: int) -> Iterator[Record]:
    """Records as they come. A worker that dies ends the program; the next one goes on."""
    os.environ.update(_WORKER)  # started processes have it before they load NumPy
    context = get_context("spawn")
    places = context.SimpleQueue()
    for worker in range(workers):
        places.put(worker)
    pool = ProcessPoolExecutor(workers, context, initializer=_settle, initargs=(places,))
    try:
        for future in as_completed([pool.submit(_computed, run) for run in todo]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _settle(places: "SimpleQueue[int]") -> None:
    """On a core of one's own, so that no library starts more threads than that."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[places.get() % len(cores)]})
