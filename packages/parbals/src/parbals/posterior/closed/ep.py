"""Two classes in closed form: a Gaussian posterior by expectation propagation (Minka, 2001).

The model is f = z·v, p(y = 1 | z) = σ(f), v ~ N(0, I) for whitened rows z; v is the difference of
the two classes' weights. Every label becomes a Gaussian site exp(ν f - τ f²/2), which matches the
moments of the true likelihood under all other sites (the cavity). The likelihood is log-concave, so
τ ≥ 0 and all sites can be updated at once.

Labels of noisy annotators are possible under both classes: their likelihood is λ + (1 - λ) σ(±f) up
to a factor, an affine mix of the same moments. It is not log-concave; where it would widen the
posterior, τ is kept near zero.

With fewer rows than columns the computation takes place in the row space of the design, because
the posterior equals the prior orthogonal to it. A sweep costs n r² + r³ with r = min(n, d).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.arrays import inverse_lower
from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.closed.labels import Labels, most_likely_class
from parbals.posterior.closed.laplace import mode
from parbals.posterior.closed.latents import Latents, SingleLatent, row_space
from parbals.posterior.closed.many_labels import fit_many_sites
from parbals.posterior.closed.moments import MANY_LABELS
from parbals.posterior.closed.sites import (
    LeaveOneOut,
    SitePosterior,
    Sites,
    WarmStart,
    iterate_to_convergence,
)
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Float

__all__ = [
    "GaussianPosterior",
    "cavities",
    "fit_gaussian",
    "latents_from_sites",
    "matched_sites",
    "site_moments",
]

_Values = Float[Array, "*n"]

_MAX_SWEEPS = 200
_TOLERANCE = 1e-7  # on the residual, to stop
_ACCEPTABLE_RESIDUAL = 1e-3  # above it, the fit reports a problem
_MIN_PRECISION = 1e-12  # relative to the inverse of the cavity's variance
_TINY = 1e-300  # guards a division


@dataclass(frozen=True)
class GaussianPosterior(SingleLatent, SitePosterior):
    """Gaussian posterior of the difference of two classes' weights; labels are 0 or 1.

    See :func:`fit_gaussian` for an example.
    """

    @property
    def n_classes(self) -> int:
        return 2

    def predict_proba(self, X: Float[Array, "N d"]) -> Float[Array, "N C"]:
        """Probabilities (N, 2) of design rows X (N, d): E[σ(∓f)]."""
        mean, variance = self.latents.quick_marginals(X)
        return _binary_probs(mean[:, 0], variance[:, 0])

    def leave_one_out(self, *, all_labels: bool = True) -> LeaveOneOut:
        """Predict every labelled row under its cavity."""
        cavity_mean, cavity_variance = cavities(*self.marginals(self.X), self.sites)
        probs = _binary_probs(cavity_mean, cavity_variance)
        return LeaveOneOut(np.arange(len(probs)), probs)

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for every failed check of the fit."""
        return self._convergence_problems(_ACCEPTABLE_RESIDUAL)

    def _refit(
        self,
        X: Float[Array, "n d"],
        labels: Labels,
        start: Sites,
        warm_start: WarmStart | None = None,
    ) -> "GaussianPosterior":
        return fit_gaussian(X, labels, self.whitening, start, warm_start)


def fit_gaussian(
    X: Float[Array, "n d"],
    labels: Labels,
    whitening: Whitening,
    start: Sites | None = None,
    warm_start: WarmStart | None = None,
) -> GaussianPosterior:
    """Fit two classes by expectation propagation.

    Args:
        X: design rows (n, d).
        labels: 0 or 1 (n,), or likelihoods (n, 2).
        whitening: the prior of the weights' difference.
        start: sites of a fit to nearly the same labels.
        warm_start: state of that fit, where there are many labels.

    >>> from parbals.posterior.closed.whitening import Whitening
    >>> X = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> posterior = fit_gaussian(X, np.array([0, 1]), Whitening.diagonal(np.ones(2)))
    >>> posterior.predict_proba(X).round(2)
    array([[0.64, 0.36],
           [0.36, 0.64]], dtype=float32)
    """
    if len(X) >= max(MANY_LABELS, X.shape[1]):
        return _fit_many(X, labels, whitening, start, warm_start)
    whitened = whitening.rows(X)
    rows = row_space(whitened).rows(whitened)
    signs = 2.0 * most_likely_class(labels) - 1.0
    label_noise = _label_noise(labels)

    def update(sites: Sites) -> Sites:
        mean, root = site_moments(rows, sites)
        variance = np.square(rows @ root).sum(axis=1)
        cavity_mean, cavity_variance = cavities(rows @ mean, variance, sites)
        return matched_sites(cavity_mean, cavity_variance, signs, label_noise)

    if start is None:
        flat = np.zeros(len(X))
        start = Sites(flat, flat)
    result = iterate_to_convergence(update, start, _TOLERANCE, _MAX_SWEEPS)
    return GaussianPosterior(
        X=X,
        labels=labels,
        whitening=whitening,
        sites=result.sites,
        latents=latents_from_sites(X, result.sites, whitening),
        n_sweeps=result.n_sweeps,
        residual=result.residual,
    )


def _fit_many(
    X: Float[Array, "n d"],
    labels: Labels,
    whitening: Whitening,
    start: Sites | None,
    warm_start: WarmStart | None,
) -> GaussianPosterior:
    """Fit thousands of labels, see :func:`parbals.posterior.closed.many_labels.fit_many_sites`."""
    rows = whitening.rows(X) if warm_start is None else warm_start.rows
    signs = 2.0 * most_likely_class(labels)[:, None] - 1.0
    label_noise = _label_noise(labels)

    def match_moments(mean: np.ndarray, variance: np.ndarray, selected: Any) -> Sites:
        noise = None if label_noise is None else label_noise[selected, None]
        return matched_sites(mean, variance, signs[selected], noise)

    def posterior_mode() -> np.ndarray:
        # A contrast has half the variance of a difference, whose logits it is √2 times.
        return mode(rows / np.sqrt(2.0), most_likely_class(labels), 2)

    if start is not None:
        start = Sites(start.precisions[:, None], start.linear_terms[:, None])
    result, warm_start = fit_many_sites(
        rows, start, np.multiply, match_moments, posterior_mode, warm_start
    )
    precisions, linear_terms = result.sites
    return GaussianPosterior(
        X=X,
        labels=labels,
        whitening=whitening,
        sites=Sites(precisions[:, 0], linear_terms[:, 0]),
        latents=Latents(whitening, np.eye(rows.shape[1]), warm_start.mean, warm_start.roots),
        n_sweeps=result.n_sweeps,
        residual=result.residual,
        warm_start=warm_start,
    )


def latents_from_sites(X: Float[Array, "n d"], sites: Sites, whitening: Whitening) -> Latents:
    """The posterior of the single latent, given design rows X (n, d) and sites (n,)."""
    whitened = whitening.rows(X)
    space = row_space(whitened)
    mean, root = site_moments(space.rows(whitened), sites)
    return Latents(whitening, space.matrix(X.shape[1]), mean[:, None], root[None])


def _binary_probs(mean: Float[Array, " N"], variance: Float[Array, " N"]) -> Float[Array, "N 2"]:
    """Probabilities (N, 2) of both classes, f ~ N(mean, variance)."""
    (second_class,) = sigmoid_means(mean, variance, 0)
    return np.stack([1.0 - second_class, second_class], axis=1)


def site_moments(
    rows: Float[Array, "n r"], sites: Sites
) -> tuple[Float[Array, " r"], Float[Array, "r r"]]:
    """Posterior mean (r,) and root (r, r) of the covariance, R Rᵀ = (I + Σ_i τ_i x_i x_iᵀ)⁻¹.

    >>> site_moments(np.array([[1.0]]), Sites(np.array([3.0]), np.array([2.0])))
    (array([0.5]), array([[0.5]]))
    """
    lower = np.linalg.cholesky(np.eye(rows.shape[1]) + (rows.T * sites.precisions) @ rows)
    root = inverse_lower(lower).T
    return root @ (root.T @ (rows.T @ sites.linear_terms)), root


def cavities(mean: _Values, variance: _Values, sites: Sites) -> tuple[_Values, _Values]:
    """Mean and variance of f at every row under all sites but its own; all of one shape.

    >>> cavities(np.array([1.0]), np.array([0.5]), Sites(np.array([1.0]), np.array([1.0])))
    (array([1.]), array([1.]))
    """
    remaining = 1.0 - sites.precisions * variance
    return (mean - variance * sites.linear_terms) / remaining, variance / remaining


def _label_noise(labels: Labels) -> Float[Array, " n"] | None:
    """λ: likelihood of the less likely class relative to the other; None for class numbers."""
    return None if labels.ndim == 1 else labels.min(axis=1) / labels.max(axis=1)


def matched_sites(
    mean: _Values,
    variance: _Values,
    signs: Float[Array, "*#n"],
    label_noise: Float[Array, "*#n"] | None = None,
) -> Sites:
    """Sites that match the moments of cavity times likelihood, for labels ±1.

    With ``label_noise`` λ the likelihood is λ + (1 - λ) σ(±f). If α is the slope and β the
    curvature of ln Z, Z = E[σ(±f)], and s is the second term's share in λ + (1 - λ) Z, then the
    slope becomes s α and the curvature s β - s (1 - s) α².

    Args:
        mean: of the cavities.
        variance: of the cavities.
        signs: the labels.
        label_noise: λ; by default none.
    """
    log_evidence, slope, curvature = label_evidence(mean, variance, signs)
    if label_noise is not None:
        evidence = (1.0 - label_noise) * np.exp(log_evidence)
        share = evidence / np.maximum(label_noise + evidence, _TINY)
        curvature = share * np.maximum(curvature - (1.0 - share) * np.square(slope), 0.0)
        slope = share * slope
    remaining = 1.0 - variance * curvature  # the label's share of the cavity's variance is gone
    return Sites(
        precisions=np.maximum(curvature / remaining, _MIN_PRECISION / np.maximum(variance, 1.0)),
        linear_terms=(slope + mean * curvature) / remaining,
    )
