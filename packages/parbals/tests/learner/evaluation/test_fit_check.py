"""A report has no interval of the expected error where labels show that no line divides classes."""

import numpy as np
import parbals
import pytest
from parbals.learner.evaluation.fit_check import misfit_sentence
from parbals.types import Estimate

N = 600


def rings(generator):
    """One ring inside the other."""
    y = generator.integers(0, 2, N)
    radius = 1.0 + y + 0.25 * generator.standard_normal(N)
    angle = generator.uniform(0.0, 2.0 * np.pi, N)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def line(generator):
    """Classes on both sides of a line, with columns of very different scales."""
    X = generator.standard_normal((N, 5))
    y = (X[:, 0] + 0.5 * generator.standard_normal(N) > 0).astype(int)
    return X * [1.0, 1e3, 1e-3, 1.0, 1.0], y


def report_of(make, strategy, n, seed):
    X, y = make(np.random.default_rng(seed))
    learner = parbals.ActiveLearner(X, [0, 1], strategy=strategy, random_state=seed)
    while len(learner.labelled) < n:
        batch = learner.ask(25)
        learner.tell(batch, y[batch].tolist())
    return learner.report(1), X, y, learner


@pytest.mark.parametrize(("strategy", "sign"), [("margin", "nearest"), ("random", "guesses")])
def test_rings_have_no_interval(strategy, sign):
    """The model expects few errors where a strategy selected labels, and half is wrong."""
    report, X, y, learner = report_of(rings, strategy, 75, 1)
    assert np.mean(learner.predict(X) != y) > 0.3
    assert (report.expected_error.low, report.expected_error.high) == (0.0, 1.0)
    (warning,) = [text for text in report.warnings if "No line may divide" in text]
    assert sign in warning
    assert "(no interval)" in str(report)


@pytest.mark.parametrize("strategy", ["margin", "random"])
def test_a_line_keeps_its_interval(strategy):
    for seed in range(4):
        report, *_ = report_of(line, strategy, 50, seed)
        assert report.expected_error.high < 0.6
        assert not any("No line may divide" in text for text in report.warnings)


def test_with_a_kept_sample_the_labels_of_random_items_tell():
    X, y = rings(np.random.default_rng(1))
    learner = parbals.ActiveLearner(X, [0, 1], strategy="margin", audit=60, random_state=1)
    learner.tell(learner.audit, y[learner.audit].tolist())
    for _ in range(3):
        batch = learner.ask(25)
        learner.tell(batch, y[batch].tolist())
    assert not any("No line may divide" in text for text in learner.report(1).warnings)


def test_the_interval_also_holds_the_error_of_items_without_a_label():
    """After many labels near the boundary, the others are easier than the pool."""
    n_held = 0
    for seed in range(6):
        report, X, y, learner = report_of(line, "margin", 200, seed)
        unlabelled = np.setdiff1d(np.arange(N), learner.labelled)
        error = np.mean(np.array(learner.predict(X[unlabelled])) != y[unlabelled])
        n_held += report.expected_error.low <= error <= report.expected_error.high
    assert n_held >= 5


def test_a_column_that_is_constant_does_not_count():
    rows = np.column_stack([np.arange(4.0), np.full(4, 0.1) + 1e-17 * np.arange(4)])
    labels = np.array([0, 0, 1, 1])
    error = Estimate(0.1, 0.05, 0.2)
    for column in (rows[:, 1], np.zeros(4)):
        table = np.column_stack([rows[:, 0], column])
        targets = (table, labels)
        assert misfit_sentence(1.0, error, (table, labels, labels), targets) is None


def test_neighbours_that_predict_labels_worse_than_the_model_say_nothing():
    rows = np.arange(4.0)[:, None]
    labels = np.array([0, 1, 0, 1])
    targets = (rows, 1 - labels)
    error = Estimate(0.1, 0.05, 0.2)
    assert misfit_sentence(1.0, error, (rows, labels, labels), targets) is None
    assert misfit_sentence(1.0, error, (rows, labels, 1 - labels), targets) is not None
