"""Measurements that begin at any time: failure rates in whole loops of asking and telling."""

import math

import numpy as np
import parbals
import pytest
from dose import full_count
from parbals.errors import InputError
from parbals.learner.evaluation.audit import _expected_losses_of_pool, current_look
from sklearn.ensemble import RandomForestClassifier

N_POOL = 600
N_TEST = 300
DELTA = 0.05
FOREST = RandomForestClassifier(20, random_state=0)


def make_pool(rng):
    """Rows and labels; a strategy that looks for the boundary finds the noisy ones."""
    X = rng.standard_normal((N_POOL, 3))
    y = (X[:, 0] + 0.7 * rng.standard_normal(N_POOL) > 0).astype(int)
    return X, y


def label(active, y, n, leave_out=()):
    """Ask for ``n`` items by the learner's strategy, test items mixed in, and tell their labels."""
    for _ in range(n // 10):
        batch = active.choose(10, leave_out=leave_out).indices
        active.tell(batch, y[batch])


def late_limits(seed, strategy, model=None):
    """The upper limits of a sample kept after 40 labels, and the true errors, at two looks.

    Test items that nobody may choose are drawn with the sample, of the same items: for the model
    both are random items that it has not seen, so its error on them is what the sample measures.
    """
    rng = np.random.default_rng(seed)
    X, y = make_pool(rng)
    active = parbals.ActiveLearner(X, [0, 1], strategy=strategy, random_state=seed, model=model)
    active.tell(np.arange(10), y[:10])
    label(active, y, 30)
    active.measure(40, keep=True)
    left = np.setdiff1d(np.arange(N_POOL), [*active.labelled, *active.audit])
    test = rng.choice(left, N_TEST, replace=False)
    limits = []
    for n in (80, 40):
        label(active, y, n, leave_out=test)
        look, training, _ = current_look(active.state)
        if look is not None:
            model_then = active.state.model_of(training)
            decisions = active.setup.decide(model_then, active.setup.predictions(model_then, test))
            limits.append((active.report().certified, float(np.mean(decisions != y[test]))))
    return limits


@pytest.mark.parametrize(
    ("strategy", "model", "n_runs"),
    [
        ("confidence", None, 5),
        pytest.param("confidence", None, full_count(300), marks=pytest.mark.slow),
        pytest.param("random", None, full_count(200), marks=pytest.mark.slow),
        pytest.param("margin", FOREST, full_count(100), marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
def test_a_sample_kept_late_fails_no_more_often_than_it_says(strategy, model, n_runs):
    n_failures = 0
    for seed in range(n_runs):
        limits = late_limits(seed, strategy, model)
        assert limits, "there was a look"
        n_failures += any(high < error for high, error in limits)
    monte_carlo_error = math.sqrt(DELTA * (1 - DELTA) / n_runs)
    # The error on 300 test items varies as well, by about 0.02, which adds failures of its own.
    assert n_failures / n_runs <= DELTA + 2 * monte_carlo_error


@pytest.mark.parametrize("n_runs", [6, pytest.param(full_count(400), marks=pytest.mark.slow)])
def test_samples_between_further_labels_fail_no_more_often_than_they_say(n_runs):
    """Three measurements of three models in one loop; their labels train the next model."""
    n_failures = 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        X, y = make_pool(rng)
        active = parbals.ActiveLearner(X, [0, 1], strategy="confidence", random_state=seed)
        active.tell(np.arange(10), y[:10])
        fails = False
        for _ in range(3):
            label(active, y, 20)
            free = np.setdiff1d(np.arange(N_POOL), active.labelled)
            error = np.mean(np.array(active.predict(X[free])) != y[free])
            sample = active.measure(30)
            active.tell(sample.items, y[sample.positions])
            fails |= active.certified(sample).error.high < error - 1e-12
        n_failures += fails
    assert n_failures / n_runs <= DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / n_runs)


def test_a_kept_sample_is_drawn_from_what_has_no_label_and_trains_nothing(tmp_path):
    X, y = make_pool(np.random.default_rng(0))
    active = parbals.ActiveLearner(X, [0, 1], strategy="confidence", random_state=0)
    active.tell(np.arange(30), y[:30])
    assert active.measure(20, keep=True) is None
    assert not set(active.audit) & set(range(30))
    assert active.setup.audit_excluded.tolist() == list(range(30))
    with pytest.raises(InputError, match="A sample of 20 items is kept already"):
        active.measure(20, keep=True)
    before = active.predict_proba(X)
    active.tell(active.audit, y[active.audit])
    np.testing.assert_array_equal(active.predict_proba(X), before)
    active.save(tmp_path / "a.parbals")
    loaded = parbals.ActiveLearner.load(tmp_path / "a.parbals")
    assert loaded.setup.audit_excluded.tolist() == list(range(30))
    assert loaded.report().certified == active.report().certified


def test_labels_from_before_the_draw_have_no_part_in_the_expected_error():
    """The mean is over the items that the sample was drawn from, without the sample."""
    X, y = make_pool(np.random.default_rng(1))
    active = parbals.ActiveLearner(X, [0, 1], strategy="random", random_state=0)
    active.tell(np.arange(30), y[:30])
    active.measure(20, keep=True)
    active.tell(active.audit, y[active.audit])
    later = np.setdiff1d(np.arange(30, N_POOL), active.audit)[:50]
    active.tell(later, y[later])
    training = np.append(np.arange(30), later)
    model = active.state.model_of(training)
    expected = _expected_losses_of_pool(active.state, model, training)
    assert len(expected) == N_POOL - 30 - 20
    _, probs = model.gaussian.leave_one_out()
    np.testing.assert_allclose(expected[-50:], 1.0 - probs[30:].max(axis=1), rtol=1e-9)
