"""Universes of a particle model: the same posterior that refitting would give."""

import numpy as np
import parbals
import pytest
from parbals.strategies.problem import ModelView
from parbals.strategies.universes.samples import ParticleUniverses, PseudoLabels

N_SAMPLES = 400


def data(n_classes=2, n=30, n_pool=50, n_features=4):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((n_features, n_classes))
    X = 4.0 * rng.standard_normal((n + n_pool + 20, n_features)) / np.sqrt(n_features)
    y = (X @ weights + rng.gumbel(size=(len(X), n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X[:n], y[:n], X[n : n + n_pool], X[n + n_pool :]


def fitted(X, y, seed=0, n_samples=N_SAMPLES):
    return parbals.BayesianLogisticRegression(n_samples, 1.0, "smc", random_state=seed).fit(X, y)


X, Y, X_POOL, X_TARGET = data()


@pytest.fixture(scope="module")
def model():
    return fitted(X, Y)


def choose(model, batch_size):
    return parbals.select_batch_from_model(model, X_POOL, X_TARGET, batch_size, random_state=0)


@pytest.mark.parametrize(
    ("n_classes", "n", "n_features"),
    [
        (2, 30, 4),
        # New rows lie outside the space of the labelled ones.
        pytest.param(2, 10, 60, marks=pytest.mark.full),
        pytest.param(3, 30, 4, marks=pytest.mark.full),
        pytest.param(3, 10, 60, marks=pytest.mark.full),
    ],
)
def test_a_universe_is_the_posterior_of_a_fresh_fit_with_its_labels(n_classes, n, n_features):
    X, y, X_pool, X_target = data(n_classes, n, n_features=n_features)
    particles = fitted(X, y).population
    view = ModelView(particles, particles.rows(X_pool), particles.rows(X_target))
    universes = ParticleUniverses(view, 2, seed=0)
    start = universes.members[0].cloud
    labels = PseudoLabels(seed=0)
    calls = []
    for index in range(12):
        calls.append(labels.label(index, universes))
        universes.observe(index, calls[-1])
    assert all(member.cloud is not start for member in universes.members)  # they have moved
    z = []
    for u, member in enumerate(universes.members):
        y_u = np.concatenate([y, [row[u] for row in calls]])
        # Many draws: the spread of a probability near zero is made by few of them.
        fresh = fitted(np.concatenate([X, X_pool[:12]]), y_u, seed=1, n_samples=4000)
        expected = fresh.sample_proba(X_target)[:, :, 1]
        row = 0 if n_classes == 2 else 1
        mean = np.asarray(member.cloud.target)[:, row] @ member.weights
        error = expected.std(axis=1) * np.sqrt(1 / member.effective_sample_size + 1 / 4000)
        z.append((mean - expected.mean(axis=1)) / error)
    assert np.sqrt(np.mean(np.square(z))) < 2.0


def test_particles_move_when_reweighting_wears_thin(model):
    batch = choose(model, 15)
    assert batch.effective_sample_size.min() > 0.5 * N_SAMPLES
    from_arrays = parbals.select_batch(
        model.sample_proba(X_POOL), model.sample_proba(X_TARGET), 15, random_state=0
    )
    assert from_arrays.effective_sample_size.min() < batch.effective_sample_size.min()


def test_moves_that_do_not_settle_are_noted(model, monkeypatch):
    assert choose(model, 12).notes == ()
    monkeypatch.setattr("parbals.posterior.smc._GRADIENT_BUDGET", 0)
    monkeypatch.setattr("parbals.posterior.smc._drift_allowed", lambda n: -1.0)
    assert any("did not converge" in note for note in choose(model, 12).notes)


def test_the_model_is_not_changed_by_choosing(model):
    before = model.sample_proba(X_TARGET)
    choose(model, 6)
    assert (model.sample_proba(X_TARGET) == before).all()
    assert len(model.population.X) == len(X)


def test_a_model_that_was_conditioned_brings_its_weights(model):
    model = model.condition(X_POOL[:1], [0])
    assert np.ptp(model.sample_weights) > 0
    batch = choose(model, 1)
    probs = model.sample_proba(X_POOL), model.sample_proba(X_TARGET)
    scores = parbals.epig(*probs, model.sample_weights)
    assert batch.indices[0] == scores.argmax()
    assert batch.scores[0] == pytest.approx(scores.max(), rel=1e-3)
