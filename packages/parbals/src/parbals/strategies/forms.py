"""The screen of many rows by quadratic forms: no table of pairs.

The covariance of a row's whitened coordinates z with anything is linear in them. With H_a (d, M)
for the targets, c = z H_a, and with weights w of the targets

    Σ w c² = z (H_a diag(w) H_aᵀ) zᵀ,

a quadratic form in as many coordinates as there are features, often fewer than targets. The
variance is another, z Σ_a zᵀ.

While a batch grows the forms are those of its *mean universe*, whose mean, covariance and weights
are the means over the universes (:mod:`parbals.strategies.conditioning`):

    Σ̄ = Σ - L W̄ Lᵀ,      H̄ = H - L W̄ B,      W̄ = mean over universes of K Kᵀ,

where L (d, R) maps z to the covariances with the labelled points, and B (R, M) are those of the
labelled points with the targets. A mean of products is then a product of means, so these scores
are approximate, at a tenth of the work of ten universes.
"""

import numpy as np

from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import approximate_gains, screening_gains
from parbals.shapes import Array, Float, Int
from parbals.strategies.conditioning import UniverseState
from parbals.strategies.scoring import Rows, ScoringContext, row_operations

__all__ = ["QuadraticScreen", "initial_covariance"]


class QuadraticScreen:
    """The screen of rows under one normal distribution of the weights, in whitened coordinates.

    Args:
        whitening: the map of design rows to whitened coordinates z (d,).
        location: mean of the weights.
        covariance: Σ of the weights.
        target_map: H, the map of z to the covariances with the targets.
        target_gains: gains of the targets, weighted by their share.
    """

    def __init__(
        self,
        whitening: Whitening,
        location: Float[Array, "d A"],
        covariance: Float[Array, "A d d"],
        target_map: Float[Array, "A d M"],
        target_gains: Float[Array, "A M"],
    ) -> None:
        self._whitening = whitening
        self.n_columns = len(location)
        forms = (target_map * (0.5 * target_gains)[:, None]) @ target_map.swapaxes(1, 2)
        self._location = location
        self._forms: Float[Array, "A d e"] = np.concatenate([covariance, forms], axis=2)

    @classmethod
    def before_batch(cls, context: ScoringContext) -> "QuadraticScreen":
        """The screen before the batch."""
        return cls(
            context.whitening,
            context.basis @ context.location,
            initial_covariance(context),
            _covariance_map(context, context.target_rows),
            context.share * screening_gains(context.targets.gains),
        )

    @classmethod
    def of_mean_universe(
        cls, context: ScoringContext, state: UniverseState, members: Int[Array, " U"]
    ) -> "QuadraticScreen":
        """The screen of the mean universe.

        Args:
            context: posterior and targets before the batch.
            state: the distinct universes.
            members: the distinct universe of each universe.
        """
        universe_share = (np.bincount(members) / len(members)).astype(np.float32)
        labelled_map = _covariance_map(context, state.labelled)
        shares = universe_share[:, None, None]
        cov_coef = ((shares * state.cov_root) @ state.cov_root.swapaxes(2, 3)).sum(axis=1)
        coefficients = labelled_map @ cov_coef
        mean_coef = universe_share @ state.mean_coef  # (A, R)
        gains = screening_gains(approximate_gains(state.target_mean, state.target_variance))
        return cls(
            context.whitening,
            context.basis @ context.location + (labelled_map @ mean_coef[:, :, None])[:, :, 0].T,
            initial_covariance(context) - coefficients @ labelled_map.swapaxes(1, 2),
            _covariance_map(context, context.target_rows) - coefficients @ state.target_cov,
            context.share * np.einsum("v,avm->am", universe_share, gains),
        )

    @staticmethod
    def is_cheaper(context: ScoringContext) -> bool:
        """Whether the quadratic forms take fewer operations than the table of pairs."""
        n_columns, n_inside = context.basis.shape
        operations = row_operations(
            n_columns, n_inside, n_latents=len(context.roots), n_targets=len(context.share)
        )
        return operations.by_form < operations.by_pairs

    def scores(self, features: Float[Array, "n D"]) -> Float[Array, " n"]:
        """Screening scores of rows of features."""
        whitened = self._whitening.rows(add_bias(features, np.float32))
        sums = np.empty((2, len(self._forms), len(whitened)), np.float32)
        for latent, form in enumerate(self._forms):
            products = (whitened @ form).reshape(len(whitened), 2, -1)
            np.einsum("nkd,nd->kn", products, whitened, out=sums[:, latent])
        variance, squares = np.maximum(sums, 0.0)
        row_gains = screening_gains(approximate_gains((whitened @ self._location).T, variance))
        return (row_gains * squares).sum(axis=0)


def initial_covariance(context: ScoringContext) -> Float[Array, "A d d"]:
    """Σ before the batch: the covariance of the weights of every latent."""
    inside = context.basis @ context.roots  # (A, d, r)
    covariance = inside @ inside.swapaxes(1, 2)
    if context.target_rows.orthogonal.shape[1]:
        covariance += np.eye(len(context.basis), dtype=np.float32) - context.basis @ context.basis.T
    return covariance


def _covariance_map(context: ScoringContext, rows: Rows) -> Float[Array, "A d m"]:
    """The map of whitened coordinates to the covariances with these rows."""
    covariance_map = context.basis @ (context.roots @ rows.factor.swapaxes(1, 2))
    if rows.orthogonal.shape[1]:
        covariance_map = rows.orthogonal.T + covariance_map
    return covariance_map
