"""A Gaussian close to the posterior: where the particles start and how they are whitened.

With design rows x_n, contrast weights V (d, J) of prior N(0, I), J = C-1, and a curvature κ_n for
each row, the reference is N(mean, H⁻¹) in every contrast, with

    H = I + Σ_n κ_n x_n x_nᵀ = R Rᵀ,        L = R⁻ᵀ,        H⁻¹ = L Lᵀ,

and whitened coordinates z with V = mean + L z. At the mode, with two classes, H is the exact
Hessian (Laplace's approximation). With more classes one curvature is shared by the J contrasts: the
factor stays d² instead of (J d)², which is what lets C = 100 fit in memory; the moves that follow
are Metropolis-corrected, so the reference sets their speed and never their answer.

All of it is float64: features of norm 1,000 give condition numbers beyond float32, and one
factorisation is cheap. Whitened coordinates are well scaled, so everything after is float32.
"""

from typing import NamedTuple

import numpy as np

from parbals.posterior.predictive import contrast_basis, curvature, softmax
from parbals.shapes import Array, Float, Int

__all__ = ["Reference", "laplace_reference", "matched_reference", "mode"]


class Reference(NamedTuple):
    """N(mean, L Lᵀ) for the weights of each contrast, and the row curvatures it was built from."""

    mean: Float[Array, "d J"]
    factor: Float[Array, "d d"]  # L
    root: Float[Array, "d d"]  # its inverse, transposed
    curvature: Float[Array, " n"]  # κ

    def whiten(self, weights: Float[Array, "d J K"]) -> Float[Array, "d J K"]:
        """z of weights V:  z = L⁻¹ (V - mean)."""
        return np.tensordot(self.root.T, weights - self.mean[:, :, None], axes=1)

    def colour(self, whitened: Float[Array, "d J K"]) -> Float[Array, "d J K"]:
        """V of whitened coordinates z:  V = mean + L z."""
        return self.mean[:, :, None] + np.tensordot(self.factor, whitened, axes=1)


def laplace_reference(
    X: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int
) -> Reference:
    """The reference at the mode of the posterior of design rows X (n, d)."""
    return _reference_at(X, mode(X, labels, n_classes, exact=True), n_classes)


def mode(
    X: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int, *, exact: bool = False
) -> Float[Array, "d J"]:
    """Contrast weights that maximise the posterior; within a little unless ``exact``.

    Looked for in coordinates in which the curvature before any label is known is one.
    """
    from scipy.optimize import minimize  # slow to load, and few labels in closed form need no mode

    basis, rows = contrast_basis(n_classes), np.arange(len(X))
    guess = _reference_at(X, np.zeros((X.shape[1], n_classes - 1)), n_classes)
    design, prior = X @ guess.factor, guess.factor.T @ guess.factor

    def energy_and_slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        z = flat.reshape(guess.mean.shape)
        logits = design @ z @ basis.T
        logits -= logits.max(axis=1, keepdims=True, initial=-np.inf)
        residual = np.exp(logits)
        total = residual.sum(axis=1)
        residual /= total[:, None]
        residual[rows, labels] -= 1.0
        bent = prior @ z
        energy = 0.5 * np.sum(z * bent) + np.sum(np.log(total) - logits[rows, labels])
        return float(energy), (design.T @ (residual @ basis) + bent).ravel()

    exactly = {"maxiter": 2_000, "maxfun": 4_000, "ftol": 1e-15, "gtol": 1e-6}
    options = exactly if exact else {"maxiter": 25}
    start = np.zeros(guess.mean.size)
    found = minimize(energy_and_slope, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(guess.factor @ found.x.reshape(guess.mean.shape))


def matched_reference(
    old: Reference, X: Float[Array, "n d"], weights: Float[Array, "d J K"], sweeps: int = 2
) -> Reference:
    """Re-centre and re-scale a reference on a population V (d, J, K).

    On separable data with large features the posterior looks like a Gaussian cut off by walls, and
    the curvature at its mode says little about its width. Each row's curvature is scaled until the
    reference gives that row's logit the variance it has in the population.
    """
    variance = np.tensordot(X, weights, axes=1).var(axis=2).mean(axis=1)
    kappa, factor, root = old.curvature, old.factor, old.root
    for _ in range(sweeps):
        ratio = np.square(X @ factor).sum(axis=1) / np.maximum(variance, 1e-30)
        kappa = kappa * np.clip(ratio, 1e-3, 1e3)
        root, factor = _factorise(X, kappa)
    return Reference(weights.mean(axis=2), factor, root, kappa)


def _reference_at(X: Float[Array, "n d"], mean: Float[Array, "d J"], n_classes: int) -> Reference:
    kappa = curvature(softmax(X @ mean @ contrast_basis(n_classes).T))
    root, factor = _factorise(X, kappa)
    return Reference(mean, factor, root, kappa)


def _factorise(
    X: Float[Array, "n d"], kappa: Float[Array, " n"]
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    hessian = (X * kappa[:, None]).T @ X
    hessian[np.diag_indices_from(hessian)] += 1.0
    root = np.linalg.cholesky(hessian)
    return root, np.ascontiguousarray(np.linalg.inv(root).T)
