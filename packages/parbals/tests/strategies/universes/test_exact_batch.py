"""Whole batches by the lazy search against an exact search: every point is scored in every step."""

import numpy as np
import pytest
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.strategies.backends import numpy as numpy_backend
from parbals.strategies.greedy import grow
from parbals.strategies.scoring import build_context
from parbals.strategies.universes import gaussian
from parbals.strategies.universes.labels import DrawnLabels

N_POOL = 300
N_TARGETS = 60
SIZE = 40


def batch(latents, X, X_target, score):
    """The joint EPIG of a batch, and the search that chose it."""
    context = build_context(latents, X_target)
    start = numpy_backend.score_pool(context, X, score="screen")
    free = np.ones(N_POOL, bool)
    pending = np.arange(0)
    labels = DrawnLabels(latents, n_universes=4, seed=0)
    with gaussian.gaussian_universes(
        [(context, labels)], X, start, free, pending, SIZE, score, numpy_backend
    ) as universes:
        steps = grow(universes, free, pending, SIZE)
    assert len({step.index for step in steps}) == SIZE
    return sum(step.score for step in steps), universes


@pytest.mark.parametrize(("n_latents", "score"), [(1, "epig"), (4, "quadratic")])
def test_a_large_batch_loses_little_of_the_joint_epig(n_latents, score, monkeypatch):
    """Rows whose variances fall as those of embeddings; the loss allowed is that of the docs."""
    generator = np.random.default_rng(n_latents)
    X = generator.standard_normal((N_POOL + N_TARGETS, 11)) / np.sqrt(1.0 + np.arange(11))
    latents = Latents(
        Whitening.diagonal(np.ones(12)),
        np.eye(12),
        generator.standard_normal((12, n_latents)),
        np.tile(1.5 * np.eye(12), (n_latents, 1, 1)),
    )
    joint, lazy = batch(latents, X[:N_POOL], X[N_POOL:], score)
    monkeypatch.setattr(gaussian, "MARGIN", 0.0)
    monkeypatch.setattr(gaussian, "SCORE_MARGIN", 0.0)
    monkeypatch.setattr(gaussian, "SHORTLIST", N_POOL)
    exact_joint, exact = batch(latents, X[:N_POOL], X[N_POOL:], score)
    assert joint >= 0.995 * exact_joint
    assert lazy.n_renewed > 0
    assert lazy.n_final < exact.n_final / 20
