"""Cells of the page's tables: final accuracies by seed, with intervals, and the paper's beside."""

from collections.abc import Iterable

from parbals_bench.report.paper import paper_figures
from parbals_bench.report.stats import Interval, mean_interval
from parbals_bench.run.records import RunRecord

__all__ = [
    "BUDGET",
    "N_SEEDS",
    "Finals",
    "of_seeds",
    "paper_cell",
    "paper_interval",
    "with_interval",
]

BUDGET = "100+10x20"
N_SEEDS = 10
Finals = dict[str, dict[int, float]]
"""By strategy and seed: final accuracies in %."""


def of_seeds(records: Iterable[RunRecord], reference: str) -> Finals:
    """Seeds ascending; a first class goes without a name, too."""
    names = (reference, reference.partition(":")[0])
    finals: Finals = {}
    for record in sorted(records, key=lambda record: record.run.seed):
        run = record.run
        if (str(run.budget), run.settings.n_universes) == (BUDGET, 10) and run.reference in names:
            accuracy = 100.0 * record.metrics["accuracy"][-1]
            finals.setdefault(run.strategy, {})[run.seed] = accuracy
    return finals


def with_interval(values: Iterable[float], usual: int = N_SEEDS) -> str:
    values = list(values)
    if not values:
        return ""
    interval = mean_interval(values)
    if interval.n == 1:
        return f"{interval.mean:.2f} (1 seed)"
    seeds = "" if interval.n == usual else f" ({interval.n} seeds)"
    return f"{interval.mean:.2f} ± {interval.half_width:.2f}{seeds}"


def paper_interval(strategy: str, dataset: str) -> Interval | None:
    figure = paper_figures().get((BUDGET, strategy, dataset))
    return None if figure is None else Interval(*figure, N_SEEDS)


def paper_cell(strategy: str, dataset: str) -> str:
    theirs = paper_interval(strategy, dataset)
    return "" if theirs is None else f"{theirs.mean:.2f} ± {theirs.half_width:.2f}"
