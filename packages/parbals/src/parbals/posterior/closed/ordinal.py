"""Ordinal regression: one latent f and thresholds b_1 < … < b_{C-1} between ordered classes.

    p(y = k | f) = σ(b_{k+1} - f) - σ(b_k - f),      b_0 = -∞, b_C = ∞

A label's moments are differences of the means of σ and its derivatives (:mod:`parbals.mixture`), so
that the sites of expectation propagation stay analytic. The likelihood is log-concave, because a
difference of logistic functions is.

Thresholds maximise Σ_i ln p(y_i | all other labels), with a prior for classes without labels: a gap
is e^γ, γ ~ N(ln(4 / (C - 1)), 1), and the thresholds' mean is N(0, 4²). Sites and thresholds
alternate: given the cavities, thresholds are found by a quasi-Newton method.

The thresholds of a leave-one-out prediction must not have seen the label, either: with many classes
a threshold rests on a few labels next to it. The labels are divided into forty folds, single labels
where there are no more, and the thresholds for each are fitted to the cavities of all others.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from parbals.mixture import sigmoid_means
from parbals.posterior.closed.ep import cavities, latents_from_sites, site_moments
from parbals.posterior.closed.latents import Latents, SingleLatent, row_space
from parbals.posterior.closed.sites import LeaveOneOut, Sites, iterate_to_convergence
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Float, Int

__all__ = ["OrdinalPosterior", "fit_ordinal", "interval_evidence", "interval_probs"]

_Thresholds = Float[Array, " T"]
_Values = Float[Array, " n"]
_Labels = Int[Array, " n"]

_MAX_SWEEPS = 30
_TOLERANCE = 1e-4  # on the sites' residual
_MAX_ALTERNATIONS = 8  # of sites and thresholds
_THRESHOLD_TOLERANCE = 1e-2  # logits
_PRIOR_RANGE = 4.0  # logits: of all gaps together
_PRIOR_MIDDLE_SD = 4.0  # logits: of the thresholds' mean
_N_FOLDS = 40  # of leave-one-out predictions: each has thresholds without these labels
_EPS = 1e-12  # guards log and division


@dataclass(frozen=True)
class OrdinalPosterior(SingleLatent):
    """Gaussian posterior of f given design rows X (n, d) and class numbers (n,), and thresholds.

    See :func:`fit_ordinal` for an example.
    """

    X: Float[Array, "n d"]
    labels: Int[Array, " n"]
    thresholds: Float[Array, " T"]
    sites: Sites
    latents: Latents
    residual: float  # largest relative change of a site in the last sweep

    has_samples = True
    n_latents = 1

    def predict_proba(self, X: Float[Array, "N d"]) -> Float[Array, "N C"]:
        """Probabilities (N, C) of design rows X (N, d)."""
        mean, variance = self.latents.quick_marginals(X)
        return interval_probs(mean[:, 0], variance[:, 0], self.thresholds)

    def noise_at(
        self, mean: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """Noise variance (N,) of a number that would be as informative as a label.

        A label reduces the variance v of f by a v² on average, a = Σ_k s_k² / P_k with the slopes
        s_k of P_k; a number with noise σ² reduces it by v² / (v + σ²).
        """
        information = np.zeros(len(mean))
        for label in range(len(self.thresholds) + 1):
            labels = np.full(len(mean), label)
            log_prob, slope, _ = interval_evidence(mean, variance, labels, self.thresholds)
            information = information + np.exp(log_prob) * np.square(slope)
        return np.maximum(1.0 / np.maximum(information, _EPS) - variance, _EPS)

    def leave_one_out(self) -> LeaveOneOut:
        """Predict every labelled row under its cavity, by thresholds fitted without its label."""
        n_rows = len(self.X)
        mean, variance = cavities(*self.marginals(self.X), self.sites)
        probs = np.empty((n_rows, len(self.thresholds) + 1))
        folds = np.arange(n_rows) % _N_FOLDS
        for fold in range(min(_N_FOLDS, n_rows)):
            test = folds == fold
            train = ~test
            thresholds = _fit_thresholds(
                self.thresholds, mean[train], variance[train], self.labels[train]
            )
            probs[test] = interval_probs(mean[test], variance[test], thresholds)
        return LeaveOneOut(np.arange(n_rows), probs)


def interval_probs(
    mean: Float[Array, " N"], variance: Float[Array, " N"], thresholds: _Thresholds
) -> Float[Array, "N C"]:
    """Probabilities (N, C) of the ordered classes: E[p(y = k | f)], f ~ N(mean, variance).

    >>> interval_probs(np.zeros(1), np.ones(1), np.array([-1.0, 1.0])).round(2)
    array([[0.3 , 0.39, 0.3 ]])
    """
    (above,) = sigmoid_means(
        mean[:, None] - thresholds, np.repeat(variance[:, None], len(thresholds), axis=1), 0
    )
    ones = np.ones((len(mean), 1))
    zeros = np.zeros((len(mean), 1))
    probs = np.maximum(-np.diff(np.concatenate([ones, above, zeros], axis=1), axis=1), _EPS)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def interval_evidence(
    mean: _Values, variance: _Values, labels: _Labels, thresholds: _Thresholds
) -> tuple[_Values, _Values, _Values]:
    """ln Z, d ln Z / dm and -d² ln Z / dm² of Z = E[p(y | f)], f ~ N(mean, variance).

    >>> log_z, slope, curvature = interval_evidence(
    ...     np.zeros(1), np.ones(1), np.array([1]), np.array([-1.0, 1.0])
    ... )
    >>> np.exp(log_z).round(2)
    array([0.39])
    """
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
    sums = np.zeros((3, len(mean)))
    for edge, sign in ((edges[labels], 1.0), (edges[labels + 1], -1.0)):
        is_finite = np.isfinite(edge)
        sums[0, edge == -np.inf] += sign  # everything lies above it
        derivatives = sigmoid_means(mean[is_finite] - edge[is_finite], variance[is_finite], 2)
        sums[:, is_finite] += sign * np.stack(derivatives)
    prob = np.maximum(sums[0], _EPS)
    slope = sums[1] / prob
    return np.log(prob), slope, np.maximum(np.square(slope) - sums[2] / prob, 0.0)


def fit_ordinal(
    X: Float[Array, "n d"], labels: _Labels, n_classes: int, whitening: Whitening
) -> OrdinalPosterior:
    """Fit ordered classes by expectation propagation; classes may be without labels.

    Args:
        X: design rows (n, d).
        labels: class numbers (n,).
        n_classes: C.
        whitening: the prior of the weights.

    >>> from parbals.posterior.closed.whitening import Whitening
    >>> X = np.array([[-2.0, 1.0], [0.0, 1.0], [2.0, 1.0]])
    >>> posterior = fit_ordinal(X, np.array([0, 1, 2]), 3, Whitening.diagonal(np.ones(2)))
    >>> posterior.predict_proba(X).argmax(axis=1)
    array([0, 1, 2])
    """
    thresholds = _thresholds(_prior_parameters(n_classes))
    whitened = whitening.rows(X)
    rows = row_space(whitened).rows(whitened)
    sites = Sites(np.zeros(len(X)), np.zeros(len(X)))
    residual = 0.0

    def row_cavities(sites: Sites) -> tuple[_Values, _Values]:
        mean, root = site_moments(rows, sites)
        return cavities(rows @ mean, np.square(rows @ root).sum(axis=1), sites)

    def update(sites: Sites) -> Sites:
        mean, variance = row_cavities(sites)
        _, slope, curvature = interval_evidence(mean, variance, labels, thresholds)
        remaining = np.maximum(1.0 - variance * curvature, _EPS)
        return Sites(
            precisions=np.maximum(curvature / remaining, _EPS),
            linear_terms=(slope + mean * curvature) / remaining,
        )

    for _ in range(_MAX_ALTERNATIONS if len(X) else 0):
        sites, _, residual = iterate_to_convergence(update, sites, _TOLERANCE, _MAX_SWEEPS)
        previous = thresholds
        mean, variance = row_cavities(sites)
        thresholds = _fit_thresholds(previous, mean, variance, labels)
        if np.abs(thresholds - previous).max() < _THRESHOLD_TOLERANCE:
            break
    return OrdinalPosterior(
        X=X,
        labels=labels,
        thresholds=thresholds,
        sites=sites,
        latents=latents_from_sites(X, sites, whitening),
        residual=residual,
    )


def _prior_parameters(n_classes: int) -> _Thresholds:
    """The thresholds' mean and the logarithms of their gaps, before any label."""
    n_gaps = n_classes - 2
    return np.append(0.0, np.full(n_gaps, np.log(_PRIOR_RANGE / (n_classes - 1))))


def _thresholds(parameters: _Thresholds) -> _Thresholds:
    """Thresholds from their mean and the logarithms of their gaps."""
    steps = np.append(0.0, np.cumsum(np.exp(parameters[1:])))
    return parameters[0] + steps - steps.mean()


def _fit_thresholds(
    thresholds: _Thresholds, mean: _Values, variance: _Values, labels: _Labels
) -> _Thresholds:
    """Maximum a posteriori thresholds, f ~ N(mean, variance) at each label.

    ``thresholds`` are those to start from.
    """
    prior_mean = _prior_parameters(len(thresholds) + 1)
    prior_deviation = np.append(_PRIOR_MIDDLE_SD, np.ones(len(prior_mean) - 1))
    start = np.append(thresholds.mean(), np.log(np.diff(thresholds)))

    def loss(parameters: _Thresholds) -> tuple[float, _Thresholds]:
        value, by_threshold = _label_loss(_thresholds(parameters), mean, variance, labels)
        standardised = (parameters - prior_mean) / prior_deviation
        gradient = standardised / prior_deviation
        gradient[0] += by_threshold.sum()
        # A gap moves the thresholds above it up, and all of them down by its share of their mean.
        above_gap = by_threshold[::-1].cumsum()[::-1][1:]
        share_above = np.arange(len(thresholds) - 1, 0, -1) / len(thresholds)
        gradient[1:] += np.exp(parameters[1:]) * (above_gap - share_above * by_threshold.sum())
        return float(0.5 * np.square(standardised).sum() + value), gradient

    solution = minimize(loss, start, method="L-BFGS-B", jac=True).x
    return _thresholds(np.clip(solution, -30.0, 30.0))


def _label_loss(
    thresholds: _Thresholds, mean: _Values, variance: _Values, labels: _Labels
) -> tuple[float, _Thresholds]:
    """-Σ_i ln p(y_i) with f ~ N(mean, variance), and its gradient in the thresholds."""
    n_thresholds = len(thresholds)
    prob = np.zeros(len(mean))
    slopes = []
    for sign, edge in ((1.0, labels - 1), (-1.0, labels)):  # the thresholds below and above
        if sign > 0:
            prob[edge < 0] += 1.0  # everything lies above it
        rows = np.flatnonzero((edge >= 0) & (edge < n_thresholds))
        above, slope = sigmoid_means(mean[rows] - thresholds[edge[rows]], variance[rows], 1)
        prob[rows] += sign * above
        slopes.append((rows, edge[rows], sign * slope))
    prob = np.maximum(prob, _EPS)
    gradient = np.zeros(n_thresholds)
    for rows, edge, slope in slopes:
        gradient += np.bincount(edge, slope / prob[rows], n_thresholds)
    return float(-np.log(prob).sum()), gradient
