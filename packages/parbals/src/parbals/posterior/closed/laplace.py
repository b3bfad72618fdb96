"""Laplace's approximation: a Gaussian near the posterior that starts and whitens the particles.

With design rows x_n, contrast weights V (d, J) of prior N(0, I), J = C-1, and a curvature κ_n for
each row, the reference is N(mean, H⁻¹) in every contrast, with

    H = I + Σ_n κ_n x_n x_nᵀ = R Rᵀ,        L = R⁻ᵀ,        H⁻¹ = L Lᵀ,

and whitened coordinates z with V = mean + L z. At the mode, with two classes, H is the exact
Hessian. With more classes one curvature is shared by the J contrasts: the factor has d² instead of
(J d)² entries, so that C = 100 fits in memory. The moves that follow are Metropolis-corrected, so
the reference affects their speed, not their result.

All of it is float64: features of norm 1,000 give condition numbers beyond float32, and one
factorisation is cheap. Whitened coordinates are well scaled, so everything after is float32.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import inverse_lower
from parbals.posterior.predictive import contrast_basis, curvature, softmax
from parbals.shapes import Array, Float, Int

__all__ = ["Reference", "laplace_reference", "matched_reference", "mode"]

_EXACT_OPTIONS = {"maxiter": 2_000, "maxfun": 4_000, "ftol": 1e-15, "gtol": 1e-6}
_ROUGH_OPTIONS = {"maxiter": 25}


class Reference(NamedTuple):
    """N(mean, L Lᵀ) for the weights of each contrast, and the row curvatures it was built from."""

    mean: Float[Array, "d J"]
    factor: Float[Array, "d d"]  # L
    root: Float[Array, "d d"]  # R, the transposed inverse of L
    curvature: Float[Array, " n"]  # κ

    def whiten(self, weights: Float[Array, "d J K"]) -> Float[Array, "d J K"]:
        """Whitened coordinates z = L⁻¹ (V - mean) of weights V."""
        return np.tensordot(self.root.T, weights - self.mean[:, :, None], axes=1)

    def colour(self, whitened: Float[Array, "d J K"]) -> Float[Array, "d J K"]:
        """Weights V = mean + L z of whitened coordinates z."""
        return self.mean[:, :, None] + np.tensordot(self.factor, whitened, axes=1)


def laplace_reference(
    X: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int
) -> Reference:
    """The reference at the posterior mode, given design rows X (n, d).

    >>> reference = laplace_reference(np.array([[2.0]]), np.array([1]), n_classes=2)
    >>> reference.mean.round(3)
    array([[0.524]])
    """
    return _reference_at(X, mode(X, labels, n_classes, exact=True), n_classes)


def mode(
    X: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int, *, exact: bool = False
) -> Float[Array, "d J"]:
    """Contrast weights (d, J) that maximise the posterior, by L-BFGS; rough unless ``exact``.

    The search uses coordinates in which the Hessian at zero weights is the identity.

    >>> mode(np.array([[2.0]]), np.array([1]), n_classes=2, exact=True).round(3)
    array([[0.524]])
    """
    # Slow to import, and a closed-form fit to few labels needs no mode.
    from scipy.optimize import minimize

    basis = contrast_basis(n_classes)
    rows = np.arange(len(X))
    initial = _reference_at(X, np.zeros((X.shape[1], n_classes - 1)), n_classes)
    design = X @ initial.factor
    prior = initial.factor.T @ initial.factor

    def energy_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        z = flat.reshape(initial.mean.shape)
        logits = design @ z @ basis.T
        logits -= logits.max(axis=1, keepdims=True, initial=-np.inf)
        residual = np.exp(logits)
        total = residual.sum(axis=1)
        residual /= total[:, None]
        residual[rows, labels] -= 1.0
        prior_z = prior @ z
        energy = 0.5 * np.sum(z * prior_z) + np.sum(np.log(total) - logits[rows, labels])
        return float(energy), (design.T @ (residual @ basis) + prior_z).ravel()

    solution = minimize(
        energy_and_gradient,
        np.zeros(initial.mean.size),
        jac=True,
        method="L-BFGS-B",
        options=_EXACT_OPTIONS if exact else _ROUGH_OPTIONS,
    )
    return np.asarray(initial.factor @ solution.x.reshape(initial.mean.shape))


def matched_reference(
    old: Reference, X: Float[Array, "n d"], weights: Float[Array, "d J K"], sweeps: int = 2
) -> Reference:
    """Re-centre and re-scale a reference on a population of weights V (d, J, K).

    On separable data with large features the posterior resembles a Gaussian cut off by walls, and
    the curvature at its mode says little about its width. Each row's curvature is scaled until the
    reference gives that row's logit the variance it has in the population.
    """
    variance = np.tensordot(X, weights, axes=1).var(axis=2).mean(axis=1)
    kappa = old.curvature
    factor = old.factor
    root = old.root
    for _ in range(sweeps):
        ratio = np.square(X @ factor).sum(axis=1) / np.maximum(variance, 1e-30)
        kappa = kappa * np.clip(ratio, 1e-3, 1e3)
        root, factor = _factorise(X, kappa)
    return Reference(mean=weights.mean(axis=2), factor=factor, root=root, curvature=kappa)


def _reference_at(X: Float[Array, "n d"], mean: Float[Array, "d J"], n_classes: int) -> Reference:
    """The reference with this mean and the curvatures at it."""
    kappa = curvature(softmax(X @ mean @ contrast_basis(n_classes).T))
    root, factor = _factorise(X, kappa)
    return Reference(mean=mean, factor=factor, root=root, curvature=kappa)


def _factorise(
    X: Float[Array, "n d"], kappa: Float[Array, " n"]
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """R (d, d) with R Rᵀ = H, and L = R⁻ᵀ."""
    hessian = (X * kappa[:, None]).T @ X
    hessian[np.diag_indices_from(hessian)] += 1.0
    root = np.linalg.cholesky(hessian)
    return root, np.ascontiguousarray(inverse_lower(root).T)
