"""The paper's published figures compared with ours."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isnan

from parbals_bench.report.stats import Interval, mean_interval, welch
from parbals_bench.report.tasks import Line, Task
from parbals_bench.run.spec import Budget

__all__ = ["Agreement", "agreements", "paper_figures"]

_N_PAPER_SEEDS = 10
"""Each of the paper's figures is the mean of this many seeds."""
_ROUNDING = 1e-9
"""Figures with two decimals that lie exactly on the edge agree, whatever binary makes of them."""


@dataclass(frozen=True)
class Agreement:
    """A published figure, in per cent, and ours; ``ours`` is ``None`` where we ran nothing."""

    budget: Budget
    dataset: str
    line: Line
    paper: tuple[float, float]  # mean and half-width
    ours: Interval | None

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours.mean - self.paper[0]

    @property
    def room(self) -> float:
        """Both half-widths together; one seed has no interval, and adds nothing."""
        ours = 0.0 if self.ours is None or isnan(self.ours.half_width) else self.ours.half_width
        return self.paper[1] + ours

    @property
    def agrees(self) -> bool | None:
        """Our mean lies within the published interval widened by ours."""
        return None if self.difference is None else abs(self.difference) <= self.room + _ROUNDING

    @property
    def p(self) -> float | None:
        """p of Welch's test that both means are equal; None for a single seed."""
        if self.ours is None or self.ours.n < 2:
            return None
        return welch(self.ours, Interval(*self.paper, _N_PAPER_SEEDS))


@cache
def paper_figures() -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """Published figures: (budget, strategy, dataset) → mean and half-width."""
    file = resources.files("parbals_bench.report").joinpath("paper.toml")
    figures = tomllib.loads(file.read_text("utf-8"))
    return {
        (figures["budget"], strategy, dataset): (float(pair[0]), float(pair[1]))
        for strategy, row in figures.items()
        if isinstance(row, dict)
        for dataset, pair in row.items()
    }


def agreements(tasks: Sequence[Task]) -> list[Agreement]:
    """Every figure of the paper for a dataset that we ran, by dataset."""
    defaults = {(str(task.budget), task.dataset): task for task in tasks if task.is_default}
    rows = []
    for dataset in dict.fromkeys(dataset for _, _, dataset in paper_figures()):
        if not any(task.dataset == dataset for task in tasks):
            continue
        for (budget, strategy, of_dataset), paper in paper_figures().items():
            if of_dataset == dataset:
                task = defaults.get((budget, dataset))
                line = Line(strategy)
                ours = None
                if task is not None and line in task.records:
                    ours = mean_interval(100.0 * task.final(line))
                rows.append(Agreement(Budget.parse(budget), dataset, line, paper, ours))
    return rows
