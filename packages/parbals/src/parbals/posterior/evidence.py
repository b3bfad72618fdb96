"""What labels say of many priors at once, through the sites of expectation propagation.

Sites exp(ν f - ½ τ f²) turn labels into Gaussian ones, and their evidence has a closed form. With
f = s F u + b at the labelled rows, u ~ N(0, I), an intercept b ~ N(0, κ²) and q = κ⁻² + Σ τ

    T = diag(τ) - τ τᵀ / q,    ν' = ν - τ (Σ ν) / q        (the intercept is integrated out),
    FᵀT F = V diag(λ) Vᵀ,      g = VᵀFᵀν',
    ln Z(s) = ½ Σ_j [s² g_j² / (1 + s² λ_j) - ln(1 + s² λ_j)] + the same for every F and s.

Where the sites have settled, the evidence of expectation propagation does not depend on them to
first order: its slope in ln s is that of this formula, and so is the place of its maximum.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from parbals.posterior.ep import cavities, renewed_sites
from parbals.posterior.sites import Sites, settle

__all__ = ["Profile", "profile", "settled_sites"]


class Profile(NamedTuple):
    """ln Z as a function of s, for every matrix F of a stack."""

    eigenvalues: np.ndarray  # λ (..., r)
    pulls: np.ndarray  # g² (..., r)

    def log_evidence(self, log_scales: np.ndarray) -> np.ndarray:
        """(G, ...) at ln s (G,)."""
        squares = np.exp(2.0 * log_scales).reshape(-1, *[1] * self.pulls.ndim)
        spread = 1.0 + squares * self.eigenvalues
        return 0.5 * (squares * self.pulls / spread - np.log(spread)).sum(axis=-1)


def profile(factors: np.ndarray, sites: Sites, intercept: float) -> Profile:
    """Of F (..., n, r) and sites (..., n); ``intercept``: κ."""
    precisions, shifts = sites
    total = intercept**-2 + precisions.sum(axis=-1, keepdims=True)
    shifts = shifts - precisions * (shifts.sum(axis=-1, keepdims=True) / total)
    turned = factors.swapaxes(-1, -2)
    common = turned @ precisions[..., None]  # (..., r, 1)
    held = (turned * precisions[..., None, :]) @ factors
    held = held - common @ common.swapaxes(-1, -2) / total[..., None]
    eigenvalues, vectors = np.linalg.eigh(held)
    pulls = vectors.swapaxes(-1, -2) @ (turned @ shifts[..., None])
    return Profile(np.maximum(eigenvalues, 0.0), np.square(pulls[..., 0]))


def settled_sites(
    factors: np.ndarray,
    signs: np.ndarray,
    start: Sites | None = None,
    *,
    tolerance: float,
    most_sweeps: int,
) -> Sites:
    """Sites (..., n) of labels ±1 under f = F u, F (..., n, r).

    Labels of 0, which pad, say nothing.
    """
    turned, present = factors.swapaxes(-1, -2), np.square(signs)
    stack, unit = turned.reshape(-1, *turned.shape[-2:]), np.eye(factors.shape[-1])

    def renew(sites: Sites) -> Sites:
        precision = (turned * sites.precisions[..., None, :]) @ factors + unit
        lowers = np.linalg.cholesky(precision).reshape(-1, *unit.shape)
        halves = map(partial(solve_triangular, lower=True, check_finite=False), lowers, stack)
        spread = np.reshape(list(halves), turned.shape)  # its square is FᵀΣF
        mean = ((spread @ sites.shifts[..., None]).swapaxes(-1, -2) @ spread)[..., 0, :]
        variance = np.square(spread).sum(axis=-2)
        renewed = renewed_sites(*cavities(mean, variance, sites), signs)
        return Sites(present * renewed.precisions, present * renewed.shifts)

    empty = np.zeros(np.broadcast_shapes(factors.shape[:-1], signs.shape))
    return settle(renew, start or Sites(empty, empty), tolerance, most_sweeps).sites
