"""The paper's tables, built from records; render.py writes them.

In every column the best mean is underlined, and all that are among the top (Welch p ≥ 0.05 against
it) are bold.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parbals.bench.report.collect import Line, Setting
from parbals.bench.report.measures import MEASURES, Measure
from parbals.bench.report.names import KINDS, dataset_name, strategy_name
from parbals.bench.report.paper import paper_figures
from parbals.bench.report.stats import Place, Standing, compare, leaderboard
from parbals.bench.spec import Budget

__all__ = [
    "Entry",
    "Table",
    "ablation_tables",
    "all_tables",
    "leaderboards",
    "main_tables",
    "one_vs_all_tables",
    "standings_of",
]


@dataclass(frozen=True)
class Entry:
    """One cell of a table, in the measure's unit; ``paper`` is the published mean and half-width."""

    standing: Standing
    paper: tuple[float, float] | None = None


@dataclass(frozen=True)
class Table:
    """Rows are algorithms, columns are settings; an entry that was not run is missing."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Entry | None, ...]]
    measure: Measure = MEASURES["accuracy"]

    @property
    def has_paper(self) -> bool:
        return any(
            entry is not None and entry.paper is not None
            for row in self.rows.values()
            for entry in row
        )


def all_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """Every table of one measure, in the order of the report."""
    return [
        *main_tables(settings, metric),
        *one_vs_all_tables(settings, metric),
        *ablation_tables(settings, metric),
    ]


def main_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """For every budget the paper's two kinds of table, one column per dataset."""
    tables = []
    for budget in _budgets(settings):
        columns = [s for s in settings if s.budget == budget and not s.is_one_vs_all]
        for kind, strategies in _kinds(columns).items():
            tables.append(_table(f"{kind}, budget {budget.spelt}", columns, strategies, metric))
    return [table for table in tables if len(table.rows) > 1]


def one_vs_all_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """For datasets run with several positive classes: one column per class, and the average over
    them."""
    tables = []
    for budget in _budgets(settings):
        for dataset in dict.fromkeys(s.dataset for s in settings if s.is_one_vs_all):
            here = [s for s in settings if s.dataset == dataset and s.budget == budget]
            columns = [s for s in here if s.is_one_vs_all or s.is_default]
            named = [line.strategy for s in columns if s.is_one_vs_all for line in s.lines()]
            title = f"{dataset_name(dataset)}, each class against the others, budget {budget.spelt}"
            if named:
                tables.append(
                    _table(title, columns, tuple(dict.fromkeys(named)), metric, by_class=True)
                )
    return tables


def ablation_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """For strategies run with several options: every variant, on the seeds that all of them share.

    What differs in m alone stands in one table with the baseline, what differs in K alone in
    another, and so on.
    """
    tables = []
    measure = MEASURES[metric]
    for budget in _budgets(settings):
        of_budget = [s for s in settings if s.budget == budget]
        varied = dict.fromkeys(
            (x.strategy, _changed(x)) for s in of_budget for x in s.records if x.variant
        )
        for strategy, names in varied:
            found: dict[str, dict[Line, Standing]] = {}
            titles: dict[Line, str] = {}
            for setting in of_budget:
                variants = [
                    x for x in setting.records if x.strategy == strategy and _changed(x) == names
                ]
                lines = [x for x in setting.records if x == Line(strategy)] + variants
                shared = (
                    set.intersection(*(set(setting.records[x]) for x in lines))
                    if variants
                    else set()
                )
                if shared:
                    values = {x: measure.scale * setting.final(x, metric, shared) for x in lines}
                    found[setting.name] = compare(values, lower_is_better=measure.lower_is_better)
                    titles |= {x: _full_name(x, lines, setting) for x in lines}
            rows = {
                titles[x]: tuple(Entry(part[x]) if x in part else None for part in found.values())
                for x in sorted(titles, key=lambda line: _by_value(titles[line]))
            }
            if rows:
                title = f"Variants of {Line(strategy).name} by {names}, budget {budget.spelt}"
                tables.append(Table(title, tuple(found), rows, measure))
    return tables


def standings_of(
    setting: Setting, strategies: Sequence[str], metric: str = "accuracy"
) -> dict[Line, Standing]:
    """Everyone's standing in one setting, in the measure's unit, among the given strategies alone."""
    measure = MEASURES[metric]
    values = {
        line: measure.scale * setting.final(line, metric) for line in setting.lines(strategies)
    }
    return compare(values, lower_is_better=measure.lower_is_better)


def leaderboards(settings: Sequence[Setting], metric: str = "accuracy") -> dict[str, list[Place]]:
    """For each kind of table: over all datasets × budgets, how often each was best and among the
    top.

    One label at a time is left out, for there ParBaLS EPIG is EPIG.
    """
    main = [s for s in settings if not s.is_one_vs_all and s.budget.batch > 1]
    boards = {}
    for kind, strategies in _kinds(main).items():
        found = [standings_of(s, strategies, metric) for s in main]
        boards[kind] = leaderboard(
            [{x.name: standing for x, standing in part.items()} for part in found]
        )
    return {kind: board for kind, board in boards.items() if len(board) > 1}


def _table(
    title: str,
    settings: Sequence[Setting],
    strategies: Sequence[str],
    metric: str,
    *,
    by_class: bool = False,
) -> Table:
    found = [standings_of(setting, strategies, metric) for setting in settings]
    order = {name: place for place, name in enumerate(strategies)}
    lines = sorted(
        {line for part in found for line in part},
        key=lambda x: (order[x.strategy], _by_value(x.variant)),
    )
    average = (
        _average(settings, lines, MEASURES[metric]) if by_class and len(settings) > 1 else None
    )
    rows = {}
    for line in lines:
        row = [
            Entry(part[line], _published(setting, line, metric)) if line in part else None
            for setting, part in zip(settings, found, strict=True)
        ]
        if average is not None:
            row.append(Entry(average[line]) if line in average else None)
        rows[line.name] = tuple(row)
    columns = [(s.positive or "first class") if by_class else s.name for s in settings]
    return Table(
        title, (*columns, *(["average"] if average is not None else [])), rows, MEASURES[metric]
    )


def _average(
    settings: Sequence[Setting], lines: Sequence[Line], measure: Measure
) -> dict[Line, Standing]:
    """Standings by the mean over all settings, a number per seed: of seeds and lines that no
    setting lacks."""
    everywhere = [line for line in lines if all(line in setting.records for setting in settings)]
    values = {}
    for line in everywhere:
        seeds = set.intersection(*(set(setting.records[line]) for setting in settings))
        if seeds:
            finals = [setting.final(line, measure.key, seeds) for setting in settings]
            values[line] = measure.scale * np.mean(finals, axis=0)
    return compare(values, lower_is_better=measure.lower_is_better)


def _changed(line: Line) -> str:
    """The names of what a variant changes: "m", or "m, K"."""
    return ", ".join(part.partition(" = ")[0] for part in line.variant.split(", "))


def _full_name(line: Line, lines: Sequence[Line], setting: Setting) -> str:
    """The baseline is called by its own values of what the variants change."""
    if line.variant:
        return line.name
    run = next(iter(setting.records[line].values())).run
    return strategy_name(
        line.strategy, run.values_of(other.variant for other in lines if other.variant)
    )


def _by_value(name: str) -> tuple[tuple[int, float, str], ...]:
    """Numbers in the order of their size: m = 5, m = 10, m = 20."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return tuple(
        (0, float(part), "") if place % 2 else (1, 0.0, part) for place, part in enumerate(parts)
    )


def _published(setting: Setting, line: Line, metric: str) -> tuple[float, float] | None:
    if metric != "accuracy" or not setting.is_default:
        return None
    return paper_figures().get((str(setting.budget), line.strategy, setting.dataset))


def _kinds(settings: Sequence[Setting]) -> dict[str, tuple[str, ...]]:
    """The two kinds; strategies of other packages join the heuristics' table, where they meet
    ParBaLS."""
    known = {name for names in KINDS.values() for name in names}
    others = tuple(
        dict.fromkeys(x.strategy for s in settings for x in s.lines() if x.strategy not in known)
    )
    (bayesian, ours), (heuristics, theirs) = KINDS.items()
    return {bayesian: ours, heuristics: theirs[:-2] + others + theirs[-2:]}


def _budgets(settings: Sequence[Setting]) -> list[Budget]:
    return list(dict.fromkeys(setting.budget for setting in settings))
