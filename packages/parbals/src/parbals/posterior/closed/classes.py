"""More than two classes in closed form: one Gaussian per class, by expectation propagation.

The model is softmax regression on whitened rows, class weights ~ N(0, I). The label of row i
becomes a site on the C logits f of that row, exp(νᵀf - ½ fᵀ W f) with

    W_i = diag(τ_i) - τ_i τ_iᵀ / Σ_a τ_ia,

the form of the softmax's own Hessian: adding a constant to all logits changes nothing. Its first
term alone gives every class its covariance, S_a = (I + Σ_i τ_ia x_i x_iᵀ)⁻¹. The second term adds
nearly the same to all classes, and a common part changes no probability. The mean uses the whole of
W, by conjugate gradients preconditioned with S_a. So a sweep costs C (n r² + r³), r = min(n, d),
where the exact covariance would cost (C r)³.

A sweep removes each site (the cavity), multiplies by the softmax with the moments of
:func:`parbals.race.class_evidence`, and sets the site so that mean and variances match.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.arrays import block_rows, solve_lower
from parbals.machine import several_threads
from parbals.posterior.closed.labels import Labels, most_likely_class
from parbals.posterior.closed.laplace import mode
from parbals.posterior.closed.latents import Latents, row_space
from parbals.posterior.closed.many_labels import fit_many_sites
from parbals.posterior.closed.moments import (
    MANY_LABELS,
    latent_cavities,
    posterior_mean,
    precision_roots,
)
from parbals.posterior.closed.sites import (
    LeaveOneOut,
    SitePosterior,
    Sites,
    SweepResult,
    WarmStart,
    iterate_to_convergence,
)
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import contrast_basis
from parbals.race import class_evidence, class_probs
from parbals.shapes import Array, Float, Int

__all__ = ["ClassesPosterior", "fit_classes"]

_Rows = Float[Array, "n d"]
_Logits = Float[Array, "n C"]
_Probs = Float[Array, "N C"]

_MAX_SWEEPS = 300  # twenty classes may need over a hundred; particles would take minutes
_TOLERANCE = 1e-4  # on the residual, to stop
_ACCEPTABLE_RESIDUAL = 1e-2  # above it, the fit reports a problem
_TINY = 1e-300  # guards a division
_MIN_REMAINING_VARIANCE = 1e-3  # share of the cavity's variance that a label leaves at least
_MAX_VARIANCE_RATIO = 100.0  # of two classes' logits, for the quadrature to be trusted
_BLOCK_LOGITS = 2_048
_MAX_LEAVE_ONE_OUT = 400  # labels: enough to estimate a temperature
_MAX_REFIT_LOGITS = 32_000  # of all labels, times the number of labels: about 0.6 s of refits
_MAX_EXACT_LABELS = 1_000  # above it, a label's share in the covariances is small enough to ignore


@dataclass(frozen=True)
class ClassesPosterior(SitePosterior):
    """Gaussian posterior of the class weights; sites are (n, C).

    See :func:`fit_classes` for an example.
    """

    @property
    def n_classes(self) -> int:
        return self.sites.precisions.shape[1]

    def predict_proba(self, X: Float[Array, "N d"]) -> _Probs:
        """Probabilities (N, C) of design rows X (N, d): E[softmax(f)]."""
        mean, variance = self.latents.quick_marginals(X)
        return _probs(mean, variance)

    def leave_one_out(self, *, all_labels: bool = False) -> LeaveOneOut:
        """Predict labelled rows without their own labels: 400 random ones, or all of them.

        Removing a site is exact, but the other sites would then change too. With more labels than
        columns, and some dozens of labels, that is up to 0.05 of a probability and one percentage
        point of the expected error; a single sweep without the label leaves 0.01 and 0.3 of these.
        Many labels are predicted by one fit without all of the sampled ones.
        """
        n_labels, n_columns = self.X.shape
        indices = np.random.default_rng(n_labels).permutation(n_labels)
        if not all_labels:
            indices = indices[:_MAX_LEAVE_ONE_OUT]
        if all_labels and n_labels > _MAX_EXACT_LABELS:
            mean, variance = self.latents.marginals(self.X)
            cavity_mean, cavity_variance = _cavities(mean, variance, self.sites)
            return LeaveOneOut(indices, _probs(cavity_mean[indices], cavity_variance[indices]))
        if n_labels >= MANY_LABELS:
            return LeaveOneOut(indices, self._probs_without(indices))
        refit_logits = n_labels**2 * self.n_classes
        if not all_labels and n_labels > n_columns and refit_logits <= _MAX_REFIT_LOGITS:
            refits = [self._probs_without(indices[[i]], max_sweeps=1) for i in range(n_labels)]
            return LeaveOneOut(indices, np.vstack(refits))
        f, variance = self.latents.marginals(self.X)
        scaled_rows = self.whitening.rows(self.X) @ self.latents.basis @ self.latents.roots
        _, cavity_variance = _cavities(f, variance, self.sites)
        mean = _leave_one_out_means(scaled_rows, f, variance, self.sites, indices)
        return LeaveOneOut(indices, _probs(mean, cavity_variance[indices]))

    def _probs_without(self, indices: Int[Array, " m"], max_sweeps: int | None = None) -> _Probs:
        """Probabilities (m, C) of these labels' rows, by a fit to the other labels."""
        X = np.delete(self.X, indices, axis=0)
        labels = np.delete(self.labels, indices, axis=0)
        start, warm_start = self.warm_start_for(X, labels)
        fit = fit_classes(X, labels, self.n_classes, self.whitening, start, warm_start, max_sweeps)
        mean, variance = fit.latents.marginals(self.X[indices])
        return _probs(mean, variance)

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for every failed check of the fit.

        The sites may not have converged; or the classes may be so unequally known (some without
        labels, large features) that the quadrature of :mod:`parbals.race` misses the narrow ones
        among the wide.
        """
        if self.warm_start is None:
            _, variance = self.latents.marginals(self.X)
        else:
            variance = self.warm_start.variances
        ratio = variance.max(axis=1, initial=0.0) / np.maximum(variance.min(axis=1), _TINY)
        if len(ratio) and np.median(ratio) > _MAX_VARIANCE_RATIO:
            return (
                "The classes' logits are too unequally known for expectation propagation: label "
                'some items of every class, standardise the features, or use inference="smc".',
            )
        return self._convergence_problems(_ACCEPTABLE_RESIDUAL)

    def _refit(
        self, X: _Rows, labels: Labels, start: Sites, warm_start: WarmStart | None = None
    ) -> "ClassesPosterior":
        return fit_classes(X, labels, self.n_classes, self.whitening, start, warm_start)


def _probs(mean: _Probs, variance: _Probs) -> _Probs:
    """Probabilities (N, C) from moments (N, C), in blocks that fit the processor's cache."""
    probs = np.empty(mean.shape)
    for rows in block_rows(len(mean), max(1, _BLOCK_LOGITS // mean.shape[1])):
        block_mean = np.ascontiguousarray(mean[rows].T)
        block_variance = np.ascontiguousarray(variance[rows].T)
        probs[rows] = class_probs(block_mean, block_variance).T
    return probs / probs.sum(axis=1, keepdims=True)


def fit_classes(
    X: _Rows,
    labels: Labels,
    n_classes: int,
    whitening: Whitening,
    start: Sites | None = None,
    warm_start: WarmStart | None = None,
    max_sweeps: int | None = None,
) -> ClassesPosterior:
    """Fit C > 2 classes by expectation propagation.

    Args:
        X: design rows (n, d).
        labels: class numbers (n,), or likelihoods (n, C).
        n_classes: C.
        whitening: the prior of every class's weights.
        start: sites of a fit to nearly the same labels.
        warm_start: state of that fit, where there are many labels.
        max_sweeps: with fewer than 2,000 labels; by default 300.

    >>> from parbals.posterior.closed.whitening import Whitening
    >>> X = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> posterior = fit_classes(X, np.array([0, 1, 2]), 3, Whitening.diagonal(np.ones(2)))
    >>> posterior.predict_proba(X).argmax(axis=1)
    array([0, 1, 2])
    """
    if len(X) >= max(MANY_LABELS, X.shape[1]):
        return _fit_many(X, labels, n_classes, whitening, start, warm_start)
    whitened = whitening.rows(X)
    space = row_space(whitened)
    rows = space.rows(whitened)
    mean = np.zeros((rows.shape[1], n_classes))

    def update(sites: Sites) -> Sites:
        nonlocal mean  # the next sweep's conjugate gradients start from it
        roots = precision_roots(rows, sites.precisions)
        mean = posterior_mean(rows, roots, _precision_product, sites, mean)
        variance = np.square(rows @ roots).sum(axis=2).T
        cavity_mean, cavity_variance = _cavities(rows @ mean, variance, sites)
        return _matched_sites(cavity_mean, cavity_variance, labels)

    if start is None:
        flat = np.zeros((len(X), n_classes))
        start = Sites(flat, flat)
    result = iterate_to_convergence(update, start, _TOLERANCE, max_sweeps or _MAX_SWEEPS)
    roots = precision_roots(rows, result.sites.precisions)
    mean = posterior_mean(rows, roots, _precision_product, result.sites, mean)
    latents = Latents(whitening, space.matrix(X.shape[1]), mean, roots)
    return _posterior(X, labels, whitening, latents, result)


def _fit_many(
    X: _Rows,
    labels: Labels,
    n_classes: int,
    whitening: Whitening,
    start: Sites | None,
    warm_start: WarmStart | None,
) -> ClassesPosterior:
    """Fit thousands of labels, see :func:`parbals.posterior.closed.many_labels.fit_many_sites`."""
    rows = whitening.rows(X) if warm_start is None else warm_start.rows

    def match_moments(mean: np.ndarray, variance: np.ndarray, selected: Any) -> Sites:
        return _matched_sites(mean, variance, labels[selected])

    def posterior_mode() -> np.ndarray:
        return mode(rows, most_likely_class(labels), n_classes) @ contrast_basis(n_classes).T

    result, warm_start = fit_many_sites(
        rows, start, _precision_product, match_moments, posterior_mode, warm_start
    )
    latents = Latents(whitening, np.eye(X.shape[1]), warm_start.mean, warm_start.roots)
    return _posterior(X, labels, whitening, latents, result, warm_start)


def _posterior(
    X: _Rows,
    labels: Labels,
    whitening: Whitening,
    latents: Latents,
    result: SweepResult,
    warm_start: WarmStart | None = None,
) -> ClassesPosterior:
    return ClassesPosterior(
        X=X,
        labels=labels,
        whitening=whitening,
        sites=result.sites,
        latents=latents,
        n_sweeps=result.n_sweeps,
        residual=result.residual,
        warm_start=warm_start,
    )


def _precision_product(precisions: _Logits, f: _Logits) -> _Logits:
    """W f (n, C), from the sites' precisions and logits f (n, C)."""
    product = precisions * f
    total = np.maximum(precisions.sum(axis=1, keepdims=True), _TINY)
    return product - precisions * (product.sum(axis=1, keepdims=True) / total)


def _matched_sites(mean: _Logits, variance: _Logits, labels: Labels) -> Sites:
    """Sites (n, C) that match the moments of cavity times likelihood.

    Args:
        mean: of the cavities (n, C).
        variance: of the cavities (n, C).
        labels: class numbers (n,), or likelihoods (n, C).
    """
    slopes = np.empty(mean.shape)
    curvatures = np.empty(mean.shape)

    def write(block: slice, dtype: Any = np.float32) -> None:
        block_mean = np.asarray(mean[block], dtype)
        block_variance = np.asarray(variance[block], dtype)
        evidence = class_evidence(block_mean, block_variance, labels[block])
        _, slopes[block], curvatures[block] = evidence

    # At every node of the quadrature: blocks of rows that fit the processor's cache.
    blocks = block_rows(len(mean), max(1, _BLOCK_LOGITS // (4 * mean.shape[1])))
    if len(mean) < MANY_LABELS:
        for block in blocks:
            write(block, np.float64)
    else:  # single precision: within 1e-6, in half the time
        with several_threads() as workers:
            workers.map(write, blocks)
    remaining = np.maximum(1.0 - variance * curvatures, _MIN_REMAINING_VARIANCE)
    precisions = curvatures / remaining
    linear_terms = slopes + _precision_product(precisions, mean + variance * slopes)
    return Sites(precisions, linear_terms)


def _cavities(f: _Logits, variance: _Logits, sites: Sites) -> tuple[_Logits, _Logits]:
    """Mean and variance (n, C) of every row's logits under all sites but its own."""
    centred = f - f.mean(axis=1, keepdims=True)
    return latent_cavities(centred, variance, sites, _precision_product)


def _leave_one_out_means(
    scaled_rows: Float[Array, "C n r"],
    f: _Logits,
    variance: _Logits,
    sites: Sites,
    indices: Int[Array, " m"],
) -> Float[Array, "m C"]:
    """Mean logits (m, C) of some rows under all sites but their own, with the whole of W.

    The sweeps' covariances ignore the second term of W, so removing a site by them leaves some of
    its label's information behind. With that term, the posterior's precision is H - U Uᵀ: H has one
    block per class, and u_i = x_i ⊗ t_i, t_i = τ_i / √Σ_a τ_ia. The logits of row i then have

        Σ_i = diag(v_i) + P_i P_iᵀ,  P_ia = K_a[i] diag(t_a) (I - G)^-½,  G = Σ_a t_a t_aᵀ ∘ K_a,

    with K_a (n, n) the covariance of the rows under class a alone; the mean without site i is
    f_i - Σ_i (I - W_i Σ_i)⁻¹ (ν_i - W_i f_i).

    Args:
        scaled_rows: rows times the root of each class's covariance: K_a = scaled_a scaled_aᵀ.
        f: mean logits under all sites.
        variance: of the logits.
        sites: (n, C).
        indices: of the rows to predict.
    """
    precisions = sites.precisions
    unit = np.eye(f.shape[1])
    t = precisions / np.sqrt(np.maximum(precisions.sum(axis=1, keepdims=True), _TINY))
    weighted_rows = scaled_rows * t.T[:, :, None]
    G = sum(rows @ rows.T for rows in weighted_rows)
    lower = np.linalg.cholesky(np.eye(len(f)) - G)
    P = np.empty((len(scaled_rows), len(indices), len(f)))
    for a, rows in enumerate(scaled_rows):
        P[a] = solve_lower(lower, weighted_rows[a] @ rows[indices].T).T
    covariance = np.einsum("ain,bin->iab", P, P, optimize=True)
    covariance += variance[indices, :, None] * unit
    t_selected = t[indices]
    W = precisions[indices, :, None] * unit - t_selected[:, :, None] * t_selected[:, None, :]
    unexplained = (sites.linear_terms - _precision_product(precisions, f))[indices, :, None]
    change = covariance @ np.linalg.solve(unit - W @ covariance, unexplained)
    mean = f[indices] - change[:, :, 0]
    return mean - mean.mean(axis=1, keepdims=True)
