"""What the next labels would gain, against dense matrices and against whole ParBaLS batches."""

import numpy as np
import parbals
import pytest
from parbals.mixture import sigmoid_means
from parbals.race import balanced, class_slopes
from parbals.strategies.lookahead import expected_gain


def fitted(n_classes, n_labels, seed=0):
    """A posterior, 60 candidates, 40 targets."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_labels + 100, 5)) * [2.0, 1.0, 1.0, 0.5, 0.2]
    logits = X @ generator.standard_normal((5, n_classes))
    labels = np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)[:n_labels]
    model = parbals.BayesianLogisticRegression(
        inference="ep", prior_scale=1.0, classes=range(n_classes), random_state=0
    )
    return model.fit(X[:n_labels], labels), X[n_labels:-40], X[-40:]


def gains_of(mean, variance):
    """(A, n) a of two classes, g of more."""
    if len(mean) == 1:
        p, slope = sigmoid_means(mean, variance, 1)
        return slope**2 / (p * (1.0 - p))
    p, slope = class_slopes(mean, variance)
    return balanced(slope**2 / (p * (1.0 - p)), np, axis=0)


def by_definition(channels, pool, target, pending, n):
    """Every label of a point i takes g cov(·, i) cov(i, ·) off all covariances; gains are held."""
    rows = [np.concatenate([X, np.ones((len(X), 1))], axis=1) for X in (pool, target, pending)]
    every = np.concatenate(rows)
    cov = np.einsum("nd,adm->anm", every, channels.covariance_with(every))
    gains = gains_of(*(part.T for part in channels.marginals(every)))
    matrix = np.einsum("an,ab->nab", gains, np.eye(len(gains)))
    if len(gains) > 1:
        matrix -= np.einsum("an,bn->nab", gains, gains) / gains.sum(axis=0)[:, None, None]
    here, there = slice(len(pool)), slice(len(pool), len(pool) + len(target))

    def condition(i):
        column = cov[:, :, i].copy()
        cov[:] = cov - gains[:, i, None, None] * column[:, :, None] * column[:, None]

    for i in range(there.stop, len(every)):
        condition(i)
    free, total = np.ones(len(pool), bool), 0.0
    for _ in range(n):
        c = cov[:, here, there]
        form = np.einsum("anm,bnm,nab,mab->n", c, c, matrix[here], matrix[there], optimize=True)
        scores = np.where(free, 0.5 * form / len(target), -np.inf)
        best = scores.argmax()
        free[best], total = False, total + scores[best]
        condition(best)
    return total


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_pending", [0, 1])
def test_gain_is_that_of_dense_matrices(n_classes, n_pending):
    model, pool, target = fitted(n_classes, 60)
    parts = model.gaussian.channels, pool[n_pending:], target, pool[:n_pending]
    assert expected_gain(*parts, 6) == pytest.approx(by_definition(*parts, 6), rel=1e-3)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_that_are_out_lower_the_gain(n_classes):
    """And the more of them, the further."""
    model, pool, target = fitted(n_classes, 30)
    gains = [
        expected_gain(model.gaussian.channels, pool[20:], target, pool[:n], 5) for n in (0, 5, 20)
    ]
    assert gains[0] > gains[1] > gains[2] > 0.0


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_labels", [20, pytest.param(80, marks=pytest.mark.full)])
def test_gain_is_nearly_that_of_a_parbals_batch(n_classes, n_labels):
    """From below: to first order and with no label drawn, four fifths of it or more."""
    model, pool, target = fitted(n_classes, n_labels)
    batch = parbals.select_batch_from_model(model, pool, target, 10, n_universes=20, random_state=0)
    gain = expected_gain(model.gaussian.channels, pool, target, pool[:0], 10)
    assert 0.8 < gain / batch.scores.sum() < 1.1


def test_features_of_any_scale_stay_finite():
    X = 1e5 * np.random.default_rng(0).standard_normal((40, 3))
    model = parbals.BayesianLogisticRegression(
        inference="ep", prior_scale=1.0, classes=range(3), random_state=0
    ).fit(X[:6], np.arange(6) % 3)
    gain = expected_gain(model.gaussian.channels, X[10:], X[10:], X[:10], 5)
    assert np.isfinite(gain)
    assert gain >= 0.0
