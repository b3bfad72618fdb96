"""What the tests of the benchmark share; worker processes import it too."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parbals.bench.executors import Outcome
from parbals.bench.loading import load_data
from parbals.bench.records import METRICS, RunRecord, write_line
from parbals.bench.spec import Budget, Run, Settings

TINY = {"n_samples": 32, "n_candidates": 40, "n_targets": 20, "n_universes": 2}
TINY_SUITE = """
name = "tiny"
title = "A tiny suite"
settings = {n_samples = 32, n_candidates = 40, n_targets = 20, n_universes = 2}
[[grid]]
datasets = ["breast-cancer"]
budgets = ["10+2x3"]
strategies = ["random", "confidence", "parbals-epig"]
seeds = 3
"""


@dataclass(frozen=True)
class TinyData:
    name: str
    classes: tuple[str, ...]
    X_pool: np.ndarray
    y_pool: np.ndarray
    X_target_source: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def tiny_data(n_classes=2):
    generator = np.random.default_rng(0)
    y = generator.integers(n_classes, size=140)
    X = generator.standard_normal((140, 4)) + 2.0 * np.eye(n_classes, 4)[y]
    return TinyData("tiny", tuple("abcd"[:n_classes]), X[:60], y[:60], X[60:100], X[100:], y[100:])


def record_of(run, final=0.9, seconds=0.5, start=0.7, data="digest"):
    """A record written by hand: a straight line from ``start`` to ``final``."""
    curve = tuple(np.linspace(start, final, run.budget.rounds + 1).round(7).tolist())
    n = run.budget.rounds
    stages = {
        "fit": (seconds,) * (n + 1),
        "predict": (seconds,) * (n + 1),
        "select": (seconds,) * n,
    }
    chosen = tuple((i,) * run.budget.batch for i in range(n))
    return RunRecord(
        run, dict.fromkeys(METRICS, curve), (0, 1), chosen, stages, {"parbals": "0"}, data
    )


def runs_of(dataset="airline", budget="100+10x20", strategy="epig", seeds=range(3), **more):
    return [Run(dataset, Budget.parse(budget), strategy, seed, **more) for seed in seeds]


def records_of(values, dataset="airline", budget="100+10x20", **more):
    """``values``: strategy → final accuracy of every seed."""
    return [
        record_of(run, final)
        for strategy, finals in values.items()
        for run, final in zip(
            runs_of(dataset, budget, strategy, range(len(finals)), **more), finals, strict=True
        )
    ]


class Canned:
    """Gives every run a record written by hand, and counts them; no model, so that files can be
    tested thoroughly."""

    n_parallel = 1

    def __init__(self, data="digest"):
        self.computed, self.data = [], data

    def results(self, runs, loader):
        for run in runs:
            self.computed.append(run)
            yield Outcome(run, write_line(record_of(run, data=self.data)), seconds=1.0)


def load_or_die(reference, marker):
    """Kills its own process the first time, as the operating system does when memory runs out."""
    marker = Path(marker)
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return load_data(reference)


def always_die(reference):
    os.kill(os.getpid(), signal.SIGKILL)


SMALL_SETTINGS = Settings(**TINY)


def load_when_told(reference, started, go_on):
    """Says that it was asked, and then waits for a file: what happens meanwhile happens in the
    middle of a run."""
    Path(started).touch()
    while not Path(go_on).exists():
        time.sleep(0.02)
    return load_data(reference)


def never_load(reference):
    raise ZeroDivisionError("nobody expected this")
