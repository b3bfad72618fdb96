"""Universes of a particle model: the same posterior that refitting would give."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import parbals
import pytest
from parbals.posterior.particles.smc import SHORT_SHARE
from parbals.strategies.problem import ModelView
from parbals.strategies.universes import particles as particle_universes
from parbals.strategies.universes.particles import ParticleUniverses, _origins
from parbals.strategies.universes.samples import PseudoLabels

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


@pytest.fixture
def moves(monkeypatch):
    """The moves that universes make: their (dimensions, short_share), and a way to spoil them."""
    made = SimpleNamespace(seen=[], spoil=lambda z, result: result)
    real = particle_universes.move_population

    def recorded(key, z, *arguments, short_share, **options):
        made.seen.append((z.shape[0], short_share))
        return made.spoil(z, real(key, z, *arguments, short_share=short_share, **options))

    monkeypatch.setattr(particle_universes, "move_population", recorded)
    return made


def choose(model, batch_size):
    return parbals.select_batch_from_model(model, X_POOL, X_TARGET, batch_size, random_state=0)


@pytest.mark.parametrize(
    ("n_classes", "n", "n_features", "n_moved"),
    [
        (2, 30, 4, 5),
        # New rows lie outside the space of the labelled ones.
        pytest.param(2, 10, 60, 32, marks=pytest.mark.full),
        pytest.param(3, 30, 4, 5, marks=pytest.mark.full),
        pytest.param(3, 10, 60, 32, marks=pytest.mark.full),
    ],
)
def test_a_universe_is_the_posterior_of_a_fresh_fit_with_its_labels(
    n_classes, n, n_features, n_moved, moves
):
    """Its particles move in as many dimensions as there are rows, or features if they are fewer."""
    X, y, X_pool, X_target = data(n_classes, n, n_features=n_features)
    view = ModelView.of(fitted(X, y).population, X_pool, X_target)
    universes = ParticleUniverses(view, 2, 12, seed=0)
    start = universes.members[0].cloud
    labels = PseudoLabels(seed=0)
    seen = []
    for index in range(12):
        seen.append(labels.of(index, universes))
        universes.observe(index, seen[-1])
    assert all(member.cloud is not start for member in universes.members)  # they have moved
    z = []
    for u, member in enumerate(universes.members):
        y_u = np.concatenate([y, [row[u] for row in seen]])
        # Many draws: the spread of a probability near zero is made by few of them.
        fresh = fitted(np.concatenate([X, X_pool[:12]]), y_u, seed=1, n_samples=4000)
        expected = fresh.sample_proba(X_target)[:, :, 1]
        row = 0 if n_classes == 2 else 1
        mean = np.asarray(member.cloud.target)[:, row] @ member.weights
        error = expected.std(axis=1) * np.sqrt(1 / member.effective_sample_size + 1 / 4000)
        z.append((mean - expected.mean(axis=1)) / error)
    assert np.sqrt(np.mean(np.square(z))) < 2.0
    assert {dimensions for dimensions, _ in moves.seen} == {n_moved}


def test_particles_move_when_reweighting_wears_thin(model):
    batch = choose(model, 15)
    assert batch.effective_sample_size.min() > 0.5 * N_SAMPLES
    from_arrays = parbals.select_batch(
        model.sample_proba(X_POOL), model.sample_proba(X_TARGET), 15, random_state=0
    )
    assert from_arrays.effective_sample_size.min() < batch.effective_sample_size.min()


def test_particles_that_were_never_granted_a_move_count_once_at_each_place(model, moves):
    moves.spoil = lambda z, result: result._replace(
        whitened=z, n_accepted=0 * result.n_accepted, correlation=1.0
    )
    batch = choose(model, 12)
    assert batch.effective_sample_size.min() < 0.5 * N_SAMPLES
    (note,) = batch.notes
    assert "the particles hardly moved (a correlation of 1.00 with their start is left" in note
    moves.spoil = lambda z, result: result
    assert choose(model, 12).notes == ()


def test_the_effective_sample_size_of_a_universe_counts_places(model):
    population = replace(model.population, origins=np.arange(N_SAMPLES) // 4)
    assert population.effective_sample_size == pytest.approx(N_SAMPLES / 4)
    ancestors = np.repeat(np.arange(0, N_SAMPLES, 2), 2)
    stayed = np.arange(N_SAMPLES) < 40
    origins = _origins(population, ancestors, np.where(stayed, 0, 3))
    assert len(np.unique(origins)) == N_SAMPLES - 40 + 10
    assert len(np.unique(origins[:40])) == 10


def test_moves_are_shortened_once_particles_stand_at_a_wall(model, moves):
    """By the rule of a fit: a few that were refused every time, while all others moved."""
    moves.spoil = lambda z, result: result._replace(
        n_accepted=result.n_moves * (np.arange(N_SAMPLES) >= 20)
    )
    choose(model, 12)
    assert [share for _, share in moves.seen[:2]] == [0.0, SHORT_SHARE]


def test_a_fit_that_has_met_walls_says_so_to_its_universes(moves):
    model = fitted(50.0 * X, (X[:, 0] > 0).astype(int))
    assert model.population.walls
    parbals.select_batch_from_model(model, 50.0 * X_POOL, 50.0 * X_TARGET, 8, random_state=0)
    assert {share for _, share in moves.seen} == {SHORT_SHARE}


def test_rows_held_in_memory_and_rows_recomputed_give_the_same_batch(model, monkeypatch):
    held = choose(model, 6)
    monkeypatch.setattr("parbals.strategies.universes.particles._HOLD_BYTES", 0)
    recomputed = choose(model, 6)
    assert held.indices.tolist() == recomputed.indices.tolist()
    np.testing.assert_allclose(held.scores, recomputed.scores, rtol=1e-4)


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
