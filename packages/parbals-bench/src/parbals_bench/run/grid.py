"""Suites: the runs of an experiment, read from TOML; and computing those that are missing."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parbals.errors import InputError

from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.records import read_line
from parbals_bench.run.spec import Budget, Run, Settings, split_reference

if TYPE_CHECKING:
    from parbals_bench.run.executors import Executor, Loader, Outcome

__all__ = ["BUILT_IN", "Suite", "load_suite", "read_suite", "run_grid"]

BUILT_IN = ("authors", "paper", "quick")
_SETTINGS = tuple(field.name for field in fields(Settings))
_NAME_AXES = ("datasets", "budgets", "strategies")
_DATA_KEYS = ("dataset", "path", "features")
_EXPECTED_VALUES = dict.fromkeys(_NAME_AXES, 'names in quotes, for example ["..."]') | {
    "options": "a table of numbers, words or yes and no, or a list of such tables"
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Suite:
    """A named experiment: all its runs, and the settings that count as its baseline."""

    name: str
    title: str
    settings: Settings
    runs: tuple[Run, ...]
    text: str  # the TOML it came from
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # datasets it names itself

    def only(
        self,
        datasets: Sequence[str] = (),
        budgets: Sequence[str] = (),
        strategies: Sequence[str] = (),
        seeds: int | None = None,
    ) -> tuple[Run, ...]:
        """The runs that match all filters that are not empty; unknown names are refused.

        ``seeds`` keeps that many of them, the lowest first.
        """
        budgets = sorted({str(Budget.parse(text)) for text in budgets})
        dataset_names = {run.dataset for run in self.runs} | {run.reference for run in self.runs}
        self._refuse_missing("dataset", datasets, dataset_names)
        self._refuse_missing("budget", budgets, {str(run.budget) for run in self.runs})
        self._refuse_missing("strategy", strategies, {run.strategy for run in self.runs})
        matching = [
            run
            for run in self.runs
            if (not datasets or run.dataset in datasets or run.reference in datasets)
            and (not budgets or str(run.budget) in budgets)
            and (not strategies or run.strategy in strategies)
        ]
        lowest_seeds = sorted({run.seed for run in matching})[:seeds]
        return tuple(run for run in matching if run.seed in lowest_seeds)

    def _refuse_missing(self, kind: str, names: Iterable[str], available: set[str]) -> None:
        for name in names:
            if name not in available:
                raise InputError(
                    f"The suite {self.name} has no {kind} {name!r}; it has {_listed(available)}."
                )


def load_suite(name: str) -> Suite:
    """A built-in suite, or one from a TOML file."""
    if name in BUILT_IN:
        file = resources.files("parbals_bench.run").joinpath("suites", f"{name}.toml")
        return read_suite(file.read_text("utf-8"), name)
    path = Path(name)
    if not path.is_file():
        raise InputError(
            f"{name} is neither a built-in suite ({_listed(BUILT_IN)}) nor a TOML file."
        )
    try:
        return read_suite(path.read_text("utf-8"), name)
    except UnicodeDecodeError:
        raise InputError(f"{name} is not a text file in UTF-8.") from None


def read_suite(text: str, where: str = "the suite") -> Suite:
    """A suite from TOML text; unknown names are refused, for they would change the experiment."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not valid TOML: {error}.") from None
    _refuse_unknown(table, ("name", "title", "settings", "data", "grid"), where)
    _refuse_unknown(table.get("settings", {}), _SETTINGS, f"[settings] of {where}")
    settings = Settings(**table.get("settings", {}))
    data = table.get("data", {})
    _check_data(data, where)
    if "grid" not in table:
        raise InputError(
            f"{where} has no [[grid]]; add one with datasets, budgets, strategies and seeds."
        )
    runs: dict[str, Run] = {}
    for number, grid in enumerate(_as_list(table["grid"]), 1):
        for run in _expand(grid, settings, f"[[grid]] number {number} of {where}"):
            runs.setdefault(run.key, run)
    # Data stay loaded while their runs last, and every seed is finished for all strategies before
    # the next begins.
    references = list(dict.fromkeys(run.reference for run in runs.values()))
    ordered = sorted(runs.values(), key=lambda run: (references.index(run.reference), run.seed))
    name = str(table.get("name", Path(where).stem))
    return Suite(name, str(table.get("title", name)), settings, tuple(ordered), text, data)


def run_grid(
    runs: Sequence[Run],
    folder: ResultsFolder,
    loader: "Loader",
    executor: "Executor",
    progress: Callable[[str, int, int, str], None] = lambda stage, done, total, note: None,
) -> list["Outcome"]:
    """Compute the runs that the folder lacks, and return the outcomes that failed.

    A run is on disk before it counts: however this is stopped, at most the runs in progress are
    lost. Calling it again computes only missing runs, and the folder ends up with the results of an
    uninterrupted call. If the features or labels of a dataset differ from those of results already
    in the folder, its new results are refused, not mixed with the old ones.
    """
    failures: list[Outcome] = []
    with folder.writing() as append:
        records = folder.records()
        stored_keys = {record.key for record in records}
        digests = {record.run.reference: record.data for record in records}
        missing = [run for run in runs if run.key not in stored_keys]
        n_done = len(runs) - len(missing)
        progress("runs", n_done, len(runs), "starting" if missing else "")
        for outcome in executor.results(missing, loader) if missing else ():
            run = outcome.run
            line = outcome.line
            if line is None:
                failures.append(outcome)
            elif (digest := read_line(line).data) != digests.setdefault(run.reference, digest):
                reason = (
                    f"{run.reference} is not the same data as in the results already in "
                    f"{folder.path} (other rows, labels or features); use another --out, or remove "
                    "its files there."
                )
                failures.append(replace(outcome, line=None, error=reason))
            else:
                append(run, line)
                n_done += 1
            failed = f" · {len(failures)} failed" if failures else ""
            note = f"{run.reference} {run.budget} {run.strategy}{failed}"
            progress("runs", n_done, len(runs), note)
    return failures


def _expand(grid: dict[str, Any], settings: Settings, where: str) -> Iterable[Run]:
    """Every combination of a ``[[grid]]``; a single value counts as a list of one."""
    _refuse_unknown(grid, {*_NAME_AXES, "seeds", "options", *_SETTINGS}, where)
    seeds = grid.get("seeds")
    seeds = list(range(seeds)) if type(seeds) is int else seeds
    if not isinstance(seeds, list) or not all(type(x) is int and x >= 0 for x in seeds or [-1]):
        raise InputError(
            f"{where}: seeds is {grid.get('seeds')!r}; write how many there are (seeds = 10) or a "
            "list of whole numbers from 0."
        )
    axes = {name: _as_list(grid.get(name, [])) for name in _NAME_AXES}
    axes |= {"options": _as_list(grid.get("options", {}))}
    axes |= {name: _as_list(grid[name]) for name in _SETTINGS if name in grid}
    for name, values in axes.items():
        kind: type = object
        if name in _NAME_AXES:
            kind = str
        elif name == "options":
            kind = dict
        if not values or not all(isinstance(value, kind) for value in values):
            raise InputError(
                f"{where}: {name} must be {_EXPECTED_VALUES.get(name, 'a value or a list')}."
            )
    for reference, budget, strategy, options, *changes, seed in product(*axes.values(), seeds):
        dataset, positive = split_reference(reference)
        changed_names = [*axes][4:]
        run_settings = replace(settings, **dict(zip(changed_names, changes, strict=True)))
        yield Run(dataset, Budget.parse(budget), strategy, seed, positive, options, run_settings)


def _check_data(tables: Mapping[str, Any], where: str) -> None:
    """The ``[data.NAME]`` tables: the suite's own names for a user's file or for other features."""
    for name, table in tables.items():
        where_table = f"[data.{name}] of {where}"
        _refuse_unknown(table, _DATA_KEYS, where_table)
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{where_table}: a name may have only letters, digits, dots, dashes and "
                "underscores."
            )
        for key, value in table.items():
            if not isinstance(value, str):
                raise InputError(f"{where_table}: {key} must be in quotes.")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refuse_unknown(table: Any, allowed: Iterable[str], where: str) -> None:
    if not isinstance(table, dict):
        raise InputError(f"{where} must be a table of names and values.")
    for name in table:
        if name not in allowed:
            raise InputError(
                f"{where} has an unknown name {name!r}; it may have {_listed(allowed)}."
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
