"""Class shares of the target set that differ from the pool's: found, said, and seldom by chance."""

from dataclasses import replace

import numpy as np
import parbals
import pytest
from dose import full_count
from parbals.learner import reporting
from parbals.learner.evaluation.class_shift import (
    ClassShift,
    compare_class_shares,
    label_shift_shares,
)
from parbals.learner.evaluation.report import Estimate, Report
from parbals.wording import percent
from scipy.optimize import minimize_scalar

CENTRES = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])


def draw(generator, shares, n):
    """Rows whose classes are normal around their centres: only the shares can differ."""
    y = generator.choice(len(shares), n, p=shares)
    return CENTRES[y] + generator.standard_normal((n, 3)), y


def make_learner(seed, target_shares, strategy="random", n_labels=80, task="classes"):
    generator = np.random.default_rng(seed)
    X, y = draw(generator, [0.6, 0.3, 0.1], 800)
    X_target, _ = draw(generator, target_shares, 300)
    learner = parbals.ActiveLearner(
        X, [0, 1, 2], X_target=X_target, strategy=strategy, task=task, random_state=seed
    )
    items = np.arange(n_labels) if strategy == "random" else learner.ask(n_labels)
    learner.tell(items, y[items])
    return learner


def test_shares_under_label_shift_are_those_of_maximum_likelihood():
    """By a search over the one share of two classes; rows have the densities 2x and 2(1 - x)."""
    generator = np.random.default_rng(0)
    is_first = generator.random(400) < 0.7
    x = np.where(is_first, np.sqrt(generator.random(400)), 1.0 - np.sqrt(generator.random(400)))
    pool_shares = np.array([0.2, 0.8])
    probs = np.column_stack([0.2 * x, 0.8 * (1.0 - x)])
    probs /= probs.sum(axis=1, keepdims=True)

    def minus_log_likelihood(share):
        return -np.log(share * 2.0 * x + (1.0 - share) * 2.0 * (1.0 - x)).sum()

    best = minimize_scalar(minus_log_likelihood, bounds=(0.0, 1.0), method="bounded").x
    shares = label_shift_shares(pool_shares, probs)
    assert shares[0] == pytest.approx(best, abs=1e-3)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == pytest.approx(0.7, abs=0.08)


def test_right_predictions_give_the_shares_under_covariate_shift():
    """Rows of one class are rarer, p(y|x) is known: the interval has the mean prediction."""
    generator = np.random.default_rng(0)
    pool = generator.dirichlet([4.0, 2.0, 2.0], size=1_000)
    target = generator.dirichlet([2.0, 2.0, 4.0], size=400)
    shares = compare_class_shares(pool, target, ["a", "b", "c"])
    assert shares.is_notable
    assert shares.label in ("a", "c")
    mean = target.mean(axis=0)["abc".index(shares.label)]
    assert shares.target.low < mean < shares.target.high


def test_few_rows_and_certain_predictions_say_nothing():
    probs = np.tile([1.0, 0.0], (60, 1))
    assert compare_class_shares(probs[:40], probs, "ab") is None
    assert compare_class_shares(probs, probs[:40], "ab") is None
    assert not compare_class_shares(probs, probs, "ab").is_notable


@pytest.mark.parametrize("n_classes", [2, 5])
def test_chance_seldom_looks_like_other_shares(n_classes):
    """A false alarm in at most 1 %, up to two Monte-Carlo errors, whatever the model predicts."""
    n_runs = 600
    n_alarms = 0
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        concentration = generator.uniform(0.05, 2.0, n_classes)
        pool = generator.dirichlet(concentration, size=500)
        target = generator.dirichlet(concentration, size=100)
        n_alarms += compare_class_shares(pool, target, range(n_classes)).is_notable
    assert n_alarms / n_runs <= 0.01 + 2.0 * np.sqrt(0.01 * 0.99 / n_runs)


def class_shift_of(learner):
    """As the report has it, without the rest of the report."""
    state = learner.state
    model = learner.fitted()
    pool_state = replace(state, setup=replace(state.setup, target=None))
    samples = [reporting._samples(each, model) for each in (state, pool_state)]
    return reporting._class_shift(state, model, samples[0], pool_state, samples[1])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["random", "margin"])
def test_a_learner_seldom_calls_equal_shares_different(strategy):
    """A false alarm in at most 5 %, up to two Monte-Carlo errors; also with chosen labels."""
    n_runs = full_count(200, least=40)
    alarms = [
        class_shift_of(make_learner(seed, [0.6, 0.3, 0.1], strategy)).is_notable
        for seed in range(n_runs)
    ]
    assert np.mean(alarms) <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / n_runs)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["random", "margin"])
def test_a_learner_finds_other_shares_and_holds_them_in_its_interval(strategy):
    """A class with half in place of a tenth: found in 95 %, and its share held in 85 %."""
    n_runs = full_count(60, least=20)
    n_alarms = 0
    n_held = 0
    for seed in range(n_runs):
        shares = class_shift_of(make_learner(seed, [0.3, 0.2, 0.5], strategy))
        if shares.is_notable and shares.label == 2:
            n_alarms += 1
            n_held += shares.target.low <= 0.5 <= shares.target.high
    assert n_alarms / n_runs >= 0.95 - 2.0 * np.sqrt(0.95 * 0.05 / n_runs)
    assert n_held / n_alarms >= 0.85 - 2.0 * np.sqrt(0.85 * 0.15 / n_alarms)


def test_a_report_says_so_and_keeps_it():
    report = make_learner(0, [0.3, 0.2, 0.5]).report(1)
    assert report.class_shift.sentence in report.warnings
    assert (report.expected_error.low, report.expected_error.high) == (0.0, 1.0)
    first_lines = str(report).split(report.class_shift.sentence)[0]
    assert f"{percent(report.expected_error.mean)} (no interval)" in first_lines
    assert f"expected log loss: {report.expected_log_loss.mean:.3g};" in first_lines
    equal = make_learner(0, [0.6, 0.3, 0.1]).report(1)
    assert 0.0 < equal.expected_error.high < 1.0
    assert "2 is " in report.class_shift.sentence
    stored = Report.from_dict(report.to_dict())
    assert stored.class_shift.target == report.class_shift.target
    same = make_learner(0, [0.6, 0.3, 0.1]).report(1)
    assert same.class_shift.sentence not in same.warnings


def test_only_items_with_one_class_are_compared():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 3))
    alone = parbals.ActiveLearner(X, [0, 1], random_state=0)
    numbers = parbals.ActiveLearner(X, X_target=X[:80], task="regression", random_state=0)
    several = parbals.ActiveLearner(
        X, ["a", "b"], X_target=X[:80], task="many-labels", random_state=0
    )
    alone.tell(range(20), (X[:20, 0] > 0).astype(int))
    numbers.tell(range(20), X[:20, 0])
    several.tell(range(20), [["a"] if row[0] > 0 else ["b"] for row in X[:20]])
    for learner in (alone, numbers, several):
        assert learner.report(1).class_shift is None


def test_ratings_are_compared_like_classes():
    assert make_learner(0, [0.3, 0.2, 0.5], task="ordinal").report(1).class_shift is not None


def test_a_class_is_named_with_its_interval():
    shares = ClassShift("spam", 0.1, Estimate(0.4, 0.32, 0.5), p_value=0.001)
    assert "spam is 32 % to 50 % of it" in shares.sentence
    assert "10 % of the pool" in shares.sentence
