"""A Gaussian process as a model for parbals: scikit-learn's regressor on ±1, one against the rest.

The K samples of ``sample_proba`` must be the same functions in every call, so each is kept as
weights on a set of random Fourier features: a draw from (an approximation of) the posterior process
that can be evaluated anywhere.
"""

from typing import Self

import numpy as np
from sklearn.linear_model import BayesianRidge


class FourierProcess:
    """A squared-exponential process: Bayesian linear regression on random Fourier features."""

    def __init__(
        self, n_classes: int, length_scale: float = 1.0, n_features: int = 200, n_samples: int = 200
    ) -> None:
        self.n_classes, self.length_scale = n_classes, length_scale
        self.n_features, self.n_samples = n_features, n_samples

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        generator = np.random.default_rng(0)
        self.frequencies = (
            generator.standard_normal((X.shape[1], self.n_features)) / self.length_scale
        )
        self.phases = generator.uniform(0.0, 2.0 * np.pi, self.n_features)
        features = self._features(X)
        self.weights = []
        for c in range(self.n_classes):
            model = BayesianRidge().fit(features, np.where(y == c, 1.0, -1.0))
            draws = generator.multivariate_normal(
                model.coef_, model.sigma_, self.n_samples, method="eigh"
            )
            self.weights.append((draws, model.intercept_))
        return self

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C): a softmax over the classes' latent functions."""
        features = self._features(X)
        logits = 3.0 * np.stack(
            [features @ draws.T + shift for draws, shift in self.weights], axis=2
        )
        probs = np.exp(logits - logits.max(axis=2, keepdims=True))
        return probs / probs.sum(axis=2, keepdims=True)

    def _features(self, X: np.ndarray) -> np.ndarray:
        return np.sqrt(2.0 / self.n_features) * np.cos(X @ self.frequencies + self.phases)
