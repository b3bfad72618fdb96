"""What the tests of the benchmark share; worker processes import it too."""

import os
import signal
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from parbals.errors import InputError
from parbals_bench.datasets.base import Data
from parbals_bench.run.executors import Outcome, attempt
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import read_suite
from parbals_bench.run.metrics import METRICS
from parbals_bench.run.records import RunRecord, write_line
from parbals_bench.run.spec import Budget, Run, Settings

TINY = {"n_samples": 32, "n_candidates": 40, "n_targets": 20, "n_universes": 2}
SMALL_SETTINGS = Settings(**TINY)
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
OWN_DATA = {
    "X": np.eye(7, dtype="f4")[np.arange(100) % 7],
    "y": np.where(np.arange(100) % 7 < 3, "no", "yes"),
}
OWN_SUITE = (
    TINY_SUITE.replace("breast-cancer", "mine").replace("parbals-epig", "margin")
    + '[data.mine]\npath = "mine.npz"\n'
)


def tiny_data(n_classes=2):
    """60 pool, 40 target and 20 test points with 7 columns, as many as ``OWN_DATA`` has.

    So all tests, and the processes they start, run the same few compiled programs.
    """
    generator = np.random.default_rng(0)
    y = generator.integers(n_classes, size=120)
    X = generator.standard_normal((120, 7), np.float32) + 2.0 * np.eye(n_classes, 7, dtype="f4")[y]
    classes = tuple("abcd"[:n_classes])
    return Data("tiny", X[:60], y[:60], X[60:100], X[100:], y[100:], classes)


def load_tiny(reference):
    if reference == "nowhere":
        raise InputError("There is no dataset 'nowhere'.")
    return tiny_data()


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


def results_of(records, metric="accuracy"):
    """What a report would say of records, in the paper's settings."""
    from parbals_bench.report.results import Results  # loads Matplotlib, which no worker needs

    suite = read_suite(TINY_SUITE.replace("settings =", "#"))
    return Results(suite, tuple(records), METRICS[metric])


def folder_of(path, records, suite=TINY_SUITE):
    """A results folder that holds the records."""
    folder = ResultsFolder(path)
    folder.save_suite(suite)
    files = {}
    for record in records:
        files.setdefault(record.run.cell, []).append(f"{write_line(record)}\n")
    for cell, lines in files.items():
        (folder.runs / f"{cell}.jsonl").write_text("".join(lines), "utf-8")
    return folder


def without_seconds(folder):
    """What must be the same whenever and wherever the runs of a folder are computed."""

    def same(record):
        # JAX is noted where the process has loaded it, which tests before may have done.
        versions = {k: v for k, v in record.versions.items() if k not in ("jax", "device")}
        return replace(record, seconds={}, versions=versions)

    return {record.key: same(record) for record in folder.records()}


class InProcess:
    """An executor: one run after the other, in this process."""

    def results(self, runs, loader):
        unloadable = {}
        for run in runs:
            if run.reference in unloadable:
                yield Outcome(run, None, unloadable[run.reference], no_data=True)
                continue
            outcome = attempt(run, loader)
            if outcome.no_data:
                unloadable[run.reference] = outcome.error
            yield outcome


class Canned:
    """Loads the data but has no model: every run has a record written by hand."""

    def __init__(self, data="digest"):
        self.computed = []
        self.data = data

    def results(self, runs, loader):
        for run in runs:
            self.computed.append(run)
            loader(run.reference)
            yield Outcome(run, write_line(record_of(run, data=self.data)))


def load_or_die(reference, marker):
    """Kills its own process the first time, as the operating system does when memory runs out."""
    marker = Path(marker)
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return load_tiny(reference)


def always_die(reference):
    os.kill(os.getpid(), signal.SIGKILL)


def load_when_told(reference, started, go_on):
    """Says that it was asked, then waits for a file: what happens meanwhile happens mid-run."""
    Path(started).touch()
    while not Path(go_on).exists():
        time.sleep(0.02)
    return load_tiny(reference)


def never_load(reference):
    raise ZeroDivisionError("nobody expected this")


def pack(folder, file):
    """As ``tar -cJf FILE -C FOLDER suite.toml runs``."""
    with tarfile.open(file, "w:xz") as archive:
        for name in ("suite.toml", "runs"):
            archive.add(folder.path / name, name)
