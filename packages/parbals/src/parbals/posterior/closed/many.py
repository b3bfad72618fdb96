"""Several labels an item: a two-class posterior for each label, over one prior that all teach."""

from dataclasses import dataclass

import numpy as np

from parbals.posterior.closed.ep import GaussianPosterior, fit_gaussian
from parbals.posterior.closed.prior import Prior
from parbals.shapes import Array, Bool, Float, Int

__all__ = ["ManyPosterior", "fit_many_labels"]


@dataclass(frozen=True)
class ManyPosterior:
    """Independent posteriors of L labels that share a prior."""

    parts: tuple[GaussianPosterior, ...]

    n_classes, has_samples = 2, False

    def predict_proba(self, X: Float[Array, "N d"]) -> Float[Array, "N L"]:
        """(N, L) the probability of each label at design rows X (N, d)."""
        return np.stack([part.predict_proba(X)[:, 1] for part in self.parts], axis=1)

    def left_out(self) -> tuple[Int[Array, " n"], Float[Array, "n L"]]:
        """Places (n,) of the items, and the probability of each label by all items but them."""
        probs = np.stack([part.left_out()[1][:, 1] for part in self.parts], axis=1)
        return np.arange(len(probs)), probs


def fit_many_labels(
    X: Float[Array, "n d"], bits: Bool[Array, "n L"], prior: Prior
) -> ManyPosterior:
    """Of design rows X (n, d), and whether each item has each label."""
    whitening = prior.whitening.times(np.sqrt(2.0))  # as of a difference of two classes
    return ManyPosterior(
        tuple(fit_gaussian(X, bit.astype(np.int64), whitening, prior.sites) for bit in bits.T)
    )
