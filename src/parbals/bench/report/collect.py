"""Records put in order: settings, and in each the values of every strategy over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from parbals.bench.records import RunRecord
from parbals.bench.report.names import (
    ALL_CLASSES,
    BAYESIAN,
    HEURISTICS,
    dataset_name,
    strategy_name,
)
from parbals.bench.spec import Budget, Settings

__all__ = ["Line", "Setting", "collect"]

_ORDER = tuple(dict.fromkeys([*HEURISTICS[:-2], *BAYESIAN]))


@dataclass(frozen=True)
class Line:
    """A strategy with its options, as one line of a table or a picture."""

    strategy: str
    variant: str = ""

    @property
    def name(self) -> str:
        return strategy_name(self.strategy, self.variant)


@dataclass
class Setting:
    """A dataset with a budget: what algorithms are compared in."""

    dataset: str
    positive: str | None
    budget: Budget
    records: dict[Line, dict[int, RunRecord]] = field(default_factory=dict)  # by line and seed

    @property
    def name(self) -> str:
        return dataset_name(self.dataset, self.positive)

    @property
    def is_one_vs_all(self) -> bool:
        """A class that the suite names is set against all others; all classes at once ("*") are no
        such thing."""
        return self.positive not in (None, ALL_CLASSES)

    @property
    def is_default(self) -> bool:
        """The dataset's own two classes, or its first against the others: what the paper's figures
        are of."""
        return self.positive is None

    def values(
        self, line: Line, metric: str = "accuracy", seeds: Iterable[int] | None = None
    ) -> np.ndarray:
        """(seeds, rounds + 1) of a metric; seeds ascending."""
        of_seed = self.records[line]
        wanted = sorted(of_seed if seeds is None else set(seeds) & of_seed.keys())
        return np.array([of_seed[seed].metrics[metric] for seed in wanted])

    def final(
        self, line: Line, metric: str = "accuracy", seeds: Iterable[int] | None = None
    ) -> np.ndarray:
        """(seeds,) of a metric after the last round."""
        return self.values(line, metric, seeds)[:, -1]

    def lines(self, strategies: Sequence[str] | None = None) -> list[Line]:
        """What is compared, in the tables' order: each strategy's baseline, or all its variants if
        it has none here.

        Only the given strategies, if any are.
        """
        wanted = [x for x in self.records if strategies is None or x.strategy in strategies]
        return [x for x in wanted if not x.variant or Line(x.strategy) not in self.records]

    def random_beside(self, line: Line) -> Line | None:
        """What a line is measured against: Random with the same settings where it was run, else any
        Random."""
        same = Line("random", line.variant)
        return (
            same
            if same in self.records
            else next((x for x in self.records if x.strategy == "random"), None)
        )


def collect(records: Iterable[RunRecord], baseline: Settings | None = None) -> list[Setting]:
    """Settings in the order of their first record; lines in the order of the paper's tables."""
    baseline = baseline or Settings()
    settings: dict[tuple[str, str | None, Budget], Setting] = {}
    for record in records:
        run = record.run
        setting = settings.setdefault(
            (run.dataset, run.positive, run.budget), Setting(run.dataset, run.positive, run.budget)
        )
        line = Line(run.strategy, run.variant(baseline))
        setting.records.setdefault(line, {})[run.seed] = record
    for setting in settings.values():
        setting.records = dict(sorted(setting.records.items(), key=lambda item: _rank(item[0])))
    return list(settings.values())


def _rank(line: Line) -> tuple[int, str, int, str]:
    known = _ORDER.index(line.strategy) if line.strategy in _ORDER else len(_ORDER)
    return known, line.strategy, len(line.variant), line.variant
