"""A suite's own metric: recorded after every round, and shown like the others."""

import re
from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import SMALL_SETTINGS, TINY_SUITE, tiny_data
from click.testing import CliRunner
from parbals.errors import InputError
from parbals_bench.cli.bench import bench
from parbals_bench.report.page import build_page
from parbals_bench.report.results import Results
from parbals_bench.run.grid import read_suite
from parbals_bench.run.metrics import METRICS, OWN_METRIC, measure
from parbals_bench.run.single import run_one
from parbals_bench.run.spec import Settings

MISS_COST = """
def miss_cost(probs, truth):
    wrong = probs.argmax(axis=1) != truth
    return (wrong * (1 + 9 * (truth == 1))).mean()


def text(probs, truth):
    return "cheap"


def infinite(probs, truth):
    return float("inf")
"""


@pytest.fixture
def costs(tmp_path, monkeypatch):
    """A module of a user."""
    (tmp_path / "costs.py").write_text(MISS_COST)
    monkeypatch.syspath_prepend(tmp_path)


def test_it_is_what_the_function_returns(costs):
    probs = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
    truth = np.array([0, 1, 0])
    assert measure(probs, truth, "costs:miss_cost")[OWN_METRIC] == pytest.approx((10 + 1) / 3)
    assert OWN_METRIC not in measure(probs, truth)


@pytest.mark.parametrize(
    ("name", "message"), [("costs:text", "failed"), ("costs:infinite", "not finite")]
)
def test_what_is_no_number_is_refused(costs, name, message):
    with pytest.raises(InputError, match=message):
        measure(np.array([[0.9, 0.1]]), np.array([0]), name)


def test_a_run_records_it_and_a_report_shows_it(costs):
    settings = replace(SMALL_SETTINGS, metric="costs:miss_cost", metric_is_loss=True)
    records = tuple(
        run_one(tiny_data(2), "20+1x3", "random", seed=seed, settings=settings) for seed in (0, 1)
    )
    assert len(records[0].metrics[OWN_METRIC]) == 2
    suite = replace(read_suite(TINY_SUITE), settings=settings)
    results = Results(suite, records)
    assert results.metrics[OWN_METRIC].best == "lowest"
    page = build_page(results)
    assert re.search(r'<label for="by-own">Miss cost</label>', page)
    without = Results(read_suite(TINY_SUITE), records)
    assert list(without.metrics) == list(METRICS)


def test_older_keys_stay_valid_and_other_metrics_are_other_runs():
    assert "metric" not in Settings().as_dict()
    own = TINY_SUITE.replace("{n_samples", '{metric = "costs:miss_cost", n_samples')
    keys = {run.key for text in (TINY_SUITE, own) for run in read_suite(text).runs}
    assert len(keys) == 2 * len(read_suite(TINY_SUITE).runs)
    with pytest.raises(InputError, match="in quotes"):
        Settings(metric=3)
    with pytest.raises(InputError, match="true or false"):
        Settings(metric_is_loss="yes")


def test_a_metric_that_cannot_be_loaded_is_refused_before_anything_is_written(tmp_path):
    text = TINY_SUITE.replace("{n_samples", '{metric = "no_such_module:cost", n_samples')
    (tmp_path / "mine.toml").write_text(text)
    arguments = ["run", "--suite", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(bench, arguments)
    assert "cannot be loaded" in str(result.exception)
    assert not (tmp_path / "out").exists()
