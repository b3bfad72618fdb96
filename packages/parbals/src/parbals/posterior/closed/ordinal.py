"""Classes in order: one latent f and thresholds b_1 < … < b_{C-1} that cut it.

    p(y = k | f) = σ(b_{k+1} - f) - σ(b_k - f),      b_0 = -∞, b_C = ∞

A label's moments are differences of the means of σ and its derivatives (:mod:`parbals.mixture`), so
that sites of expectation propagation stay analytic. The likelihood is log-concave, as a difference
of logistic functions is.

Thresholds maximise the sum over labels of ln p(y_i | all other labels), with a prior that knows
classes without labels: a gap is e^γ, γ ~ N(ln(4 / (C - 1)), 1), and their middle N(0, 4²). Sites
and thresholds take turns: given cavities, thresholds are found by a quasi-Newton method.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from parbals.mixture import sigmoid_means
from parbals.posterior.closed.ep import cavities, latents_from_sites, site_moments
from parbals.posterior.closed.latents import Latents, SingleLatent, row_space
from parbals.posterior.closed.sites import Sites, settle
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Float, Int

__all__ = ["OrdinalPosterior", "fit_ordinal", "interval_evidence", "interval_probs"]

_Thresholds = Float[Array, " T"]
_Values = Float[Array, " n"]
_Labels = Int[Array, " n"]

_MOST_SWEEPS, _TOLERANCE = 30, 1e-4
_TURNS, _CLOSE = 8, 1e-2  # of sites and thresholds; logits
_SPREAD, _MIDDLE = 4.0, 4.0  # logits: of all gaps together, and deviation of their middle
_LEAST = 1e-12


@dataclass(frozen=True)
class OrdinalPosterior(SingleLatent):
    """The Gaussian of f given design rows X (n, d) and class numbers (n,), and the thresholds."""

    X: Float[Array, "n d"]
    labels: Int[Array, " n"]
    thresholds: Float[Array, " T"]
    sites: Sites
    latents: Latents
    change: float

    has_samples, n_latents = True, 1

    def predict_proba(self, X: Float[Array, "N d"]) -> Float[Array, "N C"]:
        """(N, C) probabilities of design rows X (N, d)."""
        mean, variance = self.latents.quick_marginals(X)
        return interval_probs(mean[:, 0], variance[:, 0], self.thresholds)

    def noise_at(
        self, mean: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """Variance (N,) of the noise of a number that would tell as much as a label.

        A label takes a v² of the variance v of f on the average, with slopes s_k of its P_k and
        a = Σ_k s_k² / P_k, and a number of noise σ² takes v² / (v + σ²).
        """
        numbers = np.arange(len(self.thresholds) + 1)
        parts = [
            interval_evidence(mean, variance, np.full(len(mean), number), self.thresholds)
            for number in numbers
        ]
        told = sum(np.exp(log_chance) * np.square(slope) for log_chance, slope, _ in parts)
        return np.maximum(1.0 / np.maximum(told, _LEAST) - variance, _LEAST)

    def leave_one_out(self) -> tuple[_Labels, Float[Array, "n C"]]:
        """Of every label, its cavity's."""
        left = cavities(*self.marginals(self.X), self.sites)
        return np.arange(len(self.X)), interval_probs(*left, self.thresholds)


def interval_probs(
    mean: Float[Array, " N"], variance: Float[Array, " N"], thresholds: _Thresholds
) -> Float[Array, "N C"]:
    """(N, C) E[p(y = k | f)], f ~ N(mean, variance)."""
    (above,) = sigmoid_means(
        mean[:, None] - thresholds, np.repeat(variance[:, None], len(thresholds), axis=1), 0
    )
    edges = np.ones((len(mean), 1)), above, np.zeros((len(mean), 1))
    probs = np.maximum(-np.diff(np.concatenate(edges, axis=1), axis=1), _LEAST)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def interval_evidence(
    mean: _Values, variance: _Values, labels: _Labels, thresholds: _Thresholds
) -> tuple[_Values, _Values, _Values]:
    """ln Z, d ln Z / dm and -d² ln Z / dm² of Z = E[p(y | f)], f ~ N(mean, variance)."""
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
    sums = np.zeros((3, len(mean)))
    for edge, sign in ((edges[labels], 1.0), (edges[labels + 1], -1.0)):
        is_cut = np.isfinite(edge)
        sums[0, edge == -np.inf] += sign  # everything lies above it
        parts = sigmoid_means(mean[is_cut] - edge[is_cut], variance[is_cut], 2)
        sums[:, is_cut] += sign * np.stack(parts)
    chance = np.maximum(sums[0], _LEAST)
    slope = sums[1] / chance
    return np.log(chance), slope, np.maximum(np.square(slope) - sums[2] / chance, 0.0)


def fit_ordinal(
    X: Float[Array, "n d"], labels: _Labels, n_classes: int, whitening: Whitening
) -> OrdinalPosterior:
    """Of design rows X (n, d) and class numbers; classes without labels have their place too."""
    thresholds = _placed(_start(n_classes))
    whitened = whitening.rows(X)
    rows = row_space(whitened).rows(whitened)
    sites, change = Sites(np.zeros(len(X)), np.zeros(len(X))), 0.0

    def marginals(sites: Sites) -> tuple[_Values, _Values]:
        mean, root = site_moments(rows, sites)
        return cavities(rows @ mean, np.square(rows @ root).sum(axis=1), sites)

    def renew(sites: Sites) -> Sites:
        mean, variance = marginals(sites)
        _, slope, curvature = interval_evidence(mean, variance, labels, thresholds)
        left = np.maximum(1.0 - variance * curvature, _LEAST)
        return Sites(np.maximum(curvature / left, _LEAST), (slope + mean * curvature) / left)

    for _ in range(_TURNS if len(X) else 0):
        sites, _, change = settle(renew, sites, _TOLERANCE, _MOST_SWEEPS)
        before, thresholds = thresholds, _best(thresholds, *marginals(sites), labels)
        if np.abs(thresholds - before).max() < _CLOSE:
            break
    latents = latents_from_sites(X, sites, whitening)
    return OrdinalPosterior(X, labels, thresholds, sites, latents, change)


def _start(n_classes: int) -> _Thresholds:
    """Middle and logarithms of gaps, as they are before any label."""
    n_gaps = n_classes - 2
    return np.append(0.0, np.full(n_gaps, np.log(_SPREAD / (n_classes - 1))))


def _placed(free: _Thresholds) -> _Thresholds:
    """Thresholds of a middle and logarithms of gaps."""
    steps = np.append(0.0, np.cumsum(np.exp(free[1:])))
    return free[0] + steps - steps.mean()


def _best(
    thresholds: _Thresholds, mean: _Values, variance: _Values, labels: _Labels
) -> _Thresholds:
    """Thresholds under which labels are most_likely_class, f ~ N(mean, variance) at each."""
    start = _start(len(thresholds) + 1)
    first = np.append(thresholds.mean(), np.log(np.diff(thresholds)))

    def loss(free: _Thresholds) -> float:
        log_chance = interval_evidence(mean, variance, labels, _placed(free))[0]
        apart = (free - start) / np.append(_MIDDLE, np.ones(len(free) - 1))
        return float(0.5 * np.square(apart).sum() - log_chance.sum())

    return _placed(np.clip(minimize(loss, first, method="L-BFGS-B").x, -30.0, 30.0))
