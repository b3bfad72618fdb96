"""Weighted particles in NumPy; :mod:`parbals.posterior.particles.smc` draws and moves them."""

from dataclasses import dataclass

import numpy as np

from parbals.arrays import effective_sample_size, normalise_log_weights
from parbals.posterior.closed.laplace import Reference
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.diagnostics import Diagnostics
from parbals.posterior.predictive import add_bias, contrast_basis

__all__ = ["Population", "log_likelihoods", "systematic_resample"]


@dataclass(frozen=True)
class Population:
    """Weighted particles of the posterior given design rows X (n, D+1) and their class numbers."""

    X: np.ndarray
    labels: np.ndarray
    n_classes: int
    reference: Reference
    whitened: np.ndarray  # z (D+1, J, K), float32
    log_weights: np.ndarray  # (K,), unnormalised
    diagnostics: Diagnostics
    whitening: Whitening | None = None  # of the rows that it was given, if it was any

    @property
    def n_samples(self) -> int:
        return self.whitened.shape[2]

    @property
    def weights(self) -> np.ndarray:
        """(K,) normalised particle weights."""
        return normalise_log_weights(self.log_weights)

    @property
    def effective_sample_size(self) -> float:
        """(Σw)² / Σw²."""
        return float(effective_sample_size(self.weights))

    def coefficients(self) -> np.ndarray:
        """Contrast weights V (D+1, J, K), float64."""
        return self.reference.colour(self.whitened)

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Design rows (n, D+1) of features (n, D), as the population knows them."""
        design = add_bias(X)
        return design if self.whitening is None else self.whitening.rows(design)

    def contrasts(self, X: np.ndarray) -> np.ndarray:
        """Contrast logits (n, J, K) of design rows X (n, D+1): X mean + (X L) z."""
        design = self.reference.design(X).astype(np.float32)
        return (X @ self.reference.mean)[:, :, None] + np.tensordot(design, self.whitened, axes=1)


def log_likelihoods(contrasts: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """ln p_k(y_n | x_n), (n, K), from contrast logits (n, J, K); float64 on the host."""
    logits = np.einsum("cj,njk->nck", contrast_basis(n_classes), contrasts)
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None, None], axis=1)[:, 0]
    return chosen - np.log(np.exp(shifted).sum(axis=1))


def systematic_resample(
    generator: np.random.Generator, weights: np.ndarray, n_samples: int
) -> np.ndarray:
    """Ancestor indices: particle k appears ⌊K w_k⌋ or ⌈K w_k⌉ times, in expectation K w_k.

    The order is shuffled so that the first few survivors are as good a sample as any.
    """
    points = (generator.random() + np.arange(n_samples)) / n_samples
    ancestors = np.searchsorted(np.cumsum(weights) / weights.sum(), points, side="right")
    return generator.permutation(np.minimum(ancestors, len(weights) - 1))
