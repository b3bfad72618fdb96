"""The targets in universes that are linear models: their moments and their softmax."""

import numpy as np

from parbals.scores.gaussian import screening_gains
from parbals.shapes import Array, Bool, Float
from parbals.strategies.conditioning import is_stale
from parbals.strategies.scoring import ScoringContext, targets_at

__all__ = ["UniverseTargets"]


class UniverseTargets:
    """Moments, class probabilities and gains of the targets in every universe.

    Attributes:
        mean: (A, U, M), and so all others.
        variance: of the latents.
        probs: of every class; with two classes of the second only.
        gains: of a label at the target.
        weights: w of the targets, half their share of the screen's gain.
    """

    def __init__(self, context: ScoringContext, n_universes: int) -> None:
        def repeated(values: Float[Array, "A M"]) -> Float[Array, "A U M"]:
            return values[:, None].repeat(n_universes, axis=1)

        self._half_share = 0.5 * context.share
        targets = context.targets
        self.mean = repeated(targets.mean)
        self.variance = repeated(targets.variance)
        self.probs = repeated(targets.probs)
        self.gains = repeated(targets.gains)
        self.weights = self._half_share * screening_gains(self.gains)
        self._softmax_mean = self.mean.copy()
        self._softmax_variance = self.variance.copy()

    def observe(
        self,
        covariance: Float[Array, "A U M"],
        slope: Float[Array, "A U"],
        curvature: Float[Array, "A U"],
    ) -> None:
        """Condition on a label of a row with these covariances."""
        self.mean += slope[:, :, None] * covariance
        self.variance -= curvature[:, :, None] * np.square(covariance)
        np.maximum(self.variance, 0.0, out=self.variance)
        stale = is_stale(self.mean, self.variance, self._softmax_mean, self._softmax_variance)
        self._refresh(stale)

    def _refresh(self, stale: Bool[Array, "U M"]) -> None:
        """Recompute probabilities and gains at stale targets."""
        refreshed = targets_at(self.mean[:, stale], self.variance[:, stale])
        self._softmax_mean[:, stale] = refreshed.mean
        self._softmax_variance[:, stale] = refreshed.variance
        self.probs[:, stale] = refreshed.probs
        self.gains[:, stale] = refreshed.gains
        half_share = np.broadcast_to(self._half_share, stale.shape)[stale]
        self.weights[:, stale] = half_share * screening_gains(refreshed.gains)
