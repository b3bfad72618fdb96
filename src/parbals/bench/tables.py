"""The paper's tables: built once, written as Markdown, LaTeX or HTML.

In every column the highest mean is underlined, and all that are among the top (Welch p ≥ 0.05 against it) are bold.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from math import isnan

from parbals.bench.collect import Line, Setting
from parbals.bench.names import KINDS, dataset_name, strategy_name
from parbals.bench.runs import Budget
from parbals.bench.stats import Interval, Place, Standing, compare, leaderboard

__all__ = [
    "Entry",
    "Table",
    "ablation_tables",
    "leaderboards",
    "main_tables",
    "one_vs_all_tables",
    "paper_figures",
    "standings_of",
    "to_html",
    "to_latex",
    "to_markdown",
]


@dataclass(frozen=True)
class Entry:
    """One cell of a table, in per cent; ``paper`` is the published mean and half-width."""

    standing: Standing
    paper: tuple[float, float] | None = None

    @property
    def agrees(self) -> bool | None:
        """Our mean lies within the published interval widened by ours; ``None`` when nothing was published."""
        if self.paper is None:
            return None
        ours = self.standing.interval
        return abs(ours.mean - self.paper[0]) <= self.paper[1] + (0.0 if isnan(ours.half_width) else ours.half_width)


@dataclass(frozen=True)
class Table:
    """Rows are algorithms, columns are settings; an entry that was not run is missing."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Entry | None, ...]]

    @property
    def has_paper(self) -> bool:
        return any(entry is not None and entry.paper is not None for row in self.rows.values() for entry in row)


def main_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """For every budget the paper's two kinds of table, one column per dataset."""
    tables = []
    for budget in _budgets(settings):
        columns = [s for s in settings if s.budget == budget and s.positive is None]
        for kind, strategies in _kinds(columns).items():
            tables.append(_table(f"{kind}, budget {budget.spelt}", columns, strategies, metric))
    return [table for table in tables if len(table.rows) > 1]


def one_vs_all_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """For datasets run with several positive classes: one column per class."""
    tables = []
    for budget in _budgets(settings):
        for dataset in dict.fromkeys(s.dataset for s in settings if s.positive is not None):
            columns = [s for s in settings if s.dataset == dataset and s.budget == budget]
            named = [line.strategy for s in columns if s.positive is not None for line in s.lines()]
            title = f"{dataset_name(dataset)}, each class against the others, budget {budget.spelt}"
            if any(s.positive is not None for s in columns):
                tables.append(_table(title, columns, tuple(dict.fromkeys(named)), metric, by_class=True))
    return tables


def ablation_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[Table]:
    """For strategies run with several options: every variant, on the seeds that all of them share."""
    tables = []
    for budget in _budgets(settings):
        of_budget = [s for s in settings if s.budget == budget]
        varied = dict.fromkeys(line.strategy for s in of_budget for line in s.records if line.variant)
        for strategy in varied:
            columns = [s for s in of_budget if any(x.variant and x.strategy == strategy for x in s.records)]
            found: list[dict[Line, Standing]] = []
            for setting in columns:
                lines = [line for line in setting.records if line.strategy == strategy]
                shared = set.intersection(*(set(setting.records[line]) for line in lines))
                values = {line: 100.0 * setting.final(line, metric, shared) for line in lines} if shared else {}
                found.append(compare(values))
            rows = sorted({line for part in found for line in part}, key=lambda x: (len(x.variant), x.variant))
            entries = {
                _full_name(x, rows, columns): tuple(Entry(part[x]) if x in part else None for part in found)
                for x in rows
            }
            title = f"Variants of {Line(strategy).name}, budget {budget.spelt}"
            tables.append(Table(title, tuple(s.name for s in columns), entries))
    return tables


def standings_of(setting: Setting, strategies: Sequence[str], metric: str = "accuracy") -> dict[Line, Standing]:
    """Everyone's standing in one setting, in per cent, among the given strategies alone."""
    return compare({line: 100.0 * setting.final(line, metric) for line in setting.lines(strategies)})


def leaderboards(settings: Sequence[Setting], metric: str = "accuracy") -> dict[str, list[Place]]:
    """For each kind of table: over all datasets × budgets, how often each was best and among the top.

    One label at a time is left out, for there ParBaLS EPIG is EPIG.
    """
    main = [s for s in settings if s.positive is None and s.budget.batch > 1]
    boards = {}
    for kind, strategies in _kinds(main).items():
        found = [standings_of(s, strategies, metric) for s in main]
        boards[kind] = leaderboard([{x.name: standing for x, standing in part.items()} for part in found])
    return {kind: board for kind, board in boards.items() if len(board) > 1}


@cache
def paper_figures() -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """What the paper published: (budget, strategy, dataset) → mean and half-width."""
    table = tomllib.loads(resources.files("parbals.bench").joinpath("paper.toml").read_text("utf-8"))
    return {
        (table["budget"], strategy, dataset): (float(pair[0]), float(pair[1]))
        for strategy, row in table.items()
        if isinstance(row, dict)
        for dataset, pair in row.items()
    }


def to_markdown(table: Table) -> str:
    head = f"| | {' | '.join(table.columns)} |\n|{' --- |' * (len(table.columns) + 1)}\n"
    rows = (f"| {name} | {' | '.join(_cell(entry, _markdown) for entry in row)} |" for name, row in table.rows.items())
    return f"### {table.title}\n\n{head}" + "\n".join(rows) + "\n"


def to_latex(table: Table) -> str:
    """A booktabs table (``\\usepackage{booktabs}``)."""
    rows = [
        f"{_tex(name)} & {' & '.join(_cell(entry, _latex) for entry in row)} \\\\" for name, row in table.rows.items()
    ]
    return "\n".join(
        [
            "\\begin{table}",
            f"\\caption{{{_tex(table.title)}. Highest mean underlined; bold if Welch's $p \\geq 0.05$ against it.}}",
            "\\centering",
            f"\\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
            "\\toprule",
            f" & {' & '.join(_tex(column) for column in table.columns)} \\\\",
            "\\midrule",
            *rows,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def to_html(table: Table) -> str:
    head = "".join(f"<th scope=col>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th>"
        + "".join(f"<td>{_cell(entry, _html)}</td>" for entry in row)
        + "</tr>\n"
        for name, row in table.rows.items()
    )
    return (
        f'<div class="scroll"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )


def _table(
    title: str, settings: Sequence[Setting], strategies: Sequence[str], metric: str, *, by_class: bool = False
) -> Table:
    found = [standings_of(setting, strategies, metric) for setting in settings]
    lines = sorted({line for part in found for line in part}, key=lambda line: strategies.index(line.strategy))
    rows = {
        line.name: tuple(
            Entry(part[line], _published(setting, line, metric)) if line in part else None
            for setting, part in zip(settings, found, strict=True)
        )
        for line in lines
    }
    columns = [(s.positive or "first class") if by_class else s.name for s in settings]
    return Table(title, tuple(columns), rows)


def _full_name(line: Line, lines: Sequence[Line], settings: Sequence[Setting]) -> str:
    """The baseline is called by its own values of what the variants change."""
    if line.variant:
        return line.name
    record = next(record for s in settings if line in s.records for record in s.records[line].values())
    return strategy_name(line.strategy, record.run.values_of(other.variant for other in lines if other.variant))


def _published(setting: Setting, line: Line, metric: str) -> tuple[float, float] | None:
    if metric != "accuracy" or setting.positive is not None:
        return None
    return paper_figures().get((str(setting.budget), line.strategy, setting.dataset))


def _kinds(settings: Sequence[Setting]) -> dict[str, tuple[str, ...]]:
    """The two kinds; strategies of other packages join the heuristics' table, where they meet ParBaLS."""
    known = {name for names in KINDS.values() for name in names}
    others = tuple(dict.fromkeys(x.strategy for s in settings for x in s.lines() if x.strategy not in known))
    (bayesian, ours), (heuristics, theirs) = KINDS.items()
    return {bayesian: ours, heuristics: theirs[:-2] + others + theirs[-2:]}


def _budgets(settings: Sequence[Setting]) -> list[Budget]:
    return list(dict.fromkeys(setting.budget for setting in settings))


def _cell(entry: Entry | None, write: Callable[[str, Standing, str | None], str]) -> str:
    if entry is None:
        return "–"
    paper = None if entry.paper is None else f"{entry.paper[0]:.2f} ± {entry.paper[1]:.2f}"
    return write(_number(entry.standing.interval), entry.standing, paper)


def _number(interval: Interval) -> str:
    return f"{interval.mean:.2f}" + ("" if isnan(interval.half_width) else f" ± {interval.half_width:.2f}")


def _markdown(number: str, standing: Standing, paper: str | None) -> str:
    text = f"**{number}**" if standing.is_top else number
    text = f"<u>{text}</u>" if standing.is_best else text
    return text if paper is None else f"{text}<br>paper {paper}"


def _latex(number: str, standing: Standing, paper: str | None) -> str:
    text = number.replace(" ± ", " \\pm ")
    text = f"$\\mathbf{{{text}}}$" if standing.is_top else f"${text}$"
    text = f"\\underline{{{text}}}" if standing.is_best else text
    if paper is None:
        return text
    published = paper.replace("±", "\\pm")
    return f"{text} {{\\scriptsize (paper ${published}$)}}"


def _html(number: str, standing: Standing, paper: str | None) -> str:
    text = f"<b>{number}</b>" if standing.is_top else number
    text = f"<u>{text}</u>" if standing.is_best else text
    return text if paper is None else f'{text}<span class="paper">paper {paper}</span>'


def _tex(text: str) -> str:
    for mark in "&%$#_{}":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("×", "$\\times$")
