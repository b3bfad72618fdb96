"""One of classes in order, the lowest first: ``task="ordinal"``.

The model is :mod:`parbals.posterior.closed.ordinal`; strategies without a closed form see draws of
its posterior as samples of classes. Its prior is the one that two-class problems "above this
threshold or not" have in common, learnt as for several labels an item.
"""

from typing import Any

import numpy as np

from parbals.learner.tasks.base import Setup, Task
from parbals.posterior.closed.ordinal import OrdinalPosterior, fit_ordinal
from parbals.posterior.closed.prior import make_prior
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["Ordinal", "OrdinalModel"]


class OrdinalModel:
    """The posterior of f and its thresholds, for prepared rows (N, D)."""

    def __init__(self, posterior: OrdinalPosterior, sentence: str, n: int, seed: int) -> None:
        self.gaussian = posterior
        self.sample_weights = np.full(n, 1.0 / n)
        generator = derive_generator(seed, "ordinal", len(posterior.X))
        self._weights = posterior.latents.draw(generator, n)[:, 0]
        self.diagnostics_ = Diagnostics("ep", n, float(n), prior=sentence)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """(N, C) probabilities, lowest class first."""
        return self.gaussian.predict_proba(add_bias(rows))

    def sample_proba(self, rows: np.ndarray) -> np.ndarray:
        """(N, K, C) those of K draws from the posterior."""
        f = (add_bias(rows) @ self._weights)[:, :, None] - self.gaussian.thresholds
        above = (0.5 + 0.5 * np.tanh(0.5 * f)).astype(np.float32)
        edges = np.ones_like(above[..., :1]), above, np.zeros_like(above[..., :1])
        return -np.diff(np.concatenate(edges, axis=2), axis=2)


class Ordinal(Task):
    """One class an item; classes next to each other are nearly the same."""

    name = "ordinal"
    metrics = ("accuracy", "rank-error", "log-loss")

    def fit(self, setup: Setup, rows: np.ndarray, numbers: np.ndarray, seed: int) -> OrdinalModel:
        rows = rows.astype(np.float64)
        above = numbers[:, None] > np.arange(len(self.classes) - 1)
        prior = make_prior(setup.prior_scale, rows, above, 2, setup.pool_moments)
        whitening = prior.whitening.times(np.sqrt(2.0))
        found = fit_ordinal(add_bias(rows), numbers, len(self.classes), whitening)
        return OrdinalModel(found, prior.description, setup.n_samples, seed)

    def decided(self, setup: Setup, model: Any, probs: np.ndarray) -> np.ndarray:
        if setup.metric != "rank-error":
            return np.asarray(probs.argmax(axis=1))
        return np.asarray((probs.cumsum(axis=1) < 0.5).sum(axis=1)).clip(max=probs.shape[1] - 1)

    def metric_values(self, metric: str, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(labels - decisions).mean(axis=1))
