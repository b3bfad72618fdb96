"""More than two classes without draws: one Gaussian a class, by expectation propagation.

The model is softmax regression, class weights w_a ~ N(0, diag(prior_variance)). The label of row i
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

import numpy as np

from parbals.arrays import block_rows
from parbals.posterior.channels import Channels, relative_change, row_space, unsettled
from parbals.race import class_evidence, class_means

__all__ = ["ClassesPosterior", "fit_classes"]

_MOST_SWEEPS = 100
_TOLERANCE = 1e-4
_SETTLED = 1e-2
_LEAST = 1e-300
_MOST_APART = 100.0


@dataclass(frozen=True)
class ClassesPosterior:
    """Gaussian class weights given design rows X (n, d) and class numbers."""

    X: np.ndarray
    labels: np.ndarray
    prior_variance: np.ndarray  # (d,)
    precisions: np.ndarray  # τ (n, C)
    shifts: np.ndarray  # ν (n, C)
    channels: Channels
    n_sweeps: int
    change: float
    """Largest relative change of a site in the last sweep; above 1e-4 it did not converge."""

    @property
    def n_classes(self) -> int:
        return self.precisions.shape[1]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, C) probabilities E[softmax(f)]."""
        probs = np.empty((len(X), self.n_classes))
        for rows in block_rows(len(X), max(1, 100_000 // self.n_classes)):
            probs[rows] = class_means(*self.channels.marginals(X[rows]))[0]
        return probs

    def draw(self, generator: np.random.Generator, n_samples: int) -> np.ndarray:
        """(d, C, K) independent draws of the class weights."""
        return self.channels.draw(generator, n_samples)

    def problems(self) -> tuple[str, ...]:
        """What the user must be told: sites that still changed when the sweeps were used up.

        Or classes so unequally known (some of them never seen, features large) that the quadrature
        of :mod:`parbals.race` loses the narrow ones among the wide.
        """
        _, variance = self.channels.marginals(self.X)
        apart = variance.max(axis=1, initial=0.0) / np.maximum(variance.min(axis=1), _LEAST)
        if np.median(apart if len(apart) else [1.0]) > _MOST_APART:
            return (
                "The classes' logits are too unequally known for expectation propagation: give "
                'some labels of every class, standardise the features, or use inference="smc".',
            )
        if self.change < _SETTLED:
            return ()
        return (unsettled(self.n_sweeps, self.change),)

    def condition(self, X_new: np.ndarray, labels_new: np.ndarray) -> "ClassesPosterior":
        """The posterior that also knows these labels; the old sites are where it starts."""
        zeros = np.zeros((len(X_new), self.n_classes))
        start = np.concatenate([self.precisions, zeros]), np.concatenate([self.shifts, zeros])
        X = np.concatenate([self.X, X_new])
        labels = np.append(self.labels, labels_new)
        return fit_classes(X, labels, self.n_classes, self.prior_variance, start)


def fit_classes(
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    prior_variance: np.ndarray,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> ClassesPosterior:
    """Expectation propagation on design rows X (n, d), class numbers; ``start``: sites τ, ν."""
    deviations = np.sqrt(prior_variance)
    basis, rows = row_space(X * deviations)
    empty = np.zeros((len(X), n_classes))
    precisions, shifts = (empty, empty) if start is None else start
    mean = np.zeros((rows.shape[1], n_classes))
    change, damping, n_sweeps = np.inf, 1.0, 0
    while True:
        roots = _roots(rows, precisions)
        mean = _mean(rows, roots, precisions, shifts, mean)
        if change < _TOLERANCE or n_sweeps == _MOST_SWEEPS or len(X) == 0:
            break
        renewed = _renewed_sites(rows, roots, mean, precisions, shifts, labels)
        before, change = (
            change,
            max(relative_change(renewed[0], precisions), relative_change(renewed[1], shifts)),
        )
        damping = max(0.5 * damping, 0.1) if change > before else min(1.25 * damping, 1.0)
        precisions = precisions + damping * (renewed[0] - precisions)
        shifts = shifts + damping * (renewed[1] - shifts)
        n_sweeps += 1
    return ClassesPosterior(
        X=X,
        labels=labels,
        prior_variance=prior_variance,
        precisions=precisions,
        shifts=shifts,
        channels=Channels(deviations[:, None] * (basis @ mean), deviations, basis, roots),
        n_sweeps=n_sweeps,
        change=float(change) if len(X) else 0.0,
    )


def _roots(rows: np.ndarray, precisions: np.ndarray) -> np.ndarray:
    """(C, r, r): root rootᵀ = (I + Σ_i τ_ia x_i x_iᵀ)⁻¹ for every class."""
    hessians = np.eye(rows.shape[1]) + (rows.T * precisions.T[:, None, :]) @ rows
    lower = np.linalg.cholesky(hessians)
    return np.linalg.inv(lower).transpose(0, 2, 1)


def _pull(precisions: np.ndarray, f: np.ndarray) -> np.ndarray:
    """W f (n, C) of logits f (n, C)."""
    pulled = precisions * f
    total = np.maximum(precisions.sum(axis=1, keepdims=True), _LEAST)
    return pulled - precisions * (pulled.sum(axis=1, keepdims=True) / total)


def _mean(
    rows: np.ndarray,
    roots: np.ndarray,
    precisions: np.ndarray,
    shifts: np.ndarray,
    mean: np.ndarray,
) -> np.ndarray:
    """Weights m (r, C) with m + Σ_i x_i (W_i f_i)ᵀ = Σ_i x_i ν_iᵀ, from those of the last sweep."""

    def conditioned(residual: np.ndarray) -> np.ndarray:
        inner = roots.transpose(0, 2, 1) @ residual.T[:, :, None]
        return (roots @ inner)[:, :, 0].T

    right = rows.T @ shifts
    residual = right - mean - rows.T @ _pull(precisions, rows @ mean)
    direction = better = conditioned(residual)
    size = np.sum(residual * better)
    goal = 1e-12 * np.sum(right * conditioned(right))
    for _ in range(100):
        if size <= goal:
            break
        bent = direction + rows.T @ _pull(precisions, rows @ direction)
        length = size / np.sum(direction * bent)
        mean = mean + length * direction
        residual = residual - length * bent
        better = conditioned(residual)
        size, before = np.sum(residual * better), size
        direction = better + (size / before) * direction
    return mean


def _renewed_sites(
    rows: np.ndarray,
    roots: np.ndarray,
    mean: np.ndarray,
    precisions: np.ndarray,
    shifts: np.ndarray,
    labels: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    f = rows @ mean
    f = f - f.mean(axis=1, keepdims=True)
    variance = np.square(rows @ roots).sum(axis=2).T
    cavity_variance = variance / np.maximum(1.0 - precisions * variance, 1e-4)
    cavity_mean = f - cavity_variance * (shifts - _pull(precisions, f))
    _, slopes, curvatures = class_evidence(cavity_mean, cavity_variance, labels)
    renewed = curvatures / np.maximum(1.0 - cavity_variance * curvatures, 1e-3)
    return renewed, slopes + _pull(renewed, cavity_mean + cavity_variance * slopes)
