"""The paper's tables and summary tables, written as LaTeX (booktabs) and as HTML.

In every column the best mean is underlined, and all that are among the top (Welch p ≥ 0.05 against
it) are bold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan

import numpy as np

from parbals_bench.datasets.table import dataset_title
from parbals_bench.report.stats import Interval, Standing
from parbals_bench.report.tasks import KINDS, Line, Task, compared, rank
from parbals_bench.run.metrics import Metric
from parbals_bench.run.spec import Budget

__all__ = [
    "MISSING",
    "Entry",
    "Table",
    "ablation_tables",
    "curve_tables",
    "main_tables",
    "number",
    "one_vs_all_tables",
    "text_table",
    "to_html",
    "to_latex",
    "to_rows",
]

MISSING = "–"
_TEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {"\\": "\\textbackslash{}", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}"}
    | {"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", "\n": " "}
    | {"[": "{[}", "*": "{*}"}  # bare, either would belong to the \\ that ends the row above
    | {"×": "$\\times$", "±": "$\\pm$", "−": "$-$", "≥": "$\\geq$"}
)

Column = tuple[str, Mapping[Line, Standing]]


@dataclass(frozen=True)
class Entry:
    """One cell: a text, and what it stands for if it is a mean."""

    text: str
    standing: Standing | None = None


@dataclass(frozen=True)
class Table:
    """Rows by their name; ``caption`` explains the marks."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Entry, ...]]
    caption: str = ""


def number(interval: Interval, digits: int = 2) -> str:
    """ "89.38 ± 0.36"; a single seed has no interval."""
    half = "" if isnan(interval.half_width) else f" ± {interval.half_width:.{digits}f}"
    return f"{interval.mean:.{digits}f}{half}"


def text_table(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    """A table of plain texts."""
    entries = {name: tuple(Entry(text) for text in row) for name, row in rows.items()}
    return Table(title, tuple(columns), entries)


def main_tables(tasks: Sequence[Task], metric: Metric) -> list[Table]:
    """For every budget the paper's two kinds of table, one column per dataset."""
    tables = []
    for budget in _budgets(tasks):
        budget_tasks = [t for t in tasks if t.budget == budget and not t.is_one_vs_all]
        for kind, title in KINDS.items():
            columns = [(task.title, task.standings(metric, kind)) for task in budget_tasks]
            tables.append(_table(f"{title}, budget {budget.spelt}", columns, metric))
    return [table for table in tables if len(table.rows) > 1]


def curve_tables(tasks: Sequence[Task], metric: Metric) -> list[Table]:
    """For every budget the mean over the learning curve, one column per dataset."""
    tables = []
    for budget in _budgets(tasks):
        columns: list[Column] = []
        for task in tasks:
            if task.budget == budget and not task.is_one_vs_all:
                values = {line: task.curve_mean(line, metric.key) for line in task.lines()}
                columns.append((task.title, compared(values, metric)))
        title = f"Mean over the curve (normalised area under it), budget {budget.spelt}"
        tables.append(_table(title, columns, metric))
    return [table for table in tables if len(table.rows) > 1]


def one_vs_all_tables(tasks: Sequence[Task], metric: Metric) -> list[Table]:
    """For datasets run with several positive classes: a column per class, and their average."""
    tables = []
    for budget in _budgets(tasks):
        for dataset in dict.fromkeys(task.dataset for task in tasks if task.is_one_vs_all):
            class_tasks = [
                task
                for task in tasks
                if (task.dataset, task.budget) == (dataset, budget)
                and (task.is_one_vs_all or task.is_default)
            ]
            strategies = {
                line.strategy for task in class_tasks if task.is_one_vs_all for line in task.lines()
            }
            if not strategies:
                continue
            columns: list[Column] = []
            for task in class_tasks:
                lines = [line for line in task.lines() if line.strategy in strategies]
                standings = compared({x: task.final(x, metric.key) for x in lines}, metric)
                columns.append((task.positive or "first class", standings))
            if len(class_tasks) > 1:
                columns.append(("average", _average(class_tasks, strategies, metric)))
            title = f"{dataset_title(dataset)}, each class against the others"
            tables.append(_table(f"{title}, budget {budget.spelt}", columns, metric))
    return tables


def ablation_tables(tasks: Sequence[Task], metric: Metric) -> list[Table]:
    """For strategies run with several options: every variant, on the seeds that all of them share.

    Variants that differ only in m are in one table with the baseline, those that differ only in K
    in another, and so on.
    """
    tables = []
    for budget in _budgets(tasks):
        budget_tasks = [task for task in tasks if task.budget == budget]
        variants = (line for task in budget_tasks for line in task.records if line.variant)
        for strategy, names in dict.fromkeys((x.strategy, _changes(x)) for x in variants):
            columns: list[Column] = []
            for task in budget_tasks:
                lines = [x for x in task.records if x.strategy == strategy]
                lines = [x for x in lines if not x.variant or _changes(x) == names]
                seeds = set.intersection(*(set(task.records[x]) for x in lines)) if lines else set()
                if seeds and any(line.variant for line in lines):
                    values = {
                        _with_values(x, lines, task): task.final(x, metric.key, seeds)
                        for x in lines
                    }
                    columns.append((task.title, compared(values, metric)))
            if columns:
                title = f"Variants of {Line(strategy).title} by {names}, budget {budget.spelt}"
                tables.append(_table(title, columns, metric))
    return tables


def _table(title: str, columns: Sequence[Column], metric: Metric) -> Table:
    """A table in the metric's unit."""
    lines = sorted({line for _, standings in columns for line in standings}, key=rank)
    rows = {
        line.title: tuple(_entry(standings.get(line), metric) for _, standings in columns)
        for line in lines
    }
    caption = f"{metric.best.capitalize()} mean underlined; bold if Welch's p ≥ 0.05 against it."
    title = f"{title}: {metric.in_words}, {metric.unit}"
    return Table(title, tuple(name for name, *_ in columns), rows, caption)


def _entry(standing: Standing | None, metric: Metric) -> Entry:
    if standing is None:
        return Entry(MISSING)
    return Entry(number(standing.interval, metric.digits), standing)


def _average(tasks: Sequence[Task], strategies: set[str], metric: Metric) -> dict[Line, Standing]:
    """Standings by the mean over tasks, a number per seed, of seeds and lines that none lacks."""
    values = {}
    for line in tasks[0].lines():
        if line.strategy in strategies and all(line in task.records for task in tasks):
            seeds = set.intersection(*(set(task.records[line]) for task in tasks))
            if seeds:
                finals = [task.final(line, metric.key, seeds) for task in tasks]
                values[line] = np.mean(finals, axis=0)
    return compared(values, metric)


def _changes(line: Line) -> str:
    """The names of what a variant changes: "m", or "m, K"."""
    return ", ".join(change.partition(" = ")[0] for change in line.variant.split(", "))


def _with_values(line: Line, lines: Sequence[Line], task: Task) -> Line:
    """The baseline, named after its values of the settings that the variants change."""
    if line.variant:
        return line
    run = next(iter(task.records[line].values())).run
    variants = (sibling.variant for sibling in lines if sibling.variant)
    return Line(line.strategy, run.values_of(variants))


def _budgets(tasks: Sequence[Task]) -> list[Budget]:
    return list(dict.fromkeys(task.budget for task in tasks))


def to_latex(table: Table) -> str:
    """A booktabs table (``\\usepackage{booktabs}``)."""
    head, rows = _texts(table, _latex, _tex)
    caption = f"{table.title}. {table.caption}" if table.caption else table.title
    lines = [
        "\\begin{table}",
        f"\\caption{{{_tex(caption)}}}",
        "\\centering",
        f"\\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
        "\\toprule",
        f"{' & '.join(head)} \\\\",
        "\\midrule",
        *(f"{' & '.join(row)} \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
        "",
    ]
    return "\n".join(lines)


def to_rows(table: Table) -> list[tuple[str, ...]]:
    """Head and rows as plain texts, for a terminal."""
    head, rows = _texts(table, lambda entry: entry.text, str)
    return [tuple(head), *(tuple(row) for row in rows)]


def to_html(table: Table) -> str:
    """A table whose title stays in sight while it scrolls below it."""
    head, rows = _texts(table, _html, escape)
    top = "".join(f"<th scope=col>{cell}</th>" if cell else "<td></td>" for cell in head)
    body = ""
    for name, *cells in rows:
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        body += f"<tr><th scope=row>{name}</th>{row}</tr>\n"
    return (
        f'<div class="titled"><p class="title">{escape(table.title)}</p>\n'
        f'<div class="scroll"><table aria-label="{escape(table.title)}">'
        f"<thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div></div>\n"
    )


def _texts(
    table: Table, mark: Callable[[Entry], str], plain: Callable[[str], str]
) -> tuple[list[str], list[list[str]]]:
    """Head and rows; ``mark`` writes a mean, ``plain`` any other text."""
    rows = [
        [plain(name), *(mark(entry) if entry.standing else plain(entry.text) for entry in row)]
        for name, row in table.rows.items()
    ]
    return ["", *(plain(column) for column in table.columns)], rows


def _latex(entry: Entry) -> str:
    assert entry.standing is not None
    text = entry.text.replace("±", "\\pm")
    text = f"$\\mathbf{{{text}}}$" if entry.standing.is_top else f"${text}$"
    return f"\\underline{{{text}}}" if entry.standing.is_best else text


def _html(entry: Entry) -> str:
    assert entry.standing is not None
    text = f"<b>{entry.text}</b>" if entry.standing.is_top else entry.text
    return f"<u>{text}</u>" if entry.standing.is_best else text


def _tex(text: str) -> str:
    return text.translate(_TEX)
