"""Records grouped by task (dataset and budget), strategy and seed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from parbals.errors import InputError
from parbals.strategies.table import (
    DEFAULT_STRATEGY,
    RANDOM_STRATEGY,
    STRATEGIES,
    Strategy,
    strategy_named,
)

from parbals_bench.datasets.table import dataset_title
from parbals_bench.report.stats import Standing, compare
from parbals_bench.run.metrics import Metric
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import ALL_CLASSES, PAPER, Budget, Settings

__all__ = [
    "KINDS",
    "ONE_BY_ONE",
    "OURS",
    "SEQUENTIAL",
    "Line",
    "Task",
    "collect",
    "compared",
    "of_kind",
    "rank",
    "table_row",
    "task_title",
]

KINDS = {"bayesian": "Bayesian methods", "heuristics": "ParBaLS and the heuristics"}
"""The paper's two kinds of table, as the table of strategies calls them and as readers do."""
ONE_BY_ONE = "epig"
"""What the default is without looking at the batch: it scores every item by itself."""


@dataclass(frozen=True)
class Line:
    """A strategy with its options, as one line of a table or a picture."""

    strategy: str
    variant: str = ""

    @property
    def title(self) -> str:
        row = table_row(self.strategy)
        name = (row and row.title) or self.strategy
        return f"{name} ({self.variant})" if self.variant else name


OURS = Line(DEFAULT_STRATEGY)
SEQUENTIAL = Line(ONE_BY_ONE)
"""What ParBaLS EPIG is with one label at a time: the comparison that shows what batches cost."""


@dataclass
class Task:
    """A dataset with a budget: what strategies are compared on. Readers know it as a setting."""

    dataset: str
    positive: str | None
    budget: Budget
    records: dict[Line, dict[int, RunRecord]] = field(default_factory=dict)  # by line and seed

    @property
    def title(self) -> str:
        return task_title(self.dataset, self.positive)

    @property
    def is_one_vs_all(self) -> bool:
        """The suite names a class, which is set against all others."""
        return self.positive not in (None, ALL_CLASSES)

    @property
    def is_default(self) -> bool:
        """The dataset's own two classes, or its first against the others, as in the paper."""
        return self.positive is None

    def values(
        self, line: Line, metric: str = "accuracy", seeds: Iterable[int] | None = None
    ) -> np.ndarray:
        """(seeds, rounds + 1) of a metric; seeds ascending."""
        records = self.records[line]
        common_seeds = sorted(records if seeds is None else set(seeds) & records.keys())
        return np.array([records[seed].metrics[metric] for seed in common_seeds])

    def final(
        self, line: Line, metric: str = "accuracy", seeds: Iterable[int] | None = None
    ) -> np.ndarray:
        """(seeds,) of a metric after the last round."""
        return self.values(line, metric, seeds)[:, -1]

    def curve_mean(
        self, line: Line, metric: str = "accuracy", seeds: Iterable[int] | None = None
    ) -> np.ndarray:
        """(seeds,) the area under the learning curve over its width, by trapezoids of one batch."""
        values = self.values(line, metric, seeds)
        midpoints = (values[:, 1:] + values[:, :-1]) / 2.0
        return np.asarray(midpoints.mean(axis=1))

    def lines(self, kind: str | None = None) -> list[Line]:
        """Each strategy's baseline, or all its variants if it has none; of a kind or of all."""
        return [
            line
            for line in self.records
            if (not line.variant or Line(line.strategy) not in self.records)
            and (kind is None or of_kind(line.strategy, kind))
        ]

    def random_beside(self, line: Line) -> Line | None:
        """The reference of a line: Random with the line's settings, else any Random."""
        random_line = Line(RANDOM_STRATEGY, line.variant)
        if random_line in self.records:
            return random_line
        return next((line for line in self.records if line.strategy == RANDOM_STRATEGY), None)

    def standings(self, metric: Metric, kind: str | None = None) -> dict[Line, Standing]:
        """Everyone's standing in the metric's unit among the lines of a kind, or among all."""
        return compared({line: self.final(line, metric.key) for line in self.lines(kind)}, metric)


def compared(values: Mapping[Line, np.ndarray], metric: Metric) -> dict[Line, Standing]:
    """Standings by values (seeds,) of a metric, in its unit."""
    scaled = {line: metric.scale * numbers for line, numbers in values.items()}
    return compare(scaled, lower_is_better=metric.lower_is_better)


def collect(records: Iterable[RunRecord], baseline: Settings = PAPER) -> list[Task]:
    """Tasks in the order of their first record, lines in the order of the strategies' table."""
    tasks: dict[tuple[str, str | None, Budget], Task] = {}
    for record in records:
        run = record.run
        name = (run.dataset, run.positive, run.budget)
        line = Line(run.strategy, run.variant(baseline))
        tasks.setdefault(name, Task(*name)).records.setdefault(line, {})[run.seed] = record
    for task in tasks.values():
        task.records = {line: task.records[line] for line in sorted(task.records, key=rank)}
    return list(tasks.values())


def of_kind(strategy: str, kind: str) -> bool:
    """Whether a strategy stands in tables of a kind; those without one meet the heuristics."""
    row = table_row(strategy)
    return kind in ((row and row.tables) or ("heuristics",))


@cache
def table_row(strategy: str) -> Strategy | None:
    """A strategy's row of the table; None for one whose package is not installed here."""
    try:
        return strategy_named(strategy)
    except InputError:
        return None


def rank(line: Line) -> tuple[int, str, list[float | str]]:
    """A key that sorts lines as the table of strategies does, and variants by their numbers."""
    texts = re.split(r"(\d+(?:\.\d+)?)", line.variant)  # words and numbers alternate
    values = [float(text) if index % 2 else text for index, text in enumerate(texts)]
    return (*_table_order(line.strategy), values)


def _table_order(strategy: str) -> tuple[int, str]:
    names = list(STRATEGIES)
    index = names.index(strategy) if strategy in names else len(names)
    return index, strategy


def task_title(dataset: str, positive: str | None = None) -> str:
    """ "digits" → "Digits", with a class "Digits: 3", with all of them "Digits, all classes"."""
    title = dataset_title(dataset)
    if positive == ALL_CLASSES:
        return f"{title}, all classes"
    return f"{title}: {positive}" if positive else title
