"""Settling: nothing of the start is left in the particles, and walls are told from bad luck."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from parbals.arrays import bucket
from parbals.posterior.hmc import move_population, whitened_posterior
from parbals.posterior.predictive import add_bias
from parbals.posterior.relax import Refusals, systematic_resample
from parbals.posterior.smc import draw_population

N_SAMPLES = 400


def labelled(n, d, n_classes, scale, seed=1):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, d))
    logits = X @ rng.standard_normal((d, n_classes))
    y = (logits + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return add_bias(X), y.astype(np.int32)


def further(population, n_moves, seed):
    """The same particles after more moves."""
    X, labels = population.X, population.labels
    result = move_population(
        jax.random.key(seed),
        population.whitened,
        whitened_posterior(population.reference, X, labels, bucket(len(X))),
        np.float32(population.step_size),
        n_moves,
        np.float32(-1.0),
        n_classes=population.n_classes,
        short_share=0.0,
    )
    return np.asarray(result.whitened)


@pytest.mark.full
@pytest.mark.parametrize(("n", "d", "scale"), [(40, 10, 1.0), (60, 3, 3.0)])
def test_sixty_more_moves_do_not_change_the_size_of_the_weights(n, d, scale):
    """|V|² is forgotten last: particles that stop when their logits look mixed are too small."""
    X, y = labelled(n, d, 4, scale)
    n_fits, shifts = 16, []
    for seed in range(n_fits):
        population = draw_population(seed, X, y, 4, 1.0, N_SAMPLES)
        before, after = (
            np.square(population.reference.colour(z)).sum(axis=(0, 1))
            for z in (population.whitened, further(population, 60, seed))
        )
        shifts.append((after.mean() - before.mean()) / after.std())
    error = np.sqrt(2.0 / (n_fits * N_SAMPLES))
    assert abs(np.mean(shifts)) < 3.3 * error


def moves(n_accepted, n_moves):
    return SimpleNamespace(n_accepted=np.asarray(n_accepted), n_moves=n_moves)


def test_particles_refused_every_time_are_at_a_wall_and_those_refused_by_chance_are_not():
    """With 80 % acceptance a fifth of the particles is refused once, 1 in 625 four times."""
    generator = np.random.default_rng(0)
    by_chance = Refusals(1000)
    for _ in range(4):
        assert not by_chance.meet_walls(moves(generator.random(1000) < 0.8, 1))
    at_a_wall = generator.binomial(4, 0.8, 1000)
    at_a_wall[:20] = 0
    assert Refusals(1000).meet_walls(moves(at_a_wall, 4))


def test_systematic_resampling_is_unbiased_and_even():
    weights = np.array([0.5, 0.25, 0.2, 0.05, 0.0])
    rng = np.random.default_rng(0)
    counts = np.array(
        [np.bincount(systematic_resample(rng, weights, 10), minlength=5) for _ in range(2000)]
    )
    assert (counts >= np.floor(10 * weights)).all()
    assert (counts <= np.ceil(10 * weights)).all()
    np.testing.assert_allclose(counts.mean(axis=0), 10 * weights, atol=4 * 0.5 / np.sqrt(2000))
