"""Suites: which runs make up an experiment, from TOML; and running what is still missing of one."""

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
_NAMED = ("datasets", "budgets", "strategies")
_DATA_KEYS = ("dataset", "path", "features")
_WORDS = dict.fromkeys(_NAMED, 'names in quotes, for example ["..."]') | {
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
        wanted = {str(Budget.parse(text)) for text in budgets}
        names = {run.dataset for run in self.runs} | {run.reference for run in self.runs}
        for given, known, what in (
            (datasets, names, "dataset"),
            (sorted(wanted), {str(run.budget) for run in self.runs}, "budget"),
            (strategies, {run.strategy for run in self.runs}, "strategy"),
        ):
            for name in given:
                if name not in known:
                    raise InputError(
                        f"The suite {self.name} has no {what} {name!r}; it has {_listed(known)}."
                    )
        kept = [
            run
            for run in self.runs
            if (not datasets or run.dataset in datasets or run.reference in datasets)
            and (not wanted or str(run.budget) in wanted)
            and (not strategies or run.strategy in strategies)
        ]
        first = sorted({run.seed for run in kept})[:seeds]
        return tuple(run for run in kept if run.seed in first)


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
    for number, grid in enumerate(_many(table["grid"]), 1):
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
    """Compute the runs that the folder does not hold yet; those without a result come back.

    Each is on disk before it is counted: however roughly this is stopped, at most the runs in
    progress are lost; calling it again
    computes only what is missing, and the folder ends up with the same results as if nothing had
    happened. Results of a dataset whose features or labels are no longer those of the results
    already there are refused, not mixed with them.
    """
    failures: list[Outcome] = []
    with folder.writing() as append:
        records = folder.records()
        held = {record.key for record in records}
        digests = {record.run.reference: record.data for record in records}
        missing = [run for run in runs if run.key not in held]
        done = len(runs) - len(missing)
        progress("runs", done, len(runs), "starting" if missing else "")
        for outcome in executor.results(missing, loader) if missing else ():
            run, line = outcome.run, outcome.line
            if line is None:
                failures.append(outcome)
            elif (data := read_line(line).data) != digests.setdefault(run.reference, data):
                reason = (
                    f"{run.reference} is not the same data as in the results already in "
                    f"{folder.path} (other rows, labels or features); use another --out, or remove "
                    "its files there."
                )
                failures.append(replace(outcome, line=None, error=reason))
            else:
                append(run, line)
                done += 1
            failed = f" · {len(failures)} failed" if failures else ""
            progress(
                "runs", done, len(runs), f"{run.reference} {run.budget} {run.strategy}{failed}"
            )
    return failures


def _expand(grid: dict[str, Any], settings: Settings, place: str) -> Iterable[Run]:
    """Every combination of a ``[[grid]]``; one value stands for a list of one."""
    _refuse_unknown(grid, {*_NAMED, "seeds", "options", *_SETTINGS}, place)
    seeds = grid.get("seeds")
    seeds = list(range(seeds)) if type(seeds) is int else seeds
    if not isinstance(seeds, list) or not all(type(x) is int and x >= 0 for x in seeds or [-1]):
        raise InputError(
            f"{place}: seeds is {grid.get('seeds')!r}; write how many there are (seeds = 10) or a "
            "list of whole numbers from 0."
        )
    axes = {name: _many(grid.get(name, [])) for name in _NAMED}
    axes |= {"options": _many(grid.get("options", {}))}
    axes |= {name: _many(grid[name]) for name in _SETTINGS if name in grid}
    for name, values in axes.items():
        kind = str if name in _NAMED else dict if name == "options" else object
        if not values or not all(isinstance(value, kind) for value in values):
            raise InputError(f"{place}: {name} must be {_WORDS.get(name, 'a value or a list')}.")
    for reference, budget, strategy, options, *changes, seed in product(*axes.values(), seeds):
        dataset, positive = split_reference(reference)
        changed = replace(settings, **dict(zip([*axes][4:], changes, strict=True)))
        yield Run(dataset, Budget.parse(budget), strategy, seed, positive, options, changed)


def _check_data(tables: Mapping[str, Any], where: str) -> None:
    """The ``[data.NAME]`` tables: the suite's own names for a user's file or for other features."""
    for name, table in tables.items():
        place = f"[data.{name}] of {where}"
        _refuse_unknown(table, _DATA_KEYS, place)
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{place}: a name may have letters, digits, dots, dashes and underscores alone."
            )
        for key, value in table.items():
            if not isinstance(value, str):
                raise InputError(f"{place}: {key} must be in quotes.")


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refuse_unknown(table: Any, known: Iterable[str], place: str) -> None:
    if not isinstance(table, dict):
        raise InputError(f"{place} must be a table of names and values.")
    for name in table:
        if name not in known:
            raise InputError(f"{place} has an unknown name {name!r}; it may have {_listed(known)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
