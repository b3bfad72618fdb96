"""Packed datasets of the study `paper.results.packed`: the same rows, labels and runs."""

import json
import sys

import numpy as np
import pytest
from parbals_bench.datasets.base import one_vs_all
from parbals_bench.datasets.table import load_dataset
from repository import ROOT

SUITE = """
name = "small"

[settings]
inference = "ep"

[[grid]]
datasets = ["cifar10:*", "airline"]
budgets = ["20+1x5", "10+1x5"]
strategies = ["random", "margin"]
seeds = 3
"""


@pytest.fixture
def packed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "studies")
    from paper.results import packed as study

    return study


def sorted_by_class(folder):
    """Cached features of CIFAR-10 whose rows are in the order of their classes."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for part, n in (("train", 100), ("test", 40)):
        y = np.sort(np.arange(n) % 10).astype(np.uint8)
        rows = generator.standard_normal((n, 12)) + 2.0 * np.eye(10, 12)[y]
        np.save(folder / f"y_{part}.npy", y)
        np.save(folder / f"small_{part}_f16.npy", rows.astype(np.float16))


@pytest.mark.parametrize("name", ["cifar10", "iwildcam", "airline"])
def test_packed_data_are_those_of_the_files(packed, publish, tmp_path, name):
    """Rows that are shuffled, with a target source of their own, and of zeros and ones."""
    if name == "cifar10":
        sorted_by_class(tmp_path / name)
    else:
        publish(name)
    packed.pack(tmp_path, tmp_path, name)
    data = load_dataset(name, tmp_path / name)
    unpacked = packed.packed_data(tmp_path, f"{name}:*")
    for field in ("X_pool", "y_pool", "X_target_source", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(unpacked, field), getattr(data, field))
    assert unpacked.X_pool.dtype == data.X_pool.dtype
    assert unpacked.notes == data.notes


def test_one_class_against_the_others(packed, tmp_path):
    sorted_by_class(tmp_path / "cifar10")
    packed.pack(tmp_path, tmp_path, "cifar10")
    data = load_dataset("cifar10", tmp_path / "cifar10")
    for reference, positive in (("cifar10", "airplane"), ("cifar10:ship", "ship")):
        unpacked = packed.packed_data(tmp_path, reference)
        assert unpacked.positive == positive
        np.testing.assert_array_equal(unpacked.y_pool, one_vs_all(data, positive).y_pool)


def test_runs_that_match_are_those_of_the_files(packed, publish, tmp_path, monkeypatch):
    from parbals_bench.run.records import read_line
    from parbals_bench.run.single import run_one

    sorted_by_class(tmp_path / "cifar10")
    publish("airline")
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE, "utf-8")

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["packed", str(suite), *map(str, options)])
        assert packed.main() == 0

    pack = tmp_path / "pack"
    call("--pack", pack, "--data", tmp_path, "--datasets", "cifar10:*,airline")
    results = tmp_path / "results"
    rows = ("--datasets", "cifar10:*", "--budgets", "20+1x5", "--first-seed", 1)
    call("--folder", pack, *rows, "--strategies", "margin", "--out", results)
    (file,) = (results / "runs").glob("*.jsonl")
    lines = file.read_text("utf-8").splitlines()
    assert [json.loads(line)["run"]["seed"] for line in lines] == [1, 2]
    record = read_line(lines[0])
    data = load_dataset("cifar10", tmp_path / "cifar10")
    run = record.run
    again = run_one(data, run.budget, run.strategy, seed=run.seed, settings=run.settings)
    assert again.chosen == record.chosen
    assert again.metrics == record.metrics
    assert again.data == record.data
