"""What the paper published, beside what we found."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isnan

from parbals.bench.report.collect import Line, Setting
from parbals.bench.report.stats import Interval, mean_interval, welch_p_of
from parbals.bench.spec import Budget

__all__ = ["Agreement", "agreements", "paper_figures"]

_SEEDS = 10
"""What each of the paper's figures is the mean of."""
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
        """The half-width of the paper's interval and of ours together; one seed has no interval,
        and adds nothing."""
        ours = 0.0 if self.ours is None or isnan(self.ours.half_width) else self.ours.half_width
        return self.paper[1] + ours

    @property
    def agrees(self) -> bool | None:
        """Our mean lies within the published interval widened by ours."""
        return None if self.difference is None else abs(self.difference) <= self.room + _ROUNDING

    @property
    def p(self) -> float | None:
        """Of Welch's test that both means are of the same thing; one seed has no spread to test
        with."""
        if self.ours is None or self.ours.n < 2:
            return None
        return welch_p_of(self.ours, Interval(*self.paper, _SEEDS))


@cache
def paper_figures() -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """What the paper published: (budget, strategy, dataset) → mean and half-width."""
    table = tomllib.loads(
        resources.files("parbals.bench").joinpath("paper.toml").read_text("utf-8")
    )
    return {
        (table["budget"], strategy, dataset): (float(pair[0]), float(pair[1]))
        for strategy, row in table.items()
        if isinstance(row, dict)
        for dataset, pair in row.items()
    }


def agreements(settings: Sequence[Setting]) -> list[Agreement]:
    """Every figure of the paper, by dataset; those of datasets that we did not run at all are left
    out."""
    found = {(str(s.budget), s.dataset): s for s in settings if s.is_default}
    known = {setting.dataset for setting in settings}
    rows = []
    for (budget, strategy, dataset), paper in paper_figures().items():
        setting, line = found.get((budget, dataset)), Line(strategy)
        ours = None
        if setting is not None and line in setting.records:
            ours = mean_interval(100.0 * setting.final(line, "accuracy"))
        if dataset in known:
            rows.append(Agreement(Budget.parse(budget), dataset, line, paper, ours))
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    return sorted(rows, key=lambda row: datasets.index(row.dataset))
