"""Moments of a Gaussian posterior given its sites: covariances, mean and cavities, in blocks.

The covariances are one matrix for every latent, computed by several threads. The mean is found by
conjugate gradients, preconditioned with the latest covariances.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from parbals.arrays import block_rows, inverse_lower
from parbals.machine import several_threads
from parbals.posterior.closed.sites import Sites
from parbals.shapes import Array, Float

__all__ = [
    "MANY_LABELS",
    "PrecisionProduct",
    "latent_cavities",
    "logit_variances",
    "posterior_mean",
    "precision_roots",
]

# n rows, m selected rows, d columns, A latents.
_Rows = Float[Array, "n d"]
_RowLatents = Float[Array, "n A"]
_SelectedLatents = Float[Array, "m A"]
_Roots = Float[Array, "A d d"]
_Mean = Float[Array, "d A"]

MANY_LABELS = 2_000
"""From this number of labels on, fits may start from another fit's sites."""
_MAX_CG_ITERATIONS = 100
_CG_RTOL = 1e-6  # of the right-hand side, in the preconditioner's norm
_BLOCK_ROWS = 2_048  # a thread's share at a time

PrecisionProduct = Callable[[Any, Any], Any]
"""W f, from the sites' precisions and the logits f."""


def precision_roots(rows: _Rows, precisions: _RowLatents) -> _Roots:
    """Roots R_a (A, d, d) of the covariances, R_a R_aᵀ = (I + Σ_i τ_ia x_i x_iᵀ)⁻¹.

    Args:
        rows: x (n, d).
        precisions: τ (n, A).

    >>> precision_roots(np.array([[1.0]]), np.array([[3.0]]))
    array([[[0.5]]])
    """
    unit = np.eye(rows.shape[1])
    root_precisions = np.sqrt(precisions)
    if len(rows) < MANY_LABELS:
        scaled_rows = rows * root_precisions.T[:, :, None]
        # A product of a matrix with itself takes BLAS half the time of another one.
        return _inverse_roots(unit + scaled_rows.transpose(0, 2, 1) @ scaled_rows)
    blocks = list(block_rows(len(rows), _BLOCK_ROWS))
    n_latents = precisions.shape[1]

    def product(task: tuple[int, slice]) -> np.ndarray:
        latent, block = task
        scaled = rows[block] * root_precisions[block, latent, None]
        return np.asarray(scaled.T @ scaled)

    tasks = [(a, block) for a in range(n_latents) for block in blocks]
    with several_threads() as workers:
        products = workers.map(product, tasks)
    n_blocks = len(blocks)
    sums = [sum(products[a * n_blocks : (a + 1) * n_blocks], unit) for a in range(n_latents)]
    return _inverse_roots(np.stack(sums))


def _inverse_roots(hessians: _Roots) -> _Roots:
    """R (A, d, d) with R Rᵀ = H⁻¹, for every H of (A, d, d)."""
    return inverse_lower(np.linalg.cholesky(hessians)).transpose(0, 2, 1)


def logit_variances(rows_float32: _Rows, roots: _Roots) -> _RowLatents:
    """Variances (n, A) of the rows' logits, in single precision."""
    variances = np.empty((len(rows_float32), len(roots)))
    factors = roots.astype(np.float32)

    def write(task: tuple[int, slice]) -> None:
        latent, block = task
        scaled = rows_float32[block] @ factors[latent]
        variances[block, latent] = np.einsum("nr,nr->n", scaled, scaled)

    blocks = list(block_rows(len(rows_float32), _BLOCK_ROWS))
    with several_threads() as workers:
        workers.map(write, [(a, block) for a in range(len(roots)) for block in blocks])
    return variances


def posterior_mean(
    rows: _Rows,
    roots: _Roots,
    precision_product: PrecisionProduct,
    sites: Sites,
    mean: _Mean,
    rtol: float = 0.0,
) -> _Mean:
    """Posterior mean m (d, A) by preconditioned conjugate gradients.

    Solves m + Σ_i x_i (W_i f_i)ᵀ = Σ_i x_i ν_iᵀ, f_i = mᵀ x_i.

    SciPy's ``cg`` is as fast, but not safe here. The preconditioner is singular, because it removes
    the mean over classes, and SciPy stops by the plain norm of the residual: rounding errors in
    that direction, where the labels contradict each other, lead to 0 / 0. Here the stopping rule
    uses the preconditioner's norm, which ignores that direction.

    Args:
        rows: x (n, d).
        roots: R (A, d, d); R_a R_aᵀ preconditions latent a.
        precision_product: W f.
        sites: (n, A).
        mean: where to start.
        rtol: reduction of the first residual that is enough.
    """

    def precondition(residual: _Mean) -> _Mean:
        inner = roots.transpose(0, 2, 1) @ residual.T[:, :, None]
        z = (roots @ inner)[:, :, 0].T
        if len(roots) > 1:
            # Softmax is shift-invariant: the mean over classes is zero, and rounding is removed.
            z = z - z.mean(axis=1, keepdims=True)
        return np.asarray(z)

    precisions = sites.precisions
    rhs = rows.T @ sites.linear_terms
    residual = rhs - mean - rows.T @ precision_product(precisions, rows @ mean)
    z = precondition(residual)
    direction = z
    r_dot_z = np.sum(residual * z)
    tolerance = max(_CG_RTOL**2 * np.sum(rhs * precondition(rhs)), rtol**2 * r_dot_z)
    for _ in range(_MAX_CG_ITERATIONS):
        if r_dot_z <= tolerance:
            break
        A_direction = direction + rows.T @ precision_product(precisions, rows @ direction)
        step_size = r_dot_z / np.sum(direction * A_direction)
        mean = mean + step_size * direction
        residual = residual - step_size * A_direction
        z = precondition(residual)
        previous = r_dot_z
        r_dot_z = np.sum(residual * z)
        direction = z + (r_dot_z / previous) * direction
    return mean


def latent_cavities(
    f: _SelectedLatents,
    variances: _SelectedLatents,
    sites: Sites,
    precision_product: PrecisionProduct,
) -> tuple[_SelectedLatents, _SelectedLatents]:
    """Means and variances (m, A) of the cavities: logits under all sites but their own."""
    cavity = variances / np.maximum(1.0 - sites.precisions * variances, 1e-4)
    return f - cavity * (sites.linear_terms - precision_product(sites.precisions, f)), cavity
