"""Labels that ParBaLS EPIG saves against each rival at equal accuracy.

    python studies paper.results.savings           # from the published records of the learnt prior
    python studies paper.results.savings mine      # from a folder of `parbals bench run`

A setting is a dataset with a budget. The share saved is 1 - (labels that ParBaLS needs) / (labels
that the rival needs) for the highest accuracy that both mean curves reach. The median over settings
has a 95 % percentile interval of a bootstrap that draws settings, and seeds within each setting;
both strategies keep the same seeds. Fewer than five settings have no interval. Not every rival was
run in every setting: rows are compared with each other by the settings that all of them have.
"Against Random" is the same with Random as the reference.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from lib.folders import DOCS
from paper.results.run import LEARNT, OURS, RANDOM, accuracies
from parbals_bench.report.stats import labels_saved
from parbals_bench.report.tasks import Line, Task, collect
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.spec import ALL_CLASSES

PUBLISHED = DOCS / "results" / "learnt.tar.xz"
RIVALS = tuple(map(Line, ("random", "confidence", "margin", "badge", "bald", "epig")))
N_RESAMPLES = 2000
FEWEST_SETTINGS = 5
GROUPS: dict[str, Callable[[Task], bool]] = {
    "settings that all have": lambda task: all(line in task.records for line in (OURS, *RIVALS)),
    "all settings": lambda task: True,
    "two classes": lambda task: task.positive != ALL_CLASSES,
    "more classes": lambda task: task.positive == ALL_CLASSES,
}
Curves = tuple[tuple[int, ...], np.ndarray, np.ndarray]
"""Numbers of labels; (seeds, rounds + 1) of a strategy and of its reference."""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PUBLISHED
    tasks = collect(ResultsFiles(folder).records(), LEARNT)
    against_rivals = {line.title: (OURS, line) for line in RIVALS}
    print("\n".join(table("ParBaLS EPIG against", tasks, against_rivals)), end="\n\n")
    against_random = {line.title: (line, RANDOM) for line in (OURS, *RIVALS[1:])}
    print("\n".join(table("against Random", tasks, against_random)))


def table(
    title: str, tasks: Sequence[Task], pairs: Mapping[str, tuple[Line, Line]]
) -> Iterator[str]:
    """A row for every pair (strategy, reference), a column for every group of settings."""
    yield f"| {title} | {' | '.join(GROUPS)} |"
    yield "| --- |" + " ---: |" * len(GROUPS)
    for name, (line, reference) in pairs.items():
        cells = []
        for belongs in GROUPS.values():
            group = [task for task in tasks if belongs(task)]
            cells.append(summary(curves_of(group, line, reference)))
        yield f"| {name} | {' | '.join(cells)} |"


def curves_of(tasks: Sequence[Task], line: Line, reference: Line) -> list[Curves]:
    """The curves of every setting that has both."""
    curves = []
    for task in tasks:
        if line in task.records and reference in task.records:
            theirs, ours = accuracies((task, reference), (task, line))
            curves.append((task.budget.n_labels, ours, theirs))
    return curves


def summary(curves: Sequence[Curves]) -> str:
    """Median share saved, its interval and the number of settings."""
    if not curves:
        return "–"
    median = np.median([share(*setting) for setting in curves])
    if len(curves) < FEWEST_SETTINGS:
        return f"{percent(median)} ({len(curves)} settings)"
    low, high = interval(curves)
    return f"{percent(median)} ({percent(low)} to {percent(high)}; {len(curves)} settings)"


def percent(value: float) -> str:
    """ "18 %"; a rounded zero has no sign."""
    return f"{round(100.0 * value) + 0} %"


def share(n_labels: Sequence[int], ours: np.ndarray, theirs: np.ndarray) -> float:
    return labels_saved(n_labels, ours.mean(axis=0), theirs.mean(axis=0)).share


def interval(curves: Sequence[Curves]) -> tuple[float, float]:
    """95 % percentile interval of the median, over resampled settings and seeds."""
    generator = np.random.default_rng(0)
    medians = []
    for _ in range(N_RESAMPLES):
        shares = []
        for index in generator.integers(len(curves), size=len(curves)):
            n_labels, ours, theirs = curves[index]
            seeds = generator.integers(len(ours), size=len(ours))
            shares.append(share(n_labels, ours[seeds], theirs[seeds]))
        medians.append(np.median(shares))
    low, high = np.percentile(medians, (2.5, 97.5))
    return float(low), float(high)


if __name__ == "__main__":
    main()
