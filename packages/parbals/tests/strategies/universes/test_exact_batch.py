"""Batches by the lazy search: each choice against the best of all points of that step."""

import numpy as np
import pytest
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.strategies.backends import numpy as numpy_backend
from parbals.strategies.greedy import grow
from parbals.strategies.scoring import build_context
from parbals.strategies.universes import gaussian, posterior
from parbals.strategies.universes.labels import DrawnLabels

N_POOL = 300
N_TARGETS = 60
SIZE = 40


class ComparedUniverses:
    """Universes whose choices are compared with the best of all points in the same step."""

    def __init__(self, universes):
        self._universes = universes
        self.observe = universes.observe
        self.shares = []

    def best(self, free):
        step = self._universes.best(free)
        (all_universes,) = self._universes._posteriors
        scores = np.concatenate(list(all_universes.score(np.flatnonzero(free), 64)))
        self.shares.append(step.score / scores.max())
        return step


@pytest.mark.parametrize("max_table_labels", [SIZE, 0], ids=["tables", "linear models"])
@pytest.mark.parametrize(("n_latents", "score"), [(1, "epig"), (4, "quadratic")])
@pytest.mark.parametrize("max_screened", [N_POOL - 1, N_POOL], ids=["renewed", "small pool"])
def test_every_choice_is_nearly_the_best(
    n_latents, score, max_table_labels, max_screened, monkeypatch
):
    """Rows whose variances fall as those of embeddings, and targets that are soon known."""
    monkeypatch.setattr(gaussian, "MAX_SCREENED", max_screened)
    monkeypatch.setattr(posterior, "MAX_TABLE_LABELS", max_table_labels)
    shares = []
    for seed in range(2):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((N_POOL + N_TARGETS, 11)) / np.sqrt(1.0 + np.arange(11))
        latents = Latents(
            Whitening.diagonal(np.ones(12)),
            np.eye(12),
            generator.standard_normal((12, n_latents)),
            np.tile(1.5 * np.eye(12), (n_latents, 1, 1)),
        )
        context = build_context(latents, X[N_POOL:])
        pool = X[:N_POOL]
        start = numpy_backend.score_pool(context, pool, score="screen")
        free = np.ones(N_POOL, bool)
        pending = np.arange(0)
        labels = DrawnLabels(latents, n_universes=4, seed=0)
        arguments = [(context, labels)], pool, start, free, pending, SIZE, score, numpy_backend
        with gaussian.gaussian_universes(*arguments) as universes:
            compared = ComparedUniverses(universes)
            steps = grow(compared, free, pending, SIZE)
        assert len({step.index for step in steps}) == SIZE
        # A step may screen all points of a small pool, which is cheaper than to renew them.
        assert (universes.n_renewed > 0) == (max_screened < N_POOL)
        assert universes.n_final < SIZE * N_POOL / 8
        shares += compared.shares
    assert np.mean(shares) > 0.94
