"""Executors compute runs in this process or on other machines; processes.py adds local processes.

An executor takes runs and yields lines of results in the order in which they finish. It writes no
files.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from parbals.errors import InputError, ParbalsError
from parbals.files import need

from parbals_bench.run.records import write_line
from parbals_bench.run.spec import Run

__all__ = ["DaskCluster", "Executor", "Loader", "Outcome", "attempt"]

Loader = Callable[[str], Any]
"""From a reference such as "airline" or "ag-news:Sports" to a :class:`~Data`.

Other processes must be able to import it: a module's function, or a ``functools.partial`` of one.
"""
_RUN_LOCK = threading.Lock()
_CACHED_DATA: list[tuple[Any, Any]] = []


@dataclass(frozen=True)
class Outcome:
    """A finished run: its line of results, or why there is none."""

    run: Run
    line: str | None
    error: str = ""
    no_data: bool = False  # the dataset itself could not be loaded


class Executor(Protocol):
    """Computes runs."""

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        """One outcome per run, in the order they are finished."""
        ...


def attempt(run: Run, loader: Loader) -> Outcome:
    """Compute one run; whatever goes wrong becomes part of the outcome."""
    with _RUN_LOCK:  # a Dask worker may have several threads
        try:
            data = _loaded(run.reference, loader)
        except Exception as error:  # a loader may be somebody else's
            reason = f"{run.reference} cannot be loaded: {_reason(error)}"
            return Outcome(run, None, reason, no_data=True)
        try:
            from parbals_bench.run.single import run_one  # loads JAX

            record = run_one(
                data,
                run.budget,
                run.strategy,
                options=run.options,
                seed=run.seed,
                settings=run.settings,
            )
        except Exception as error:
            return Outcome(run, None, _reason(error))
    # In a grid a run is called what the suite calls it.
    return Outcome(run, write_line(replace(record, run=run)))


def _loaded(reference: str, loader: Loader) -> Any:
    """Load data, or reuse those of the last run, which the next run mostly needs, too."""
    token = (reference, repr(loader))  # equal for copies that were sent here separately
    if not _CACHED_DATA or _CACHED_DATA[0][0] != token:
        _CACHED_DATA.clear()  # two large datasets need not fit into memory
        _CACHED_DATA.append((token, loader(reference)))
    return _CACHED_DATA[0][1]


def _reason(error: Exception) -> str:
    is_expected = isinstance(error, (ParbalsError, OSError))
    return str(error) if is_expected else f"{type(error).__name__}: {error}"


class DaskCluster:
    """Runs on other machines: the workers of a Dask scheduler, wherever it was started.

    Dask gives the run of a worker that died to another one. Its tasks travel as pickles, so a
    scheduler must be reachable by its owner alone: anybody else who reaches it can run code there.
    """

    def __init__(self, address: str, timeout: float = 30.0) -> None:
        distributed = need("distributed", "--scheduler", "parbals[cluster]")
        try:
            self._client = distributed.Client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"There is no Dask scheduler at {address} ({error}).") from None

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        from distributed import as_completed

        waiting = {
            self._client.submit(attempt, run, loader, key=f"parbals-{run.key}", pure=False): run
            for run in runs
        }
        try:
            for future in as_completed(list(waiting), loop=self._client.loop):
                run = waiting.pop(future)
                failure = future.exception()
                yield Outcome(run, None, f"Dask gave up: {failure}") if failure else future.result()
        finally:
            self._client.cancel(list(waiting))
            self._client.close()
