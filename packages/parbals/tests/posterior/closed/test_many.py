"""Thousands of labels: their sweeps give the usual posterior, from any start, in any order."""

import numpy as np
import parbals
import pytest
from parbals.posterior import inference
from parbals.posterior.closed import classes, ep, many_labels, moments, prior
from parbals.posterior.closed.labels import label_keys
from parbals.posterior.closed.prior import learn_prior, random_subset
from parbals.posterior.closed.whitening import PoolMoments

N = 300
D = 12
RNG = np.random.default_rng(0)
POOL = RNG.standard_normal((N + 50, D)) * np.arange(1, D + 1) ** -0.5
X = POOL[:N]
X_TEST = POOL[N:]


def labels(n_classes):
    logits = 2.0 * X @ np.random.default_rng(1).standard_normal((D, n_classes))
    return (logits + np.random.default_rng(2).gumbel(size=logits.shape)).argmax(axis=1)


@pytest.fixture
def many(monkeypatch):
    """Two hundred labels count as many, and the prior is learnt from a hundred."""

    def switch(on=True):
        for module in (moments, ep, classes, inference):
            monkeypatch.setattr(module, "MANY_LABELS", 200 if on else 10**9)
        monkeypatch.setattr(prior, "_MAX_LABELS", 100)

    switch()
    return switch


def model(y, rows=X, **options):
    prior_before = {"prior_scale": 1.0, "classes": np.unique(y), "random_state": 0} | options
    return parbals.BayesianLogisticRegression(**prior_before).fit(rows, y)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_sweeps_for_many_labels_agree_with_the_usual_ones(many, n_classes):
    y = labels(n_classes)
    many_labels = model(y)
    many(on=False)
    few_labels = model(y)
    assert many_labels.gaussian.warm_start is not None
    assert few_labels.gaussian.warm_start is None
    np.testing.assert_allclose(
        many_labels.predict_proba(X_TEST), few_labels.predict_proba(X_TEST), atol=1e-4
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_one_more_label_is_a_fresh_fit(many, n_classes):
    y = labels(n_classes)
    y[-1] = (y[-1] + 1) % n_classes  # a surprising label
    before = model(y[:-1], X[:-1])
    more = before.condition(X[-1:], y[-1:])
    fresh = model(y)
    moved = np.abs(fresh.predict_proba(X_TEST) - before.predict_proba(X_TEST)).max()
    assert moved > 1e-3
    np.testing.assert_allclose(more.predict_proba(X_TEST), fresh.predict_proba(X_TEST), atol=5e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_that_come_one_by_one_sweep_few_sites(many, n_classes, monkeypatch):
    """Covariances are not recomputed until there are 1 % more labels."""
    y = labels(n_classes)
    y[-2:] = (y[-2:] + 1) % n_classes
    one_by_one = model(y[:-2], X[:-2])
    covariance_calls = []
    real_precision_roots = many_labels.precision_roots
    monkeypatch.setattr(
        many_labels,
        "precision_roots",
        lambda *a: covariance_calls.append(1) or real_precision_roots(*a),
    )
    for row in (N - 2, N - 1):
        one_by_one = one_by_one.condition(X[row : row + 1], y[row : row + 1])
    assert not covariance_calls
    fresh = model(y)
    np.testing.assert_allclose(
        one_by_one.predict_proba(X_TEST), fresh.predict_proba(X_TEST), atol=1e-3
    )


@pytest.mark.parametrize("prior_scale", ["auto", 1.0])
def test_the_result_does_not_depend_on_the_start(many, prior_scale):
    """Start from a fit to other labels: some were removed, some are new, in another order."""
    y = labels(3)
    options = {"prior_scale": prior_scale, "classes": [0, 1, 2]}
    pool = PoolMoments.of(POOL)
    Model = parbals.BayesianLogisticRegression
    previous = Model(**options, random_state=0).fit(X[20:-10][::-1], y[20:-10][::-1], pool)
    again = Model(**options, random_state=0).fit(X, y, pool, previous)
    fresh = Model(**options, random_state=0).fit(X, y, pool)
    assert again.prior_scale_ == fresh.prior_scale_
    np.testing.assert_allclose(again.predict_proba(X_TEST), fresh.predict_proba(X_TEST), atol=1e-4)


def test_a_learner_of_many_labels_chooses_alike_in_any_order_of_arrival(many):
    names = ["a", "b", "c"]
    y = labels(3)
    answers = [names[k] for k in y]
    chosen = []
    for order in (np.arange(290), np.arange(290)[::-1]):
        learner = parbals.ActiveLearner(POOL, names, random_state=0)
        for part in (order[:250], order[250:289], order[289:]):
            learner.tell(part, [answers[i] for i in part])
            learner.fitted()
        chosen.append(learner.ask(5).tolist())
    assert chosen[0] == chosen[1]


class TestSubset:
    """The subset of thousands of labels that the prior is learnt from."""

    def test_keys_are_all_different_and_do_not_depend_on_the_order(self):
        rows = np.repeat(X[:100], 3, axis=0)  # each row three times, with labels of two kinds
        y = np.tile([0, 1, 1], 100)
        order = RNG.permutation(300)
        keys = label_keys(rows, y)
        assert len(np.unique(keys)) == 300
        assert set(keys.tolist()) == set(label_keys(rows[order], y[order]).tolist())

    def test_a_subset_is_a_random_sample(self, many):
        keys = label_keys(X, labels(3))
        part = random_subset(keys)
        assert len(part) == 100
        assert abs(part.mean() - N / 2) < 4 * N / np.sqrt(12 * 100)

    def test_the_prior_is_reused_while_its_subset_is_the_same(self, many):
        y = labels(3)
        pool = PoolMoments.of(POOL)
        keys = label_keys(X, y)
        last = int(np.argmax(keys))
        others = np.arange(N) != last
        prior_before = learn_prior(X[others], y[others], 3, pool)
        assert learn_prior(X, y, 3, pool, prior_before) is prior_before
        by_key = np.argsort(keys)
        for n_removed, is_reused in ((1, True), (2, False)):  # of the subset's hundred
            remaining = np.setdiff1d(np.arange(N), by_key[:n_removed])
            assert (
                learn_prior(X[remaining], y[remaining], 3, pool, prior_before) is prior_before
            ) == is_reused
