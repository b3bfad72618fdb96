"""What do batches of 20 cost, compared with EPIG refitted after every label?

    python studies paper.results.one_at_a_time
    python studies paper.results.one_at_a_time my-results

Final test accuracy in points, paired by seed (both start from the same labels): mean ± 95 %
half-width for every dataset, and of the seeds' means over datasets.
"""

import argparse
from pathlib import Path

import numpy as np
from lib.folders import DOCS
from parbals_bench.report.page import read_results
from parbals_bench.report.stats import mean_interval
from parbals_bench.report.tasks import SEQUENTIAL
from parbals_bench.run.folder import ResultsFiles

RESULTS = DOCS / "results" / "closed-form.tar.xz"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", nargs="?", type=Path, default=RESULTS, help="a results folder or packed file"
    )
    results = read_results(ResultsFiles(parser.parse_args().results))
    for line, gaps in batch_gaps(results).items():
        for task, gap in gaps:
            _print(line.title, task.title, gap)
        if len({len(gap) for _, gap in gaps}) == 1:
            _print(line.title, "all datasets", np.mean([gap for _, gap in gaps], axis=0))


def batch_gaps(results):
    """What batches end with less what EPIG ends with one label at a time, at as many labels.

    By line of the batches: tasks, each with (seeds,) differences over the seeds that both have;
    those started from the same labels.
    """
    gaps = {}
    key = results.metric.key
    for task in results.tasks:
        if task.budget.batch == 1 and SEQUENTIAL in task.records:
            for batched_task, line in results.batched(task):
                seeds = task.records[SEQUENTIAL].keys() & batched_task.records[line].keys()
                if seeds:
                    gap = batched_task.final(line, key, seeds) - task.final(SEQUENTIAL, key, seeds)
                    gaps.setdefault(line, []).append((task, gap))
    return gaps


def _print(name, dataset, gap):
    interval = mean_interval(100.0 * gap)
    n = f"{interval.n} seeds"
    print(f"{name:14} {dataset:14} {interval.mean:+.2f} ± {interval.half_width:.2f}, {n}")
