"""More than two classes without draws: one Gaussian a class, by expectation propagation.

The model is softmax regression on whitened rows, class weights ~ N(0, I). The label of row i
becomes a site on the C logits f of that row, exp(νᵀf - ½ fᵀ W f) with

    W_i = diag(τ_i) - τ_i τ_iᵀ / Σ_a τ_ia,

the shape of the softmax's own Hessian: adding a constant to all logits changes nothing. Its first
term alone gives every class its covariance, S_a = (I + Σ_i τ_ia x_i x_iᵀ)⁻¹; what the second adds
is nearly the same for all classes, and what is the same for all classes moves no probability. The
mean obeys W whole, by conjugate gradients that S_a conditions. So a sweep costs C (n r² + r³),
r = min(n, d), where the exact covariance would cost (C r)³.

A sweep takes each site out (the cavity), multiplies by the softmax with the moments of
:func:`parbals.race.class_evidence`, and sets the site so that mean and variances agree.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.posterior.closed.laplace import mode
from parbals.posterior.closed.latents import Latents, row_space
from parbals.posterior.closed.sites import (
    MANY_LABELS,
    Kept,
    Labels,
    SitePosterior,
    Sites,
    latent_cavities,
    most_likely_class,
    posterior_mean,
    precision_roots,
    settle,
    settle_many,
)
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import contrast_basis
from parbals.race import class_evidence, class_probs
from parbals.shapes import Array, Float, Int

__all__ = ["ClassesPosterior", "fit_classes"]

_Logits = Float[Array, "n C"]
_Probs = Float[Array, "N C"]

_MOST_SWEEPS = 300  # twenty classes may need more than a hundred, particles minutes
_TOLERANCE = 1e-4
_SETTLED = 1e-2
_LEAST = 1e-300
_MOST_APART = 100.0
_BLOCK = 2_048  # logits
_LEFT_OUT = 400  # labels: a temperature is known well enough by so many
_SWEPT = 32_000  # logits of all labels, as often as there are labels: about 0.6 s
_WHOLE = 1_000  # labels: what the covariances of the sweeps leave behind of one of more is little


@dataclass(frozen=True)
class ClassesPosterior(SitePosterior):
    """Gaussian class weights; sites are (n, C)."""

    @property
    def n_classes(self) -> int:
        return self.sites.precisions.shape[1]

    def predict_proba(self, X: Float[Array, "N d"]) -> _Probs:
        """(N, C) probabilities E[softmax(f)]."""
        return _probs(*self.latents.quick_marginals(X))

    def leave_one_out(
        self, *, all_labels: bool = False
    ) -> tuple[Int[Array, " m"], Float[Array, "m C"]]:
        """Of at most 400 labels unless ``all_labels``; of many, those by a fit without them.

        A site is taken out exactly, but the others would then change too. Where there are more
        labels than columns, and some dozens of them, that is up to 0.05 of a probability and a
        point of the expected error; one sweep without the label leaves 0.01 and 0.3 of these.
        """
        n_labels, n_columns = self.X.shape
        drawn = np.random.default_rng(n_labels).permutation(n_labels)
        drawn = drawn if all_labels else drawn[:_LEFT_OUT]
        if all_labels and n_labels > _WHOLE:
            moments = _cavities(*self.latents.marginals(self.X), self.sites)
            return drawn, _probs(*(x[drawn] for x in moments))
        if n_labels >= MANY_LABELS:
            return drawn, self._without(drawn)
        if not all_labels and n_labels > n_columns and n_labels**2 * self.n_classes <= _SWEPT:
            return drawn, np.vstack([self._without(drawn[[i]], 1) for i in range(n_labels)])
        f, variance = self.latents.marginals(self.X)
        looked = self.whitening.rows(self.X) @ self.latents.basis @ self.latents.roots
        left = _cavities(f, variance, self.sites)[1]
        mean = _left_out_means(looked, f, variance, self.sites, drawn)
        return drawn, _probs(mean, left[drawn])

    def _without(self, places: Int[Array, " m"], most_sweeps: int = 0) -> _Probs:
        """Probabilities of some labels' rows by a fit to the others."""
        X, labels = (np.delete(x, places, axis=0) for x in (self.X, self.labels))
        start = self.start_for(X, labels)
        fit = fit_classes(X, labels, self.n_classes, self.whitening, *start, most_sweeps)
        return _probs(*fit.latents.marginals(self.X[places]))

    def problems(self) -> tuple[str, ...]:
        """Sites that still changed when the sweeps were used up.

        Or classes so unequally known (some of them never seen, features large) that the quadrature
        of :mod:`parbals.race` loses the narrow ones among the wide.
        """
        kept = self.kept
        variance = self.latents.marginals(self.X)[1] if kept is None else kept.variances
        apart = variance.max(axis=1, initial=0.0) / np.maximum(variance.min(axis=1), _LEAST)
        if np.median(apart if len(apart) else [1.0]) > _MOST_APART:
            return (
                "The classes' logits are too unequally known for expectation propagation: give "
                'some labels of every class, standardise the features, or use inference="smc".',
            )
        return self._unsettled(_SETTLED)

    def _refitted(
        self, X: Float[Array, "n d"], labels: Labels, start: Sites, kept: Kept | None = None
    ) -> "ClassesPosterior":
        return fit_classes(X, labels, self.n_classes, self.whitening, start, kept)


def _probs(mean: _Probs, variance: _Probs) -> _Probs:
    """(N, C) from moments (N, C), some at a time: what the quadrature makes of them is cached."""
    probs = np.empty(mean.shape)
    for rows in block_rows(len(mean), max(1, _BLOCK // mean.shape[1])):
        here, spread = (np.ascontiguousarray(x[rows].T) for x in (mean, variance))
        probs[rows] = class_probs(here, spread).T
    return probs / probs.sum(axis=1, keepdims=True)


def fit_classes(
    X: Float[Array, "n d"],
    labels: Labels,
    n_classes: int,
    whitening: Whitening,
    start: Sites | None = None,
    kept: Kept | None = None,
    most_sweeps: int = 0,
) -> ClassesPosterior:
    """Expectation propagation on design rows X (n, d), class numbers or likelihoods (n, C).

    ``start``, ``kept``: what a fit of nearly the same labels found; ``most_sweeps``: 0 is as usual.
    """
    empty = np.zeros((len(X), n_classes))
    if len(X) >= max(MANY_LABELS, X.shape[1]):
        rows = whitening.rows(X) if kept is None else kept.rows
        settled, kept = settle_many(
            rows,
            start,
            _pull,
            lambda mean, variance, where: _renewed_sites(mean, variance, labels[where]),
            lambda: mode(rows, most_likely_class(labels), n_classes) @ contrast_basis(n_classes).T,
            kept,
        )
        latents = Latents(whitening, np.eye(X.shape[1]), kept.mean, kept.roots)
        sites, n_sweeps, change = settled
        return ClassesPosterior(X, labels, whitening, sites, latents, n_sweeps, change, kept)
    whitened = whitening.rows(X)
    space = row_space(whitened)
    rows = space.rows(whitened)
    mean = np.zeros((rows.shape[1], n_classes))

    def renew(sites: Sites) -> Sites:
        nonlocal mean  # where the next sweep's conjugate gradients begin
        roots = precision_roots(rows, sites.precisions)
        mean = posterior_mean(rows, roots, _pull, sites, mean)
        variance = np.square(rows @ roots).sum(axis=2).T
        return _renewed_sites(*_cavities(rows @ mean, variance, sites), labels)

    most = most_sweeps or _MOST_SWEEPS
    sites, n_sweeps, change = settle(renew, start or Sites(empty, empty), _TOLERANCE, most)
    roots = precision_roots(rows, sites.precisions)
    mean = posterior_mean(rows, roots, _pull, sites, mean)
    latents = Latents(whitening, space.matrix(X.shape[1]), mean, roots)
    return ClassesPosterior(X, labels, whitening, sites, latents, n_sweeps, change)


def _pull(precisions: _Logits, f: _Logits) -> _Logits:
    """W f (n, C) of logits f (n, C)."""
    pulled = precisions * f
    total = np.maximum(precisions.sum(axis=1, keepdims=True), _LEAST)
    return pulled - precisions * (pulled.sum(axis=1, keepdims=True) / total)


def _renewed_sites(mean: _Logits, variance: _Logits, labels: Labels) -> Sites:
    """Sites (n, C) that agree with labels under cavities of these means and variances (n, C)."""
    slopes, curvatures = np.empty(mean.shape), np.empty(mean.shape)

    def write(block: slice, dtype: Any = np.float32) -> None:
        here, spread = np.asarray(mean[block], dtype), np.asarray(variance[block], dtype)
        _, slopes[block], curvatures[block] = class_evidence(here, spread, labels[block])

    if len(mean) < MANY_LABELS:
        write(slice(None), np.float64)
    else:  # within 1e-6, in half the time
        with several_threads() as workers:
            workers.map(write, block_rows(len(mean), max(1, _BLOCK // (4 * mean.shape[1]))))
    renewed = curvatures / np.maximum(1.0 - variance * curvatures, 1e-3)
    return Sites(renewed, slopes + _pull(renewed, mean + variance * slopes))


def _cavities(f: _Logits, variance: _Logits, sites: Sites) -> tuple[_Logits, _Logits]:
    """Mean and variance (n, C) of every row's logits under all sites but its own."""
    return latent_cavities(f - f.mean(axis=1, keepdims=True), variance, sites, _pull)


def _left_out_means(
    looked: Float[Array, "C n r"],
    f: _Logits,
    variance: _Logits,
    sites: Sites,
    places: Int[Array, " m"],
) -> Float[Array, "m C"]:
    """Mean logits of some rows under all sites but their own, as the mean obeys W whole.

    The covariances that the sweeps use leave out the second term of W, so a site taken out by them
    leaves some of what its label said behind. Whole, the posterior's precision is H - U Uᵀ, H one
    block a class and u_i = x_i ⊗ t_i, t_i = τ_i / √Σ_a τ_ia, so that the logits of row i have

        Σ_i = diag(v_i) + P_i P_iᵀ,  P_ia = K_a[i] diag(t_a) (I - G)^-½,  G = Σ_a t_a t_aᵀ ∘ K_a,

    with K_a (n, n) the covariance of rows by class a alone; the mean without site i is
    f_i - Σ_i (I - W_i Σ_i)⁻¹ (ν_i - W_i f_i).

    Args:
        looked: rows times the root of each class's covariance: K_a = looked_a looked_aᵀ.
    """
    precisions, unit = sites.precisions, np.eye(f.shape[1])
    t = precisions / np.sqrt(np.maximum(precisions.sum(axis=1, keepdims=True), _LEAST))
    scaled = looked * t.T[:, :, None]
    lower = np.linalg.cholesky(np.eye(len(f)) - sum(part @ part.T for part in scaled))
    parts = np.empty((len(looked), len(places), len(f)))
    for a, part in enumerate(looked):
        parts[a] = solve_triangular(lower, scaled[a] @ part[places].T, lower=True).T
    covariance = np.einsum("ain,bin->iab", parts, parts, optimize=True)
    covariance += variance[places, :, None] * unit
    here = t[places]
    weights = precisions[places, :, None] * unit - here[:, :, None] * here[:, None, :]
    unexplained = (sites.shifts - _pull(precisions, f))[places, :, None]
    change = covariance @ np.linalg.solve(unit - weights @ covariance, unexplained)
    mean = f[places] - change[:, :, 0]
    return mean - mean.mean(axis=1, keepdims=True)
