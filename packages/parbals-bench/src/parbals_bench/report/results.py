"""The contents of a report: tables, figures and counts of a suite's records, computed lazily."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from matplotlib.figure import Figure

from parbals_bench.datasets.table import dataset_title
from parbals_bench.report.paper import Agreement, agreements
from parbals_bench.report.plots import Curve, curve_figure, savings_figure
from parbals_bench.report.stats import LabelsSaved, LeaderboardRow, labels_saved, leaderboard
from parbals_bench.report.tables import (
    MISSING,
    Table,
    ablation_tables,
    curve_tables,
    main_tables,
    one_vs_all_tables,
    text_table,
)
from parbals_bench.report.tasks import KINDS, OURS, SEQUENTIAL, Line, Task, collect
from parbals_bench.run.grid import Suite
from parbals_bench.run.metrics import METRICS, OWN_METRIC, Metric, describe_own_metric
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import ALL_CLASSES, Run

__all__ = ["ONE_AT_A_TIME", "ONE_VS_ALL", "SAVED", "Picture", "Results", "Saving"]

ONE_AT_A_TIME = "One label at a time"
ONE_VS_ALL = "Each class against the others"
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
    """Records of a suite, in its order, evaluated by one metric."""

    suite: Suite
    records: tuple[RunRecord, ...]
    metric: Metric = METRICS["accuracy"]

    @cached_property
    def tasks(self) -> list[Task]:
        return collect(self.records, self.suite.settings)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """All metrics by key; the suite's own where every record has it."""
        settings = self.suite.settings
        if not settings.metric or any(OWN_METRIC not in record.metrics for record in self.records):
            return dict(METRICS)
        metric = describe_own_metric(settings.metric, lower_is_better=settings.metric_is_loss)
        return {**METRICS, OWN_METRIC: metric}

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
            for name, metric in self.metrics.items()
        }

    @cached_property
    def curve_tables(self) -> dict[str, list[Table]]:
        """By metric: for every budget the means over the learning curves."""
        return {name: curve_tables(self.tasks, metric) for name, metric in self.metrics.items()}

    @cached_property
    def leaderboards(self) -> dict[str, list[LeaderboardRow]]:
        """By kind of table, over all datasets × budgets: how often each was best and at the top."""
        boards = {}
        for kind, title in KINDS.items():
            comparisons = [
                {line.title: standing for line, standing in standings.items()}
                for standings in (task.standings(self.metric, kind) for task in self.main_tasks)
            ]
            boards[title] = leaderboard(comparisons)
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
                    curve = sign * task.values(line, self.metric.key).mean(axis=0)
                    reference = sign * task.values(random, self.metric.key).mean(axis=0)
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
                for batched_task, line in beside:
                    title = f"{line.title}, {batched_task.budget.batch} at a time"
                    curves.append(self._curve(batched_task, line, title, seeds))
                positive = "all classes" if task.positive == ALL_CLASSES else task.positive or ""
                name = _file_name(f"{task.dataset} {positive} {task.budget} {kind_title}", pictures)
                picture = Picture(
                    group=_group(task),
                    name=name,
                    description=f"{self.metric.title} on {task.title} against the number of "
                    f"labels, {kind_title}, budget {task.budget}",
                    title=f"{task.title}  ·  {task.budget.spelt}",
                    curves=tuple(curves),
                )
                pictures.append(picture)
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
        """How often a strategy is best, among the top, and significantly worse than the best."""
        return [
            text_table(
                f"Leaderboard, {title}",
                (f"{self.metric.best} mean", "among the top", "surely behind (Holm)"),
                {
                    row.name: (
                        str(row.n_best),
                        f"{row.n_top} of {row.n_settings}",
                        str(row.n_significantly_worse),
                    )
                    for row in board
                },
            )
            for title, board in self.leaderboards.items()
        ]

    @cached_property
    def savings_tables(self) -> list[Table]:
        """Labels fewer than Random at equal quality: a table per budget, strategies by datasets."""
        tables = []
        for budget in dict.fromkeys(saving.task.budget for saving in self.savings):
            savings = [saving for saving in self.savings if saving.task.budget == budget]
            columns = list(dict.fromkeys(saving.task.title for saving in savings))
            texts = {
                (saving.line.title, saving.task.title): _saved(saving.labels) for saving in savings
            }
            rows = {
                name: [texts.get((name, column), MISSING) for column in columns]
                for name in dict.fromkeys(saving.line.title for saving in savings)
            }
            title = f"Labels saved against Random, budget {budget.spelt}"
            tables.append(text_table(title, columns, rows))
        return tables

    def batched(self, task: Task) -> list[tuple[Task, Line]]:
        """EPIG and ParBaLS EPIG in batches, with as many labels of the same data and seeds."""
        seeds = {seed for of_seed in task.records.values() for seed in of_seed}
        return [
            (batched_task, line)
            for batched_task in self.tasks
            if batched_task.budget.batch > 1
            and _labels_and_data(batched_task) == _labels_and_data(task)
            for line in (SEQUENTIAL, OURS)
            if seeds & batched_task.records.get(line, {}).keys()
        ]

    def _curve(self, task: Task, line: Line, title: str, seeds: set[int] | None = None) -> Curve:
        """With ``seeds``, a faint line of another budget whose runs start from the same labels."""
        values = task.values(line, self.metric.key, seeds)
        return Curve(title, line.strategy, task.budget.n_labels, values, faint=seeds is not None)


def _labels_and_data(task: Task) -> tuple[str, str | None, int, int]:
    return task.dataset, task.positive, task.budget.initial, task.budget.total


def _group(task: Task) -> str:
    if task.is_one_vs_all:
        return ONE_VS_ALL
    return ONE_AT_A_TIME if task.budget.batch == 1 else f"Budget {task.budget.spelt}"


def _file_name(text: str, pictures: Sequence[Picture]) -> str:
    """A file name that no picture has yet; names that differ only in punctuation are numbered."""
    name = "-".join("".join(c if c.isalnum() or c in "+." else " " for c in text).lower().split())
    used_names = {picture.name for picture in pictures}
    candidates = (name, *(f"{name}-{n}" for n in range(2, len(used_names) + 3)))
    return next(candidate for candidate in candidates if candidate not in used_names)


def _saved(labels: LabelsSaved) -> str:
    return f"{labels.saved:+.0f} of {labels.reference:.0f}" if labels.reached else "not reached"
