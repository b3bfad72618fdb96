"""The screen by products against the tables of pairs that it does without."""

import numpy as np
import pytest
from parbals.posterior.closed.channels import Channels
from parbals.posterior.closed.whitening import Whitening
from parbals.scores.gaussian import screen, screening_gains, target_gains
from parbals.strategies.gaussian_universes import begin, observe, pool_of, seen_by
from parbals.strategies.screen import Screen, StartScreen
from parbals.strategies.surface import surface_of


@pytest.mark.parametrize("n_labels", [0, 3])
@pytest.mark.parametrize("n_channels", [1, 3])
def test_products_give_what_tables_of_pairs_give(n_channels, n_labels):
    generator = np.random.default_rng(n_channels)
    roots = 0.4 * generator.standard_normal((n_channels, 5, 5)) + np.eye(5)
    location = generator.standard_normal((5, n_channels))
    channels = Channels(Whitening.diagonal(np.ones(5)), np.eye(5), location, roots)
    surface = surface_of(channels, generator.standard_normal((6, 4)))
    rows = np.concatenate([generator.standard_normal((9, 4)), np.ones((9, 1))], axis=1)
    pool, universes = pool_of(surface, rows.astype(np.float32)), begin(surface, 4, 5)
    for index in range(n_labels):
        labels = generator.integers(0, max(n_channels, 2), 4)
        universes = observe(pool, universes, index, labels)
    seen = seen_by(pool, universes, np.arange(9))
    gains = target_gains(seen.mean, seen.variance)
    by_products, own = Screen(universes, surface.share), screening_gains(gains)
    found = sum(by_products.of_channel(a, seen, own, slice(2, 8)) for a in range(n_channels))
    for u in range(4):
        parts = seen.parts[0], seen.parts[1][:, u], seen.parts[2]
        given = gains[:, u], universes.target_gains[:, u], surface.share
        table = screen(parts, *given, np, seen.covariance)
        np.testing.assert_allclose(found[u], table[2:8], rtol=1e-4)


def test_a_form_of_the_features_pays_where_targets_are_many():
    roots, location = np.tile(np.eye(30), (3, 1, 1)), np.ones((30, 3))
    channels = Channels(Whitening.diagonal(np.ones(30)), np.eye(30), location, roots)
    few, many = (surface_of(channels, np.ones((n, 29))) for n in (2, 500))
    assert [StartScreen.pays(surface) for surface in (few, many)] == [False, True]
