"""The experiment: the benchmark's runs, and first batches that are all evaluated alike."""

from dataclasses import replace

import numpy as np
import pytest
from parbals.types import Batch
from parbals_bench.datasets.sms_spam import load
from parbals_bench.demo.run import STRATEGIES, FirstBatch, evaluate_batch
from parbals_bench.run.single import run_one
from parbals_bench.run.spec import Settings


def test_every_strategy_runs_under_every_seed_as_in_the_benchmark(demo):
    assert [*demo.records] == list(STRATEGIES)
    assert all([run.run.seed for run in runs] == [0, 1] for runs in demo.records.values())
    assert demo.values("epig", "accuracy").shape == (2, 2)
    assert demo.budget.n_labels == (12, 15)
    settings = Settings(n_targets=40, loss="error", inference="auto", prior_scale="auto")
    again = run_one(load(features="words", seed=1), "12+1x3", "epig", seed=1, settings=settings)
    there = demo.records["epig"][1]
    assert replace(again, seconds={}) == replace(there, seconds={})


def test_first_batches_are_those_of_the_first_seed(demo):
    for name, batch in demo.first.items():
        assert batch.rows.tolist() == list(demo.records[name][0].chosen[0])
        assert set(batch.rows.tolist()).isdisjoint(demo.records[name][0].initial)


def test_all_first_batches_are_evaluated_alike(demo):
    for batch in demo.first.values():
        assert sorted(batch.evaluation.indices) == [0, 1, 2]
        assert np.all(batch.evaluation.initial_scores >= 0)
        assert batch.joint == pytest.approx(batch.evaluation.scores.sum())


def test_copies_of_a_message_are_found_redundant():
    """Three copies of one message tell far less together than one by one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 64))
    X_target = rng.standard_normal((40, 64))
    X[:, 3:] *= 1e-3  # as few directions matter, in the shape of the demo's own data
    X_target[:, 3:] *= 1e-3
    evaluation = evaluate_batch(
        np.tile(X[:1] + 0.5, (3, 1)), X_target, X, (X[:, 0] > 0).astype(int)
    )
    assert evaluation.scores.sum() < 0.9 * evaluation.initial_scores.sum()


@pytest.mark.parametrize(("alone", "joint", "share"), [(4, 1, 0.75), (1, 1.01, 0.0), (0, 0, 0.0)])
def test_redundancy_is_the_share_said_twice(alone, joint, share):
    one = np.zeros(1, int)
    evaluation = Batch(one, np.array([joint]), np.array([alone]), one, "epig", one, 1)
    assert FirstBatch(one, evaluation).redundancy == pytest.approx(share)


def test_progress_counts_the_runs(demo, stages):
    assert [stage[1:3] for stage in stages[:-1]] == [(done, 6) for done in range(6)]
