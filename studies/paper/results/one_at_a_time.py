"""What do batches of 20 cost, compared with EPIG refitted after every label?

    python studies paper.results.one_at_a_time
    python studies paper.results.one_at_a_time my-results

Final test accuracy in points, paired by seed (both start from the same labels): mean ± 95 %
half-width for every dataset, and of the seeds' means over datasets.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from lib.folders import DOCS
from parbals_bench.report.stats import mean_interval
from parbals_bench.report.tasks import SEQUENTIAL, Line, Task, collect
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.records import RunRecord

RESULTS = DOCS / "results" / "closed-form.tar.xz"
BATCHED = (SEQUENTIAL, Line("parbals-epig"))
Gaps = list[tuple[Task, np.ndarray]]
"""By task: what batches end with less what the reference does, (seeds,) in points."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", nargs="?", type=Path, default=RESULTS, help="a results folder or packed file"
    )
    for line, gaps in batch_gaps(ResultsFiles(parser.parse_args().results).records()).items():
        for task, gap in gaps:
            _print(line.title, task.title, gap)
        if len({len(gap) for _, gap in gaps}) == 1:
            _print(line.title, "all datasets", np.mean([gap for _, gap in gaps], axis=0))


def batch_gaps(records: Iterable[RunRecord]) -> dict[Line, Gaps]:
    """By line of the batches; the reference is EPIG one label at a time, with as many labels."""
    records = list(records)
    alone = next(x.run for x in records if (x.run.budget.batch, x.run.strategy) == (1, "epig"))
    tasks = collect(records, alone.settings)
    gaps: dict[Line, Gaps] = {line: [] for line in BATCHED}
    for task in tasks:
        if task.budget.batch > 1 or SEQUENTIAL not in task.records:
            continue
        for batched in (x for x in tasks if x.budget.batch > 1 and _labels(x) == _labels(task)):
            for line in BATCHED:
                seeds = task.records[SEQUENTIAL].keys() & batched.records.get(line, {}).keys()
                if seeds:
                    after = batched.final(line, seeds=seeds)
                    before = task.final(SEQUENTIAL, seeds=seeds)
                    gaps[line].append((task, 100.0 * (after - before)))
    return gaps


def _labels(task: Task) -> tuple[str, str | None, int, int]:
    return task.dataset, task.positive, task.budget.initial, task.budget.total


def _print(name: str, dataset: str, gap: np.ndarray) -> None:
    interval = mean_interval(gap)
    n = f"{interval.n} seeds"
    print(f"{name:14} {dataset:14} {interval.mean:+.2f} ± {interval.half_width:.2f}, {n}")
