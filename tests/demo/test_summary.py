"""Sentences that claim what the numbers support, and no more."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from parbals.demo.run import METRICS, Trace
from parbals.demo.summary import (
    Worth,
    curve_sentences,
    difference,
    half_width,
    standard_error,
    worth_of,
    worth_sentences,
)


def with_finals(result, **finals):
    """The same result with given final accuracies, strategy by strategy, seed by seed."""
    traces = []
    for trace in result.traces:
        values = {name: trace.metrics[name].copy() for name in METRICS}
        values["accuracy"][-1] = finals[trace.strategy.replace("-", "_")][trace.seed]
        traces.append(Trace(trace.strategy, trace.seed, trace.chosen, values, trace.seconds))
    return replace(result, traces=tuple(traces))


def test_the_interval_is_students():
    values = np.array([90.0, 92.0, 97.0])
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert np.isnan(half_width(values[:1]))
    assert standard_error(values[:1, None]) == pytest.approx(0.0)


def test_a_clear_difference_is_called_clear(result):
    clear = with_finals(result, random=[0.80, 0.80], epig=[0.85, 0.85], parbals_epig=[0.95, 0.9501])
    text = " ".join(curve_sentences(clear))
    assert "15.0 points above Random" in text
    assert "clear difference" in text
    assert text.index("ParBaLS 95.0%") < text.index("Top-B EPIG 85.0%") < text.index("Random 80.0%")


def test_an_unclear_difference_is_called_unclear(result):
    unclear = with_finals(result, random=[0.90, 0.95], epig=[0.95, 0.90], parbals_epig=[0.96, 0.90])
    assert difference(unclear, "accuracy", "parbals-epig", "random").is_clear is False
    assert "cannot tell from no difference" in " ".join(curve_sentences(unclear))


def test_losing_is_said_as_plainly_as_winning(result):
    lost = with_finals(result, random=[0.95, 0.95], epig=[0.90, 0.90], parbals_epig=[0.85, 0.8501])
    sentences = curve_sentences(lost)
    assert "10.0 points below Random" in sentences[1]
    assert "5.0 points below Top-B EPIG" in sentences[2]


def test_one_seed_proves_nothing(result):
    single = replace(result, settings=replace(result.settings, n_seeds=1), traces=result.traces[:3])
    assert all(
        "a single run proves nothing" in sentence for sentence in curve_sentences(single)[1:]
    )


def test_redundancy_is_the_share_said_twice():
    assert Worth(
        alone=40.0, joint=10.0, similarity=0.5, n_near_duplicates=3
    ).redundancy == pytest.approx(0.75)
    assert (
        Worth(alone=10.0, joint=10.1, similarity=0.0, n_near_duplicates=0).redundancy_text == "0%"
    )
    assert Worth(alone=0.0, joint=0.0, similarity=0.0, n_near_duplicates=0).redundancy == 0.0


def test_worth_adds_up_the_judged_batch(result):
    for strategy, judged in result.first.judged.items():
        worth = worth_of(result.first, strategy)
        assert worth.joint == pytest.approx(1_000 * judged.scores.sum())
        assert worth.alone == pytest.approx(1_000 * judged.initial_scores.sum())
    assert len(worth_sentences(result.first)) == len(result.first.batches) + 1
