"""Universes of a particle model: the same posterior that refitting would give."""

import numpy as np
import pytest

import parbals
from parbals.strategies.problem import ModelView
from parbals.strategies.universes import ParticleUniverses, PseudoLabels


def problem(seed=0, n=30, n_pool=50, n_features=4, n_classes=2, scale=1.0):
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((n_features, n_classes))
    X = scale * rng.standard_normal((n + n_pool + 20, n_features))
    y = (X @ weights + rng.gumbel(size=(len(X), n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X[:n], y[:n], X[n : n + n_pool], X[n + n_pool :]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_universe_is_the_posterior_of_a_fresh_fit_with_its_labels(n_classes):
    X, y, X_pool, X_target = problem(n_classes=n_classes)
    model = parbals.BayesianLogisticRegression(n_samples=2000, random_state=0).fit(X, y)
    universes = ParticleUniverses(ModelView.of(model.population, X_pool, X_target), 2, 12, seed=0)
    labels = PseudoLabels(seed=0)
    points = list(range(12))
    seen = []
    for index in points:
        seen.append(labels.of(index, universes))
        universes.observe(index, seen[-1])
    assert any(
        u.cloud is not universes.members[0].cloud for u in universes.members
    )  # some have moved
    for u, member in enumerate(universes.members):
        y_u = np.concatenate([y, [row[u] for row in seen]])
        fresh = parbals.BayesianLogisticRegression(n_samples=4000, random_state=1).fit(
            np.concatenate([X, X_pool[points]]), y_u
        )
        expected = fresh.sample_proba(X_target)[:, :, 1]
        row = 0 if n_classes == 2 else 1
        ours = np.asarray(member.cloud.target)[: len(X_target), row]
        mean = ours @ member.weights
        error = expected.std(axis=1) * np.sqrt(1 / member.effective_sample_size + 1 / 4000)
        z = (mean - expected.mean(axis=1)) / error
        assert np.sqrt(np.mean(z**2)) < 2.0


def test_particles_move_when_reweighting_wears_thin():
    X, y, X_pool, X_target = problem(scale=2.0)
    model = parbals.BayesianLogisticRegression(n_samples=300, random_state=0).fit(X, y)
    batch = parbals.select_batch_from_model(model, X_pool, X_target, 15, random_state=0)
    assert batch.effective_sample_size.min() > 0.5 * 300
    from_arrays = parbals.select_batch(
        model.sample_proba(X_pool), model.sample_proba(X_target), 15, random_state=0
    )
    assert from_arrays.effective_sample_size.min() < batch.effective_sample_size.min()


def test_rows_held_in_memory_and_rows_recomputed_give_the_same_batch(monkeypatch):
    X, y, X_pool, X_target = problem()
    model = parbals.BayesianLogisticRegression(n_samples=200, random_state=0).fit(X, y)
    held = parbals.select_batch_from_model(model, X_pool, X_target, 6, random_state=0)
    monkeypatch.setattr("parbals.strategies.universes._HOLD_BYTES", 0)
    recomputed = parbals.select_batch_from_model(model, X_pool, X_target, 6, random_state=0)
    assert held.indices.tolist() == recomputed.indices.tolist()
    np.testing.assert_allclose(held.scores, recomputed.scores, rtol=1e-4)


def test_the_model_is_not_changed_by_choosing():
    X, y, X_pool, X_target = problem()
    model = parbals.BayesianLogisticRegression(n_samples=200, random_state=0).fit(X, y)
    before = model.sample_proba(X_target)
    parbals.select_batch_from_model(model, X_pool, X_target, 6, random_state=0)
    assert (model.sample_proba(X_target) == before).all()
    assert len(model.population.X) == len(X)


def test_a_model_that_was_conditioned_brings_its_weights():
    X, y, X_pool, X_target = problem()
    model = parbals.BayesianLogisticRegression(n_samples=200, random_state=0).fit(X, y)
    model = model.condition(X_pool[:1], [0])
    assert np.ptp(model.sample_weights) > 0
    probs = model.sample_proba(X_pool), model.sample_proba(X_target)
    batch = parbals.select_batch_from_model(model, X_pool, X_target, 1, random_state=0)
    scores = parbals.epig(*probs, model.sample_weights)
    assert batch.indices[0] == scores.argmax()
    assert batch.scores[0] == pytest.approx(scores.max(), rel=1e-3)
