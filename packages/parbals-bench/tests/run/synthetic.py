"""A whole experiment, made up: two budgets, ablations, one-vs-all, one label at a time.

Run it to look at the report:

python tests/bench/synthetic.py FOLDER
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_helpers import folder_of, record_of
from parbals_bench.report.page import read_results, write_report
from parbals_bench.run.grid import read_suite

SUITE = """
name = "made-up"
title = "A made-up experiment"

[[grid]]
datasets = ["airline", "ag-news"]
budgets = ["100+10x20"]
strategies = [
    "random", "confidence", "coreset", "badge", "glister", "galaxy", "bald", "power-bald", "epig",
    "power-epig", "parbals-map-epig", "parbals-epig",
]
seeds = 6

[[grid]]
datasets = ["airline"]
budgets = ["20+10x20"]
strategies = ["random", "confidence", "bald", "parbals-epig"]
seeds = 6

[[grid]]
datasets = ["airline"]
budgets = ["100+10x20"]
strategies = ["parbals-epig"]
n_universes = [5, 20]
seeds = 5

[[grid]]
datasets = ["airline"]
budgets = ["100+10x20"]
strategies = ["parbals-epig"]
n_samples = [100, 1600]
seeds = 5

[[grid]]
datasets = ["ag-news:Sports", "ag-news:Sci/Tech"]
budgets = ["100+10x20"]
strategies = ["random", "confidence", "epig", "parbals-epig"]
seeds = 5

[[grid]]
datasets = ["airline"]
budgets = ["100+200x1"]
strategies = ["random", "confidence", "bald", "epig"]
seeds = 5
"""
_ENDS = {"airline": 88.0, "ag-news": 85.5}
_GAINS = {
    "random": -0.8,
    "confidence": 1.4,
    "coreset": -3.0,
    "badge": -0.3,
    "glister": -0.6,
    "galaxy": 0.9,
    "bald": -1.6,
    "power-bald": 0.2,
    "epig": 1.1,
    "power-epig": 0.9,
    "parbals-map-epig": 1.3,
    "parbals-epig": 1.6,
}


def made_up(run):
    """A curve that rises quickly and then slowly, to the strategy's end, with noise by seed."""
    generator = np.random.default_rng([len(run.key), *run.key.encode()])
    labels = np.array(run.budget.n_labels, float)
    end = _ENDS[run.dataset] + _GAINS[run.strategy] + generator.normal(0, 0.35)
    end -= 1.5 * (run.positive is not None)
    end += 0.15 * np.log2(run.settings.n_universes / 10) + 0.1 * np.log2(
        run.settings.n_samples / 400
    )
    accuracy = (end - 14.0 * (300.0 / labels) ** 0.6 + 14.0 * (300.0 / labels[-1]) ** 0.6) / 100
    accuracy += generator.normal(0, 0.003, len(labels)) * np.linspace(1, 0.3, len(labels))
    seconds = {"parbals-epig": 3.0, "parbals-map-epig": 0.8}.get(
        run.strategy, 0.2
    ) * generator.gamma(50, 1 / 50)
    metrics = {
        "accuracy": accuracy,
        "log_loss": 2.2 * (1 - accuracy),
        "calibration_error": 0.3 * (1 - accuracy),
        "f1": accuracy - 0.05,
        "balanced_accuracy": accuracy - 0.02,
    }
    return replace(
        record_of(run, seconds=round(float(seconds), 4)),
        metrics={name: tuple(values.round(7).tolist()) for name, values in metrics.items()},
    )


def write_folder(path):
    return folder_of(path, [made_up(run) for run in read_suite(SUITE).runs], SUITE)


if __name__ == "__main__":
    write_report(read_results(write_folder(sys.argv[1])), Path(sys.argv[1]) / "report")
