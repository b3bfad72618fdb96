"""How a run is computed and timed, in this process or wherever processes.py and dask_cluster.py
take it.

Every executor takes runs and gives back lines of results in the order they are finished; none of
them writes files.
"""

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Protocol

from parbals.bench.spec import Run
from parbals.errors import ParbalsError

__all__ = [
    "Clock",
    "Executor",
    "InProcess",
    "Loader",
    "Outcome",
    "Progress",
    "attempt",
    "attempt_cached",
]

Loader = Callable[[str], Any]
"""From a reference such as "airline" or "ag-news:Sports" to a :class:`parbals.bench.run.Data`.

Other processes must be able to import it: a module's function, or a ``functools.partial`` of one.
"""


@dataclass(frozen=True)
class Outcome:
    """A finished run: its line of results, or why there is none."""

    run: Run
    line: str | None
    error: str = ""
    seconds: float = 0.0
    no_data: bool = False  # the dataset itself could not be loaded


class Executor(Protocol):
    """Computes runs."""

    @property
    def n_parallel(self) -> int:
        """How many runs are computed at a time."""
        ...

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        """One outcome per run, in the order they are finished."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far a grid is. ``seconds_left`` is ``None`` until a run was timed."""

    done: int
    failed: int
    total: int
    seconds_left: float | None
    last: Run | None = None


class InProcess:
    """One run after the other, here: for notebooks, debugging and small grids."""

    n_parallel = 1

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        unloadable: dict[str, str] = {}
        for run in runs:
            if run.reference in unloadable:
                yield Outcome(run, None, unloadable[run.reference], no_data=True)
                continue
            outcome = attempt(run, loader)
            if outcome.no_data:
                unloadable[run.reference] = outcome.error
            yield outcome


class Clock:
    """Estimates the time left from runs of the same cell, else of the same strategy, else of any
    kind."""

    def __init__(
        self, runs: Sequence[Run], held: Mapping[str, tuple[Run, float]], n_parallel: int
    ) -> None:
        self._missing = {run.key: run for run in runs if run.key not in held}
        self._total, self._done, self._failed = len(runs), len(runs) - len(self._missing), 0
        self._n_parallel = n_parallel
        self._times: dict[str, list[float]] = defaultdict(list)
        self._last: Run | None = None
        for run, seconds in held.values():
            self._learn(run, seconds)

    def tick(self, outcome: Outcome) -> None:
        self._missing.pop(outcome.run.key, None)
        self._last = outcome.run
        if outcome.line is None:
            self._failed += 1
        else:
            self._done += 1
            self._learn(outcome.run, outcome.seconds)

    def now(self) -> Progress:
        return Progress(self._done, self._failed, self._total, self._seconds_left(), self._last)

    def _learn(self, run: Run, seconds: float) -> None:
        for level in _levels(run):
            self._times[level].append(seconds)

    def _seconds_left(self) -> float | None:
        if not self._times:
            return None if self._missing else 0.0
        means = {level: sum(times) / len(times) for level, times in self._times.items()}
        total = sum(
            next(means[level] for level in _levels(run) if level in means)
            for run in self._missing.values()
        )
        return total / min(self._n_parallel, max(1, len(self._missing)))


def attempt(run: Run, loader: Loader) -> Outcome:
    """Compute one run; whatever goes wrong becomes part of the outcome."""
    begun = perf_counter()
    with _ONE_AT_A_TIME:  # a Dask worker may have several threads
        try:
            data = _loaded(run.reference, loader)
        except Exception as error:  # a loader may be somebody else's
            return Outcome(
                run, None, f"{run.reference} cannot be loaded: {_reason(error)}", no_data=True
            )
        try:
            line = _compute(run, data)
        except Exception as error:
            return Outcome(run, None, _reason(error), perf_counter() - begun)
    return Outcome(run, line, "", perf_counter() - begun)


def attempt_cached(run: Run, loader: Loader) -> Outcome:
    """The same in a process of its own, which keeps its compiled programs for the next one on that
    machine."""
    from parbals.files import cache_folder
    from parbals.numerics import use_disk_cache

    use_disk_cache(cache_folder())
    return attempt(run, loader)


def _compute(run: Run, data: Any) -> str:
    from dataclasses import replace

    from parbals.bench.records import write_line
    from parbals.bench.run import run_one

    record = run_one(
        data, run.budget, run.strategy, options=run.options, seed=run.seed, **asdict(run.settings)
    )
    # In a grid a run is called what the suite calls it.
    return write_line(replace(record, run=run))


_ONE_AT_A_TIME = threading.Lock()
_LATEST: list[tuple[Any, Any]] = []


def _loaded(reference: str, loader: Loader) -> Any:
    """The data of the last run are kept: the next run mostly wants the same."""
    token = (reference, _name_of(loader))
    if not _LATEST or _LATEST[0][0] != token:
        _LATEST.clear()  # two large datasets need not fit into memory
        _LATEST.append((token, loader(reference)))
    return _LATEST[0][1]


def _name_of(loader: Loader) -> Any:
    """The same for two copies of a loader that travelled to this process separately."""
    if isinstance(loader, functools.partial):
        return (_name_of(loader.func), repr(loader.args), repr(loader.keywords))
    return (getattr(loader, "__module__", ""), getattr(loader, "__qualname__", repr(loader)))


def _reason(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, (ParbalsError, OSError))
        else f"{type(error).__name__}: {error}"
    )


def _levels(run: Run) -> tuple[str, str, str]:
    return (f"cell {run.cell}", f"strategy {run.strategy}", "any")
