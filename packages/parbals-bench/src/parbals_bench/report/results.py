"""All that a report says of a suite's records, each part computed once when it is asked for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from matplotlib.figure import Figure

from parbals_bench.datasets.table import dataset_title
from parbals_bench.report.paper import Agreement, agreements
from parbals_bench.report.plots import Curve, curve_figure, savings_figure
from parbals_bench.report.stats import LabelsSaved, Place, labels_saved, leaderboard
from parbals_bench.report.tables import (
    MISSING,
    Table,
    ablation_tables,
    main_tables,
    number,
    one_vs_all_tables,
    text_table,
)
from parbals_bench.report.tasks import KINDS, OURS, SEQUENTIAL, Line, Task, collect
from parbals_bench.run.grid import Suite
from parbals_bench.run.metrics import METRICS, Metric
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import ALL_CLASSES, Run

__all__ = ["ONE_AT_A_TIME", "ONE_VS_ALL", "SAVED", "Picture", "Results", "Saving"]

ONE_AT_A_TIME, ONE_VS_ALL = "One label at a time", "Each class against the others"
SAVED = "labels-saved"
_FEW_LINES = 7
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Saving:
    """Labels that a strategy saves against Random on one task."""

    task: Task
    line: Line
    labels: LabelsSaved


@dataclass(frozen=True)
class Picture:
    """Learning curves: where on the page, file name without ending, words for the blind, title."""

    group: str
    name: str
    description: str
    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Results:
    """Records of a suite, in its order, judged by one metric."""

    suite: Suite
    records: tuple[RunRecord, ...]
    metric: Metric = METRICS["accuracy"]

    @cached_property
    def tasks(self) -> list[Task]:
        return collect(self.records, self.suite.settings)

    @cached_property
    def main_tasks(self) -> list[Task]:
        """What strategies are ranked by: batches, of the datasets' own classes or all of them."""
        return [task for task in self.tasks if not task.is_one_vs_all and task.budget.batch > 1]

    @cached_property
    def tables(self) -> dict[str, list[Table]]:
        """By metric: the two kinds for every budget, each class against the others, variants."""
        return {
            name: [
                *main_tables(self.tasks, metric),
                *one_vs_all_tables(self.tasks, metric),
                *ablation_tables(self.tasks, metric),
            ]
            for name, metric in METRICS.items()
        }

    @cached_property
    def leaderboards(self) -> dict[str, list[Place]]:
        """By kind of table, over all datasets × budgets: how often each was best and at the top."""
        boards = {}
        for kind, title in KINDS.items():
            parts = [task.standings(self.metric, kind) for task in self.main_tasks]
            boards[title] = leaderboard([{x.title: s for x, s in part.items()} for part in parts])
        return {title: board for title, board in boards.items() if len(board) > 1}

    @cached_property
    def savings(self) -> list[Saving]:
        """For every dataset and budget that Random was run in, and every other strategy there."""
        sign = -1.0 if self.metric.lower_is_better else 1.0
        savings = []
        for task in self.tasks:
            for line in () if task.is_one_vs_all else task.lines():
                random = task.random_beside(line)
                if random is not None and line.strategy != random.strategy:
                    curve, reference = (
                        sign * task.values(x, self.metric.key).mean(axis=0) for x in (line, random)
                    )
                    labels = labels_saved(task.budget.n_labels, curve, reference)
                    savings.append(Saving(task, line, labels))
        return savings

    @cached_property
    def shares_saved(self) -> dict[Line, list[float]]:
        """Shares of Random's labels: of batches, for few strategies are run one label at a time."""
        ranked = [x for x in self.savings if x.task.budget.batch > 1] or self.savings
        shares: dict[Line, list[float]] = {}
        for saving in ranked:
            shares.setdefault(saving.line, []).append(saving.labels.share)
        return shares

    @cached_property
    def agreements(self) -> list[Agreement]:
        return agreements(self.tasks)

    @cached_property
    def notes(self) -> list[tuple[str, str]]:
        """Every note once, that of the fewest runs first, with the runs it is of.

        Those that differ in their numbers alone count as one.
        """
        noted: dict[str, list[tuple[str, Run]]] = {}
        for record in self.records:
            for note in record.notes:
                noted.setdefault(_NUMBER.sub("0", note), []).append((note, record.run))
        notes = []
        for alike in sorted(noted.values(), key=len):
            datasets = dict.fromkeys(dataset_title(run.dataset) for _, run in alike)
            where = f"{len(alike):,} of {len(self.records):,} runs ({', '.join(datasets)})"
            notes.append((where, alike[0][0]))
        return notes

    @cached_property
    def pictures(self) -> list[Picture]:
        """Learning curves of every task, in the order of the tasks."""
        pictures: list[Picture] = []
        for task in self.tasks:
            beside = self.batched(task) if task.budget.batch == 1 else []
            is_small = len(task.lines()) <= _FEW_LINES
            kinds = {None: "all strategies"} if is_small else KINDS
            for kind, kind_title in kinds.items():
                lines = task.lines(kind)
                if not lines:
                    continue
                seeds = {seed for line in lines for seed in task.records[line]}
                curves = [self._curve(task, line, line.title) for line in lines]
                for other, line in beside:
                    title = f"{line.title}, {other.budget.batch} at a time"
                    curves.append(self._curve(other, line, title, seeds))
                of = "all classes" if task.positive == ALL_CLASSES else task.positive or ""
                name = _file_name(f"{task.dataset} {of} {task.budget} {kind_title}", pictures)
                words = f"{self.metric.title} on {task.title} against the number of labels, "
                words += f"{kind_title}, budget {task.budget}"
                title = f"{task.title}  ·  {task.budget.spelt}"
                pictures.append(Picture(_group(task), name, words, title, tuple(curves)))
        return pictures

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """By file name without ending: labels saved, then every picture, each drawn once."""
        figures = {SAVED: savings_figure(self.shares_saved)} if self.shares_saved else {}
        for picture in self.pictures:
            figures[picture.name] = curve_figure(picture.curves, picture.title, self.metric)
        return figures

    @cached_property
    def leaderboard_tables(self) -> list[Table]:
        """How often a strategy is best, among the top, and told apart from the best."""
        return [
            text_table(
                f"Leaderboard, {title}",
                (f"{self.metric.best} mean", "among the top", "surely behind (Holm)"),
                {
                    x.name: (str(x.n_best), f"{x.n_top} of {x.n_settings}", str(x.n_told_apart))
                    for x in board
                },
            )
            for title, board in self.leaderboards.items()
        ]

    @cached_property
    def agreement_tables(self) -> list[Table]:
        """For every dataset of which we ran anything: all the paper's figures beside ours."""
        columns = ("ours", "paper", "difference", "allowed", "agrees", "Welch p")
        tables = []
        for dataset, of_dataset in groupby(self.agreements, lambda row: row.dataset):
            rows = list(of_dataset)
            title = f"{dataset_title(dataset)}, budget {rows[0].budget.spelt}"
            if any(row.ours is not None for row in rows):
                texts = {row.line.title: _beside(row) for row in rows}
                tables.append(text_table(f"{title}: final test accuracy, %", columns, texts))
        return tables

    @cached_property
    def savings_tables(self) -> list[Table]:
        """Labels fewer than Random at equal quality: a table per budget, strategies by datasets."""
        tables = []
        for budget in dict.fromkeys(saving.task.budget for saving in self.savings):
            here = [saving for saving in self.savings if saving.task.budget == budget]
            columns = list(dict.fromkeys(saving.task.title for saving in here))
            texts = {(x.line.title, x.task.title): _saved(x.labels) for x in here}
            rows = {
                name: [texts.get((name, column), MISSING) for column in columns]
                for name in dict.fromkeys(saving.line.title for saving in here)
            }
            title = f"Labels saved against Random, budget {budget.spelt}"
            tables.append(text_table(title, columns, rows))
        return tables

    def batched(self, task: Task) -> list[tuple[Task, Line]]:
        """EPIG and ParBaLS EPIG in batches, with as many labels of the same data and seeds."""
        seeds = {seed for of_seed in task.records.values() for seed in of_seed}
        same = (task.dataset, task.positive, task.budget.initial, task.budget.total)
        return [
            (other, line)
            for other in self.tasks
            if other.budget.batch > 1
            and (other.dataset, other.positive, other.budget.initial, other.budget.total) == same
            for line in (SEQUENTIAL, OURS)
            if seeds & other.records.get(line, {}).keys()
        ]

    def _curve(self, task: Task, line: Line, title: str, seeds: set[int] | None = None) -> Curve:
        """With ``seeds``, a faint line of another budget whose runs start from the same labels."""
        values = task.values(line, self.metric.key, seeds)
        return Curve(title, line.strategy, task.budget.n_labels, values, faint=seeds is not None)


def _group(task: Task) -> str:
    if task.is_one_vs_all:
        return ONE_VS_ALL
    return ONE_AT_A_TIME if task.budget.batch == 1 else f"Budget {task.budget.spelt}"


def _file_name(text: str, others: Sequence[Picture]) -> str:
    """Classes that differ in other characters alone are numbered: no picture replaces another."""
    name = "-".join("".join(c if c.isalnum() or c in "+." else " " for c in text).lower().split())
    taken = {picture.name for picture in others}
    names = (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _beside(row: Agreement) -> tuple[str, ...]:
    paper = f"{row.paper[0]:.2f} ± {row.paper[1]:.2f}"
    if row.ours is None:
        return MISSING, paper, MISSING, MISSING, "not run", MISSING
    p = MISSING if row.p is None else "< 0.001" if row.p < 0.001 else f"{row.p:.3f}"
    agrees = "yes" if row.agrees else "no"
    return number(row.ours), paper, f"{row.difference:+.2f}", f"{row.room:.2f}", agrees, p


def _saved(labels: LabelsSaved) -> str:
    return f"{labels.saved:+.0f} of {labels.reference:.0f}" if labels.reached else "not reached"
