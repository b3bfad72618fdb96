"""Two classes without draws: a Gaussian posterior by expectation propagation (Minka, 2001).

The model is f = z·v, p(y = 1 | z) = σ(f), v ~ N(0, I) for whitened rows z; v is the difference of
the two classes' weights. Every label becomes a Gaussian site exp(ν f - τ f²/2) whose moments agree
with those of the true likelihood under all other sites (the cavity). The likelihood is log-concave,
so τ ≥ 0 and all sites can be renewed at once. In the row space of the design, when there are fewer
rows than columns (the posterior equals the prior across it), a sweep costs n r² + r³ with
r = min(n, d).

A sweep renews all sites at once. Many labels that say the same overshoot together, so a step is
damped as soon as the changes grow; a quick return to whole steps would only start the next round of
that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.closed.channels import Channels, row_space
from parbals.posterior.closed.laplace import modal_logits
from parbals.posterior.closed.whitening import Whitening

__all__ = [
    "GaussianPosterior",
    "SitePosterior",
    "Sites",
    "cavities",
    "fit_gaussian",
    "renewed_sites",
    "settle",
]

_LEAST_STEP, _GROWTH = 0.02, 1.05


class Sites(NamedTuple):
    """exp(ν f - ½ τ f²) for every label: precisions τ and shifts ν, of one shape."""

    precisions: np.ndarray
    shifts: np.ndarray

    def with_more(self, n_rows: int) -> "Sites":
        """The same, and ``n_rows`` sites that say nothing yet."""
        return Sites(*(np.concatenate([x, np.zeros((n_rows, *x.shape[1:]))]) for x in self))


class Settled(NamedTuple):
    """Sites after the last sweep, and the largest relative change that it wanted."""

    sites: Sites
    n_sweeps: int
    change: float


def settle(
    renew: Callable[[Sites], Sites], sites: Sites, tolerance: float, most_sweeps: int
) -> Settled:
    """Renew the sites until none changes by more than ``tolerance`` of the largest."""
    change, step, n_sweeps = np.inf, 1.0, 0
    if sites.precisions.size == 0:
        return Settled(sites, 0, 0.0)
    while change >= tolerance and n_sweeps < most_sweeps:
        renewed = renew(sites)
        before, change = change, max(map(_relative_change, renewed, sites))
        step = max(0.5 * step, _LEAST_STEP) if change > before else min(_GROWTH * step, 1.0)
        sites = Sites(*(old + step * (new - old) for new, old in zip(renewed, sites, strict=True)))
        n_sweeps += 1
    return Settled(sites, n_sweeps, change)


def _relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """Largest change of a site, as a share of the largest site."""
    return float(np.abs(new - old).max() / max(np.abs(new).max(), 1e-300))


@dataclass(frozen=True)
class SitePosterior(ABC):
    """A Gaussian given design rows X (n, d) and class numbers, made of one site a label."""

    X: np.ndarray
    labels: np.ndarray
    whitening: Whitening  # the prior
    sites: Sites
    channels: Channels
    n_sweeps: int
    change: float
    """Largest relative change of a site that the last sweep wanted."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """C."""

    @abstractmethod
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, C) probabilities of design rows X (N, d)."""

    @abstractmethod
    def left_out(self) -> np.ndarray:
        """(n, C) probabilities of every labelled row by all labels but its own, its cavity's."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """What the user must be told."""

    @abstractmethod
    def at_mode(self) -> Self:
        """The Gaussian at the mode of the same posterior, with the curvature there as its sites."""

    @abstractmethod
    def _refitted(self, X: np.ndarray, labels: np.ndarray, start: Sites) -> Self:
        """The posterior of these labels under the same prior."""

    def condition(self, X_new: np.ndarray, labels_new: np.ndarray) -> Self:
        """The posterior that also knows these labels; the old sites are where it starts."""
        X, labels = np.concatenate([self.X, X_new]), np.append(self.labels, labels_new)
        return self._refitted(X, labels, self.sites.with_more(len(X_new)))

    def _unsettled(self, allowed: float) -> tuple[str, ...]:
        """A sentence if sites still changed when the sweeps were used up."""
        if self.change < allowed:
            return ()
        return (
            f"Expectation propagation did not settle: after {self.n_sweeps} sweeps a site still "
            f"changed by {self.change:.1g} of the largest. Standardise the features, use a smaller "
            'prior_scale, or use inference="smc".',
        )


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

    def at_mode(self) -> Self:
        f = modal_logits(self.whitening.times(np.sqrt(0.5)).rows(self.X), self.labels, 2)
        f = f[:, 1] - f[:, 0]
        probs = expit(f)
        precisions = probs * (1.0 - probs)
        sites = Sites(precisions, precisions * f + self.labels - probs)
        return type(self)(**vars(_of_sites(self.X, self.labels, self.whitening, sites)))

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
    return _of_sites(X, labels, whitening, *settled)


def _of_sites(
    X: np.ndarray,
    labels: np.ndarray,
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
