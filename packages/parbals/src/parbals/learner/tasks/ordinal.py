"""Ordinal classification, the lowest class first: ``task="ordinal"``.

The model is :mod:`parbals.posterior.closed.ordinal`; strategies without a closed form use draws
from its posterior. The two-class problems "above this threshold or not" share one prior, learnt as
in the multi-label task.
"""

import numpy as np

from parbals.learner.tasks.base import DecisionWeights, FitSettings, Task
from parbals.posterior.closed.ordinal import OrdinalPosterior, fit_ordinal
from parbals.posterior.closed.prior import make_prior
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["Ordinal", "OrdinalModel"]


class OrdinalModel:
    """The posterior of the latent function f and its thresholds, for prepared rows (N, D)."""

    def __init__(
        self, posterior: OrdinalPosterior, prior_description: str, n_samples: int, seed: int
    ) -> None:
        self.gaussian = posterior
        self.sample_weights = np.full(n_samples, 1.0 / n_samples)
        generator = derive_generator(seed, "ordinal", len(posterior.X))
        self._weights = posterior.latents.draw(generator, n_samples)[:, 0]
        self.diagnostics_ = Diagnostics("ep", n_samples, float(n_samples), prior=prior_description)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """Return class probabilities (N, C), the lowest class first."""
        return self.gaussian.predict_proba(add_bias(rows))

    def sample_proba(self, rows: np.ndarray) -> np.ndarray:
        """Return class probabilities (N, K, C) under K posterior samples."""
        latent = add_bias(rows) @ self._weights
        logits = latent[:, :, None] - self.gaussian.thresholds
        above = (0.5 + 0.5 * np.tanh(0.5 * logits)).astype(np.float32)
        always = np.ones_like(above[..., :1])
        never = np.zeros_like(above[..., :1])
        return -np.diff(np.concatenate((always, above, never), axis=2), axis=2)


class Ordinal(Task):
    """One of ordered classes per item; neighbouring classes are similar.

    >>> Ordinal(["low", "medium", "high"]).encode("medium", "label")
    1
    """

    name = "ordinal"
    metrics = ("accuracy", "rank-error", "log-loss")

    def fit(self, rows: np.ndarray, labels: np.ndarray, settings: FitSettings) -> OrdinalModel:
        rows = rows.astype(np.float64)
        is_above = labels[:, None] > np.arange(len(self.classes) - 1)
        prior = make_prior(settings.prior_scale, rows, is_above, 2, settings.pool_moments)
        whitening = prior.whitening.times(np.sqrt(2.0))  # f is a difference of two class logits
        posterior = fit_ordinal(add_bias(rows), labels, len(self.classes), whitening)
        return OrdinalModel(posterior, prior.description, settings.n_samples, settings.seed)

    def decide(self, probs: np.ndarray, metric: str, class_weights: DecisionWeights) -> np.ndarray:
        if metric != "rank-error":
            return np.asarray(probs.argmax(axis=1))
        # The median class minimises the expected absolute rank error.
        medians = np.asarray((probs.cumsum(axis=1) < 0.5).sum(axis=1))
        return medians.clip(max=probs.shape[1] - 1)

    def metric_values(self, metric: str, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(labels - decisions).mean(axis=1))
