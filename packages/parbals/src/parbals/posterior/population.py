"""Weighted particles; :mod:`parbals.posterior.smc` draws and moves them."""

from dataclasses import dataclass

import numpy as np

from parbals.arrays import effective_sample_size, normalise_log_weights
from parbals.posterior.diagnostics import Diagnostics
from parbals.posterior.predictive import add_bias
from parbals.posterior.reference import Reference
from parbals.posterior.whitening import Whitening

__all__ = ["Population"]


@dataclass(frozen=True)
class Population:
    """Weighted particles of the posterior given design rows X (n, D+1) and their class numbers."""

    X: np.ndarray
    labels: np.ndarray
    n_classes: int
    reference: Reference
    whitened: np.ndarray  # z (D+1, J, K), float32
    log_weights: np.ndarray  # (K,), unnormalised
    step_size: float
    diagnostics: Diagnostics
    walls: bool = False  # moves must be shortened, see relax.Refusals
    origins: np.ndarray | None = None  # (K,) numbers below K; equal ones stand at one place
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
        """(Σw)² / Σw², where particles that stand at one place count as one."""
        weights = self.weights
        if self.origins is not None:
            weights = np.bincount(self.origins, weights)
        return float(effective_sample_size(weights))

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
