"""Two classes without draws: a Gaussian posterior by expectation propagation (Minka, 2001).

The model is f = z·v, p(y = 1 | z) = σ(f), v ~ N(0, I) for whitened rows z; v is the difference of
the two classes' weights. Every label becomes a Gaussian site exp(ν f - τ f²/2) whose moments agree
with those of the true likelihood under all other sites (the cavity). The likelihood is log-concave,
so τ ≥ 0 and all sites can be renewed at once. In the row space of the design, when there are fewer
rows than columns (the posterior equals the prior across it), a sweep costs n r² + r³ with
r = min(n, d). :mod:`parbals.posterior.evidence` has what its sites say about priors.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.channels import Channels
from parbals.posterior.row_space import row_space
from parbals.posterior.sites import SitePosterior, Sites, settle
from parbals.posterior.whitening import Whitening

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

    def marginals(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N,) of f at design rows X (N, d)."""
        mean, variance = self.channels.marginals(X)
        return mean[:, 0], variance[:, 0]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, 2) probabilities, E[σ(∓f)]."""
        mean, variance = self.channels.quick_marginals(X)
        return _two_classes(mean[:, 0], variance[:, 0])

    def left_out(self) -> np.ndarray:
        return _two_classes(*cavities(*self.marginals(self.X), self.sites))

    def problems(self) -> tuple[str, ...]:
        return self._unsettled(_SETTLED)

    def _refitted(self, X: np.ndarray, labels: np.ndarray, start: Sites) -> Self:
        return type(self)(**vars(fit_gaussian(X, labels, self.whitening, start)))


def fit_gaussian(
    X: np.ndarray, labels: np.ndarray, whitening: Whitening, start: Sites | None = None
) -> GaussianPosterior:
    """Expectation propagation on design rows X (n, d), labels 0 or 1."""
    whitened = whitening.rows(X)
    space = row_space(whitened)
    rows, signs = space.rows(whitened), 2.0 * labels - 1.0

    def renew(sites: Sites) -> Sites:
        mean, root = _moments(rows, sites)
        variance = np.square(rows @ root).sum(axis=1)
        return renewed_sites(*cavities(rows @ mean, variance, sites), signs)

    empty = np.zeros(len(X))
    settled = settle(renew, start or Sites(empty, empty), _TOLERANCE, _MOST_SWEEPS)
    mean, root = _moments(rows, settled.sites)
    channels = Channels(whitening, space.matrix(X.shape[1]), mean[:, None], root[None])
    return GaussianPosterior(X, labels, whitening, channels=channels, **settled._asdict())


def _two_classes(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    (second,) = sigmoid_means(mean, variance, 0)
    return np.stack([1.0 - second, second], axis=1)


def _moments(rows: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Mean (r,) and root (r, r) of the covariance, root rootᵀ = (I + Σ_i τ_i x_i x_iᵀ)⁻¹."""
    lower = cholesky(np.eye(rows.shape[1]) + (rows.T * sites.precisions) @ rows, lower=True)
    root = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    return cho_solve((lower, True), rows.T @ sites.shifts), root


def cavities(mean: np.ndarray, variance: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at every row under all sites but its own; all of one shape."""
    left = 1.0 - sites.precisions * variance
    return (mean - variance * sites.shifts) / left, variance / left


def renewed_sites(mean: np.ndarray, variance: np.ndarray, signs: np.ndarray) -> Sites:
    """Sites that give every row the moments of its cavity times the likelihood of its label ±1."""
    _, slope, curvature = label_evidence(mean, variance, signs)
    left = 1.0 - variance * curvature  # share of the cavity's variance that the label leaves
    return Sites(
        np.maximum(curvature / left, _LEAST_SHARE / np.maximum(variance, 1.0)),
        (slope + mean * curvature) / left,
    )
