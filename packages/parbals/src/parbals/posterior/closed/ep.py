"""Two classes without draws: a Gaussian posterior by expectation propagation (Minka, 2001).

The model is f = z·v, p(y = 1 | z) = σ(f), v ~ N(0, I) for whitened rows z; v is the difference of
the two classes' weights. Every label becomes a Gaussian site exp(ν f - τ f²/2) whose moments agree
with those of the true likelihood under all other sites (the cavity). The likelihood is log-concave,
so τ ≥ 0 and all sites can be renewed at once. In the row space of the design, when there are fewer
rows than columns (the posterior equals the prior across it), a sweep costs n r² + r³ with
r = min(n, d).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.closed.channels import Channels, row_space
from parbals.posterior.closed.laplace import mode
from parbals.posterior.closed.sites import MANY, Kept, SitePosterior, Sites, settle, settle_many
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Float, Int

__all__ = ["GaussianPosterior", "cavities", "fit_gaussian", "renewed_sites"]

_MOST_SWEEPS = 200
_TOLERANCE = 1e-7
_SETTLED = 1e-3
_LEAST_SHARE = 1e-12


@dataclass(frozen=True)
class GaussianPosterior(SitePosterior):
    """A Gaussian for the difference of two classes' weights; labels are 0 or 1."""

    @property
    def n_classes(self) -> int:
        return 2

    def marginals(self, X: Float[Array, "N d"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """Mean and variance (N,) of f at design rows X (N, d)."""
        mean, variance = self.channels.marginals(X)
        return mean[:, 0], variance[:, 0]

    def predict_proba(self, X: Float[Array, "N d"]) -> Float[Array, "N C"]:
        """(N, 2) probabilities, E[σ(∓f)]."""
        mean, variance = self.channels.quick_marginals(X)
        return _two_classes(mean[:, 0], variance[:, 0])

    def left_out(self) -> tuple[Int[Array, " n"], Float[Array, "n C"]]:
        """Of every label, its cavity's."""
        probs = _two_classes(*cavities(*self.marginals(self.X), self.sites))
        return np.arange(len(probs)), probs

    def problems(self) -> tuple[str, ...]:
        return self._unsettled(_SETTLED)

    def _refitted(
        self,
        X: Float[Array, "n d"],
        labels: Int[Array, " n"],
        start: Sites,
        kept: Kept | None = None,
    ) -> "GaussianPosterior":
        return fit_gaussian(X, labels, self.whitening, start, kept)


def fit_gaussian(
    X: Float[Array, "n d"],
    labels: Int[Array, " n"],
    whitening: Whitening,
    start: Sites | None = None,
    kept: Kept | None = None,
) -> GaussianPosterior:
    """Expectation propagation on design rows X (n, d), labels 0 or 1.

    ``start``, ``kept``: what a fit of nearly the same labels found.
    """
    if len(X) >= max(MANY, X.shape[1]):
        return _fit_many(X, labels, whitening, start, kept)
    whitened = whitening.rows(X)
    space = row_space(whitened)
    rows, signs = space.rows(whitened), 2.0 * labels - 1.0

    def renew(sites: Sites) -> Sites:
        mean, root = _moments(rows, sites)
        variance = np.square(rows @ root).sum(axis=1)
        return renewed_sites(*cavities(rows @ mean, variance, sites), signs)

    empty = np.zeros(len(X))
    settled = settle(renew, start or Sites(empty, empty), _TOLERANCE, _MOST_SWEEPS)
    return _of_sites(X, labels, whitening, *settled)


def _fit_many(
    X: Float[Array, "n d"],
    labels: Int[Array, " n"],
    whitening: Whitening,
    start: Sites | None,
    kept: Kept | None,
) -> GaussianPosterior:
    rows = whitening.rows(X) if kept is None else kept.rows
    signs = 2.0 * labels[:, None] - 1.0
    settled, kept = settle_many(
        rows,
        None if start is None else Sites(*(x[:, None] for x in start)),
        np.multiply,
        lambda mean, variance, where: renewed_sites(mean, variance, signs[where]),
        # A contrast has half the variance of a difference, whose logits it is √2 times.
        lambda: mode(rows / np.sqrt(2.0), labels, 2),
        kept,
    )
    channels = Channels(whitening, np.eye(rows.shape[1]), kept.mean, kept.roots)
    sites = Sites(*(x[:, 0] for x in settled.sites))
    n_sweeps, change = settled.n_sweeps, settled.change
    return GaussianPosterior(X, labels, whitening, sites, channels, n_sweeps, change, kept)


def _of_sites(
    X: Float[Array, "n d"],
    labels: Int[Array, " n"],
    whitening: Whitening,
    sites: Sites,
    n_sweeps: int = 0,
    change: float = 0.0,
) -> GaussianPosterior:
    whitened = whitening.rows(X)
    space = row_space(whitened)
    mean, root = _moments(space.rows(whitened), sites)
    channels = Channels(whitening, space.matrix(X.shape[1]), mean[:, None], root[None])
    return GaussianPosterior(X, labels, whitening, sites, channels, n_sweeps, change)


def _two_classes(mean: Float[Array, " N"], variance: Float[Array, " N"]) -> Float[Array, "N 2"]:
    (second,) = sigmoid_means(mean, variance, 0)
    return np.stack([1.0 - second, second], axis=1)


def _moments(
    rows: Float[Array, "n r"], sites: Sites
) -> tuple[Float[Array, " r"], Float[Array, "r r"]]:
    """Mean (r,) and root (r, r) of the covariance, root rootᵀ = (I + Σ_i τ_i x_i x_iᵀ)⁻¹."""
    lower = cholesky(np.eye(rows.shape[1]) + (rows.T * sites.precisions) @ rows, lower=True)
    root = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    return cho_solve((lower, True), rows.T @ sites.shifts), root


def cavities(
    mean: Float[Array, "*n"], variance: Float[Array, "*n"], sites: Sites
) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Mean and variance of f at every row under all sites but its own; all of one shape."""
    left = 1.0 - sites.precisions * variance
    return (mean - variance * sites.shifts) / left, variance / left


def renewed_sites(
    mean: Float[Array, "*n"], variance: Float[Array, "*n"], signs: Float[Array, "*#n"]
) -> Sites:
    """Sites that give every row the moments of its cavity times the likelihood of its label ±1."""
    _, slope, curvature = label_evidence(mean, variance, signs)
    left = 1.0 - variance * curvature  # share of the cavity's variance that the label leaves
    return Sites(
        np.maximum(curvature / left, _LEAST_SHARE / np.maximum(variance, 1.0)),
        (slope + mean * curvature) / left,
    )
