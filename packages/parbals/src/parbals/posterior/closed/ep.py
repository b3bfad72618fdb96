"""Two classes without draws: a Gaussian posterior by expectation propagation (Minka, 2001).

The model is f = z·v, p(y = 1 | z) = σ(f), v ~ N(0, I) for whitened rows z; v is the difference of
the two classes' weights. Every label becomes a Gaussian site exp(ν f - τ f²/2) whose moments agree
with those of the true likelihood under all other sites (the cavity). The likelihood is log-concave,
so τ ≥ 0 and all sites can be renewed at once. What fallible people answered is likely by both
classes, λ + (1 - λ) σ(±f) up to a factor: an affine mix of the same moments, no longer log-concave,
and where it would widen the posterior τ stays near zero. In the row space of the design, when there
are fewer rows than columns (the posterior equals the prior across it), a sweep costs n r² + r³ with
r = min(n, d).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.closed.laplace import mode
from parbals.posterior.closed.latents import Latents, SingleLatent, row_space
from parbals.posterior.closed.sites import (
    MANY_LABELS,
    Kept,
    Labels,
    SitePosterior,
    Sites,
    most_likely_class,
    settle,
    settle_many,
)
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Float, Int

__all__ = ["GaussianPosterior", "cavities", "fit_gaussian", "renewed_sites"]
__all__ += ["latents_from_sites", "site_moments"]

_Values = Float[Array, "*n"]

_MOST_SWEEPS = 200
_TOLERANCE = 1e-7
_SETTLED = 1e-3
_LEAST_SHARE, _NOTHING = 1e-12, 1e-300


@dataclass(frozen=True)
class GaussianPosterior(SingleLatent, SitePosterior):
    """A Gaussian for the difference of two classes' weights; labels are 0 or 1."""

    @property
    def n_classes(self) -> int:
        return 2

    def predict_proba(self, X: Float[Array, "N d"]) -> Float[Array, "N C"]:
        """(N, 2) probabilities, E[σ(∓f)]."""
        mean, variance = self.latents.quick_marginals(X)
        return _two_classes(mean[:, 0], variance[:, 0])

    def leave_one_out(
        self, *, all_labels: bool = True
    ) -> tuple[Int[Array, " n"], Float[Array, "n C"]]:
        """Of every label, its cavity's."""
        probs = _two_classes(*cavities(*self.marginals(self.X), self.sites))
        return np.arange(len(probs)), probs

    def problems(self) -> tuple[str, ...]:
        return self._unsettled(_SETTLED)

    def _refitted(
        self, X: Float[Array, "n d"], labels: Labels, start: Sites, kept: Kept | None = None
    ) -> "GaussianPosterior":
        return fit_gaussian(X, labels, self.whitening, start, kept)


def fit_gaussian(
    X: Float[Array, "n d"],
    labels: Labels,
    whitening: Whitening,
    start: Sites | None = None,
    kept: Kept | None = None,
) -> GaussianPosterior:
    """Expectation propagation on design rows X (n, d), labels 0 or 1, or likelihoods (n, 2).

    ``start``, ``kept``: what a fit of nearly the same labels found.
    """
    if len(X) >= max(MANY_LABELS, X.shape[1]):
        return _fit_many(X, labels, whitening, start, kept)
    whitened = whitening.rows(X)
    space = row_space(whitened)
    rows, signs, doubts = (
        space.rows(whitened),
        2.0 * most_likely_class(labels) - 1.0,
        _doubts(labels),
    )

    def renew(sites: Sites) -> Sites:
        mean, root = site_moments(rows, sites)
        variance = np.square(rows @ root).sum(axis=1)
        return renewed_sites(*cavities(rows @ mean, variance, sites), signs, doubts)

    empty = np.zeros(len(X))
    sites, n_sweeps, change = settle(renew, start or Sites(empty, empty), _TOLERANCE, _MOST_SWEEPS)
    latents = latents_from_sites(X, sites, whitening)
    return GaussianPosterior(X, labels, whitening, sites, latents, n_sweeps, change)


def _fit_many(
    X: Float[Array, "n d"],
    labels: Labels,
    whitening: Whitening,
    start: Sites | None,
    kept: Kept | None,
) -> GaussianPosterior:
    rows = whitening.rows(X) if kept is None else kept.rows
    signs, doubts = 2.0 * most_likely_class(labels)[:, None] - 1.0, _doubts(labels)

    def renewed(mean: np.ndarray, variance: np.ndarray, where: Any) -> Sites:
        doubt = None if doubts is None else doubts[where, None]
        return renewed_sites(mean, variance, signs[where], doubt)

    settled, kept = settle_many(
        rows,
        None if start is None else Sites(*(x[:, None] for x in start)),
        np.multiply,
        renewed,
        # A contrast has half the variance of a difference, whose logits it is √2 times.
        lambda: mode(rows / np.sqrt(2.0), most_likely_class(labels), 2),
        kept,
    )
    latents = Latents(whitening, np.eye(rows.shape[1]), kept.mean, kept.roots)
    sites = Sites(*(x[:, 0] for x in settled.sites))
    n_sweeps, change = settled.n_sweeps, settled.change
    return GaussianPosterior(X, labels, whitening, sites, latents, n_sweeps, change, kept)


def latents_from_sites(X: Float[Array, "n d"], sites: Sites, whitening: Whitening) -> Latents:
    """The one latent of design rows X (n, d) that these sites (n,) leave."""
    whitened = whitening.rows(X)
    space = row_space(whitened)
    mean, root = site_moments(space.rows(whitened), sites)
    return Latents(whitening, space.matrix(X.shape[1]), mean[:, None], root[None])


def _two_classes(mean: Float[Array, " N"], variance: Float[Array, " N"]) -> Float[Array, "N 2"]:
    (second,) = sigmoid_means(mean, variance, 0)
    return np.stack([1.0 - second, second], axis=1)


def site_moments(
    rows: Float[Array, "n r"], sites: Sites
) -> tuple[Float[Array, " r"], Float[Array, "r r"]]:
    """Mean (r,) and root (r, r) of the covariance, root rootᵀ = (I + Σ_i τ_i x_i x_iᵀ)⁻¹."""
    lower = cholesky(np.eye(rows.shape[1]) + (rows.T * sites.precisions) @ rows, lower=True)
    root = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    return cho_solve((lower, True), rows.T @ sites.shifts), root


def cavities(mean: _Values, variance: _Values, sites: Sites) -> tuple[_Values, _Values]:
    """Mean and variance of f at every row under all sites but its own; all of one shape."""
    left = 1.0 - sites.precisions * variance
    return (mean - variance * sites.shifts) / left, variance / left


def _doubts(labels: Labels) -> Float[Array, " n"] | None:
    """How likely the other of two classes is beside the likelier one; None of class numbers."""
    return None if labels.ndim == 1 else labels.min(axis=1) / labels.max(axis=1)


def renewed_sites(
    mean: _Values,
    variance: _Values,
    signs: Float[Array, "*#n"],
    doubts: Float[Array, "*#n"] | None = None,
) -> Sites:
    """Sites that give every row the moments of its cavity times the likelihood of its label ±1.

    With ``doubts`` λ that likelihood is λ + (1 - λ) σ(±f). If Z = E[σ(±f)] has the slope α and the
    curvature β of ln Z, and s is the second term's share in λ + (1 - λ) Z, then the slope becomes
    s α and the curvature s β - s (1 - s) α².
    """
    log_evidence, slope, curvature = label_evidence(mean, variance, signs)
    if doubts is not None:
        evidence = (1.0 - doubts) * np.exp(log_evidence)
        share = evidence / np.maximum(doubts + evidence, _NOTHING)
        curvature = share * np.maximum(curvature - (1.0 - share) * np.square(slope), 0.0)
        slope = share * slope
    left = 1.0 - variance * curvature  # share of the cavity's variance that the label leaves
    return Sites(
        np.maximum(curvature / left, _LEAST_SHARE / np.maximum(variance, 1.0)),
        (slope + mean * curvature) / left,
    )
