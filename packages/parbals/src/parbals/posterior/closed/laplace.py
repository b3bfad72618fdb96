"""A Gaussian close to the posterior: where the particles start and how they are whitened.

With design rows x_n (the last feature is the constant 1), contrast weights V (D+1, J), J = C-1, and
a curvature κ_n for each row, the reference is N(mean, H⁻¹) in every contrast, with

    H = I/σ² + Σ_n κ_n x_n x_nᵀ = R Rᵀ,        L = R⁻ᵀ,        H⁻¹ = L Lᵀ,

and whitened coordinates z with V = mean + L z. At the mode, with two classes, H is the exact
Hessian (Laplace's approximation). With more classes one curvature is shared by the J contrasts: the
factor stays (D+1)² instead of (J(D+1))², which is what lets C = 100 fit in memory; the moves that
follow are Metropolis-corrected, so the reference sets their speed and never their answer. Where
there are fewer rows than features, L is found in the space of the rows and is σ I across it.

All of it is float64 on the host: features of norm 1,000 give condition numbers beyond float32, and
one factorisation is cheap. Whitened coordinates are well scaled, so everything after is float32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parbals.posterior.closed.channels import RowSpace, row_space
from parbals.posterior.predictive import contrast_basis, curvature, softmax
from parbals.shapes import Array, Float, Int

__all__ = ["Reference", "laplace_reference", "matched_reference", "modal_logits"]

_NEWTON_STEPS = 60
_NEWTON_TOLERANCE = 1e-5


class Reference(NamedTuple):
    """N(mean, L Lᵀ) for the weights of each contrast, and the row curvatures it was built from.

    In the row space L is ``factor``, across it σ I.
    """

    mean: Float[Array, "d J"]
    factor: Float[Array, "r r"]  # r = d in the whole space
    root: Float[Array, "r r"]  # its inverse, transposed
    curvature: Float[Array, " n"]  # κ
    prior_scale: float
    space: RowSpace = RowSpace()

    def design(self, X: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Whitened rows X L (n, D+1) of design rows X (n, D+1)."""
        if self.space.basis is None:
            return X @ self.factor
        inner = self.space.rows(X)
        change = inner @ self.factor - self.prior_scale * inner
        return self.prior_scale * X + change @ self.space.basis.T

    def whiten(self, weights: Float[Array, "d J K"]) -> Float[Array, "d J K"]:
        """z (D+1, J, K) of weights V (D+1, J, K):  z = L⁻¹ (V - mean)."""
        shifted = weights - self.mean[:, :, None]
        inner = np.tensordot(self.root.T, self.space.coordinates(shifted), axes=1)
        return self.space.replace(shifted / self.prior_scale, inner)

    def colour(self, whitened: Float[Array, "d J K"]) -> Float[Array, "d J K"]:
        """V (D+1, J, K) of whitened coordinates z:  V = mean + L z."""
        inner = np.tensordot(self.factor, self.space.coordinates(whitened), axes=1)
        return self.mean[:, :, None] + self.space.replace(self.prior_scale * whitened, inner)

    def lifted(self, space: RowSpace) -> "Reference":
        """The reference of the whole space, from one that was found in a row space."""
        return self._replace(mean=space.vectors(self.mean), space=space)


def laplace_reference(
    X: Float[Array, "n d"],
    labels: Int[Array, " n"],
    n_classes: int,
    prior_scale: float,
    start: Float[Array, "d J"] | None = None,
) -> Reference:
    """Mode of the posterior and the curvature there.

    The mode is found by Newton's method with conjugate gradients, in coordinates whitened at the
    starting point: a few products with the rows, whatever the scales of the features and however
    many classes. (SciPy's optimisers were measured five times slower here: their linear algebra
    library runs a second pool of threads that fights with NumPy's for two cores.)
    """
    mean = np.zeros((X.shape[1], n_classes - 1)) if start is None else start
    guess = _reference_at(X, mean, n_classes, prior_scale)
    basis = contrast_basis(n_classes)
    design = X @ guess.factor
    prior_precision = guess.factor.T @ guess.factor / prior_scale**2
    prior_slope = guess.factor.T @ mean / prior_scale**2
    offset = X @ mean
    rows = np.arange(len(X))
    chosen = basis[labels]

    def negative_log_posterior(z: Float[Array, "d J"], f: Float[Array, "n J"]) -> float:
        logits = f @ basis.T
        top = logits.max(axis=1, keepdims=True, initial=0.0)
        log_norm = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        bent = prior_slope + 0.5 * (prior_precision @ z)
        return float(np.sum(log_norm - logits[rows, labels]) + np.sum(z * bent))

    z, f = np.zeros_like(mean), offset
    value = negative_log_posterior(z, f)
    for _ in range(_NEWTON_STEPS):
        probs = softmax(f @ basis.T)
        gradient = design.T @ (probs @ basis - chosen) + prior_slope + prior_precision @ z
        if np.sqrt(np.square(gradient).sum()) < _NEWTON_TOLERANCE:
            break

        def curved(
            v: Float[Array, "d J"], probs: Float[Array, "n C"] = probs
        ) -> Float[Array, "d J"]:
            pushed = (design @ v) @ basis.T * probs
            pushed -= probs * pushed.sum(axis=1, keepdims=True)
            return design.T @ (pushed @ basis) + prior_precision @ v

        step = -_conjugate_gradients(curved, gradient)
        slope, length, f_step = np.sum(gradient * step), 1.0, design @ step
        while length > 1e-8:
            new_value = negative_log_posterior(z + length * step, f + length * f_step)
            if new_value <= value + 1e-4 * length * slope:
                break
            length *= 0.5
        z, f, gained, value = z + length * step, f + length * f_step, value - new_value, new_value
        if gained <= 1e-10 * (1.0 + abs(value)):
            break
    return _reference_at(X, mean + guess.factor @ z, n_classes, prior_scale)


def modal_logits(
    whitened: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int
) -> Float[Array, "n C"]:
    """Logits (n, C), of sum zero, of whitened rows (n, d) at the mode of their posterior."""
    space = row_space(whitened)
    rows = space.rows(whitened)
    mode = laplace_reference(rows, labels, n_classes, 1.0).mean
    return np.asarray(rows @ mode @ contrast_basis(n_classes).T)


def matched_reference(
    old: Reference, X: Float[Array, "n d"], weights: Float[Array, "d J K"], sweeps: int = 2
) -> Reference:
    """Re-centre and re-scale a reference on a population V (D+1, J, K).

    On separable data with large features the posterior looks like a Gaussian cut off by walls, and
    the curvature at its mode says little about its width. Each row's curvature is scaled until the
    reference gives that row's logit the variance it has in the population.
    """
    mean = weights.mean(axis=2)
    if len(X) < X.shape[1]:
        # Directions that no row touches keep their exact prior mean 0, not the sampling noise of K
        # draws.
        gram = X @ X.T
        gram[np.diag_indices_from(gram)] += 1e-10 * np.trace(gram) / len(X)
        mean = X.T @ np.linalg.solve(gram, X @ mean)
    logits = np.tensordot(X, weights, axes=1)
    variance = logits.var(axis=2).mean(axis=1)
    kappa, factor, root = old.curvature, old.factor, old.root
    for _ in range(sweeps):
        ratio = np.square(X @ factor).sum(axis=1) / np.maximum(variance, 1e-30)
        kappa = kappa * np.clip(ratio, 1e-3, 1e3)
        root, factor = _factorise(X, kappa, old.prior_scale)
    return Reference(mean, factor, root, kappa, old.prior_scale)


def _reference_at(
    X: Float[Array, "n d"], mean: Float[Array, "d J"], n_classes: int, prior_scale: float
) -> Reference:
    kappa = curvature(softmax(X @ mean @ contrast_basis(n_classes).T))
    root, factor = _factorise(X, kappa, prior_scale)
    return Reference(mean, factor, root, kappa, prior_scale)


def _factorise(
    X: Float[Array, "n d"], kappa: Float[Array, " n"], prior_scale: float
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    hessian = (X * kappa[:, None]).T @ X
    hessian[np.diag_indices_from(hessian)] += 1.0 / prior_scale**2
    root = np.linalg.cholesky(hessian)
    return root, np.ascontiguousarray(np.linalg.inv(root).T)


def _conjugate_gradients(
    apply: Callable[[Any], Any], right: Float[Array, "d J"], steps: int = 40
) -> Float[Array, "d J"]:
    """Solve apply(x) = right roughly; an inexact Newton direction is still a descent direction."""
    x, residual = np.zeros_like(right), right
    direction, norm = residual, np.square(residual).sum()
    goal = norm * min(0.25, np.sqrt(norm)) ** 2
    for _ in range(steps):
        bent = apply(direction)
        length = norm / np.sum(direction * bent)
        x = x + length * direction
        residual = residual - length * bent
        new_norm = np.square(residual).sum()
        if new_norm <= goal:
            break
        direction, norm = residual + (new_norm / norm) * direction, new_norm
    return x
