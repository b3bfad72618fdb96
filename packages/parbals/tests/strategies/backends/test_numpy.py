"""NumPy's backend: the screen by products against the tables of pairs that it does without."""

import numpy as np
import pytest
from parbals.machine import several_threads
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.scores.gaussian import Covariances, probs_and_gains
from parbals.strategies.backends.base import Places, PoolRows
from parbals.strategies.backends.numpy import NumpyBackend, ScreenBefore
from parbals.strategies.learnt import begin, branched, learn, seen_by
from parbals.strategies.surface import Targets, covariance, rows_of, scores_by, surface_of


@pytest.mark.parametrize("n_labels", [0, 3])
@pytest.mark.parametrize("n_latents", [1, 3])
def test_products_give_what_tables_of_pairs_give(n_latents, n_labels):
    generator = np.random.default_rng(n_latents)
    roots = 0.4 * generator.standard_normal((n_latents, 5, 5)) + np.eye(5)
    location = generator.standard_normal((5, n_latents))
    latents = Latents(Whitening.diagonal(np.ones(5)), np.eye(5), location, roots)
    surface = surface_of(latents, generator.standard_normal((6, 4)))
    X = generator.standard_normal((9, 4))
    rows = rows_of(surface, np.concatenate([X, np.ones((9, 1))], axis=1).astype(np.float32))
    learnt = branched(begin(surface), np.zeros(4, int))
    for i in range(n_labels):
        row = rows._replace(
            across=rows.across[[i]],
            **{name: getattr(rows, name)[:, [i]] for name in ("factor", "mean", "variance")},
        )
        learnt = learn(surface, learnt, row, generator.integers(0, max(n_latents, 2), 4))
    seen = seen_by(rows, learnt.points, learnt.shift, learnt.weights)
    gains = probs_and_gains(learnt.target_mean, learnt.target_variance)
    targets = Targets(learnt.target_mean, learnt.target_variance, *gains)
    labelled = learnt.at_targets.swapaxes(1, 2)
    base = covariance(rows, surface.target_rows).swapaxes(1, 2)
    expected = [
        scores_by(
            "screen",
            *(part[:, u] for part in seen[:2]),
            Covariances(base, seen.pull[:, u], labelled),
            Targets(*(part[:, u] for part in targets)),
            surface,
        )
        for u in range(4)
    ]
    members = np.array([0, 1, 1, 2, 3])
    with several_threads() as workers:
        backend = NumpyBackend(surface, PoolRows(X, np.arange(0)), "form", workers)
        backend.branch(np.zeros(4, int))
        backend.renew(learnt, members, np.ones(learnt.target_mean.shape[1:], bool))
        found = np.concatenate(list(backend.screen(np.arange(2, 8), 4)))
    np.testing.assert_allclose(found, np.array(expected)[members].mean(axis=0)[2:8], rtol=1e-4)


def test_a_form_of_the_features_pays_where_targets_are_many():
    roots, location = np.tile(np.eye(30), (3, 1, 1)), np.ones((30, 3))
    latents = Latents(Whitening.diagonal(np.ones(30)), np.eye(30), location, roots)
    few, many = (surface_of(latents, np.ones((n, 29))) for n in (2, 500))
    assert [ScreenBefore.pays(surface) for surface in (few, many)] == [False, True]


def test_places_are_kept_until_all_are_taken():
    places = Places(5)
    for asked, expected in (
        ([7, 3], ([0, 1], [7, 3], 0)),
        ([3, 9, 7], ([1, 2, 0], [9], 2)),
        ([1, 2, 9], ([3, 4, 2], [1, 2], 3)),
        ([9, 8], ([0, 1], [9, 8], 0)),
    ):
        at, new, first = places.of(np.array(asked))
        assert (at.tolist(), new.tolist(), first) == expected
