"""The experiment: fair, complete, reproducible."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from parbals.demo import run
from parbals.demo.run import METRICS, Settings, run_demo
from parbals.errors import InputError, PosteriorWarning


def test_every_strategy_runs_under_every_seed(result, settings):
    assert [(t.seed, t.strategy) for t in result.traces] == [
        (s, name) for s in (0, 1) for name in settings.strategies
    ]
    for trace in result.traces:
        assert trace.chosen.shape == (2, 3)
        for name in METRICS:
            assert trace.metrics[name].shape == (3,)
            assert np.all((trace.metrics[name] >= 0) & (trace.metrics[name] <= 1))
    assert result.metric("accuracy", "epig").shape == (2, 3)
    np.testing.assert_array_equal(settings.n_labels, [12, 15, 18])
    assert settings.n_batches == 12


def test_no_message_is_labelled_twice(result):
    for trace in (t for t in result.traces if t.seed == 0):
        labelled = np.concatenate([result.first.initial, trace.chosen.ravel()])
        assert len(np.unique(labelled)) == len(labelled)


def test_strategies_share_their_start(result):
    for seed in (0, 1):
        starts = {t.metrics["accuracy"][0] for t in result.traces if t.seed == seed}
        assert len(starts) == 1


def test_first_batches_are_those_of_the_first_seed(result, settings):
    for trace in result.traces[: len(settings.strategies)]:
        np.testing.assert_array_equal(result.first.batches[trace.strategy].indices, trace.chosen[0])


def test_the_judge_measures_the_same_items_whoever_chose_them(result):
    for strategy, judged in result.first.judged.items():
        assert sorted(judged.indices) == [0, 1, 2]
        assert np.all(judged.initial_scores >= 0)
        similarity = result.first.similarity[strategy]
        np.testing.assert_allclose(np.diag(similarity), 1.0)
        np.testing.assert_allclose(similarity, similarity.T)


def test_copies_of_a_message_are_judged_redundant():
    """Ten copies of one message tell far less together than one by one."""
    rng = np.random.default_rng(0)
    X, X_target = rng.standard_normal((12, 3)), rng.standard_normal((50, 3))
    y = np.where(X[:, 0] > 0, "spam", "ham")
    judged = run.judge_batch(np.tile(X[:1] + 0.5, (8, 1)), X_target, X, y, 64)
    assert judged.scores.sum() < 0.8 * judged.initial_scores.sum()
    assert judged.redundancy[-1] > 0.2


def test_a_run_is_reproducible(settings):
    small = replace(settings, n_seeds=1, n_rounds=1)
    first, second = run_demo(small), run_demo(small)
    for one, other in zip(first.traces, second.traces, strict=True):
        np.testing.assert_array_equal(one.chosen, other.chosen)
        for name in METRICS:
            np.testing.assert_array_equal(one.metrics[name], other.metrics[name])
    for strategy in small.strategies:
        np.testing.assert_array_equal(
            first.first.judged[strategy].scores, second.first.judged[strategy].scores
        )


def test_progress_is_told_once_a_batch(settings):
    told = []
    run_demo(replace(settings, n_seeds=1, n_rounds=2, strategies=("random", "epig")), told.append)
    assert told == ["random", "random", "epig", "epig"]


def test_warnings_of_the_model_reach_the_reader(settings, monkeypatch):
    fit = run._fit

    def doubtful_fit(*args):
        warnings.warn("The particles have not settled.", PosteriorWarning, stacklevel=1)
        return fit(*args)

    monkeypatch.setattr(run, "_fit", doubtful_fit)
    small = replace(settings, n_seeds=1, n_rounds=1, strategies=("random",))
    assert run_demo(small).notes == ("The particles have not settled.",)


@pytest.mark.parametrize("name", ["n_seeds", "n_initial", "batch_size", "n_rounds"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(InputError, match=f"{name} is 0"):
        Settings(**{name: 0})


def test_a_pool_that_is_too_small_is_refused():
    with pytest.raises(InputError, match="messages in the pool"):
        run_demo(Settings(batch_size=2_000, n_rounds=2))
