"""The evidence of many priors at once.

Sites exp(ν f - ½ τ f²) turn labels into Gaussian ones, whose evidence has a closed form. With
f = s F u + b at the labelled rows, u ~ N(0, I), an intercept b ~ N(0, κ²) and q = κ⁻² + Σ τ

    T = diag(τ) - τ τᵀ / q,    ν' = ν - τ (Σ ν) / q        (the intercept is integrated out),
    FᵀT F = V diag(λ) Vᵀ,      g = VᵀFᵀν',
    ln Z(s) = ½ Σ_j [s² g_j² / (1 + s² λ_j) - ln(1 + s² λ_j)] + a constant in F and s.

Where the sites have converged, the evidence of expectation propagation does not depend on them to
first order: its slope in ln s is that of this formula, and so is the location of its maximum.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import solve_lower
from parbals.posterior.closed.ep import cavities, matched_sites
from parbals.posterior.closed.sites import Sites, iterate_to_convergence
from parbals.shapes import Array, Float

__all__ = ["EvidenceProfile", "converged_sites", "evidence_profile"]


class EvidenceProfile(NamedTuple):
    """ln Z as a function of the scale s, for every matrix F of a stack."""

    eigenvalues: Float[Array, "*P r"]  # λ
    squared_projections: Float[Array, "*P r"]  # g²

    def log_evidence(self, log_scales: Float[Array, " G"]) -> Float[Array, "G *P"]:
        """ln Z (G, ...) at ln s (G,), up to a constant."""
        ones = [1] * self.squared_projections.ndim
        squared_scales = np.exp(2.0 * log_scales).reshape(-1, *ones)
        spread = 1.0 + squared_scales * self.eigenvalues
        explained = squared_scales * self.squared_projections / spread
        return 0.5 * (explained - np.log(spread)).sum(axis=-1)


def evidence_profile(
    factors: Float[Array, "*P n r"], sites: Sites, intercept: float
) -> EvidenceProfile:
    """The evidence profile of F (..., n, r) and sites (..., n); ``intercept``: κ.

    >>> sites = Sites(precisions=np.array([1.0]), linear_terms=np.array([1.0]))
    >>> evidence_profile(np.array([[2.0]]), sites, intercept=1.0).log_evidence(np.zeros(1)).round(3)
    array([-0.383])
    """
    precisions, linear_terms = sites
    total = intercept**-2 + precisions.sum(axis=-1, keepdims=True)
    linear_terms = linear_terms - precisions * (linear_terms.sum(axis=-1, keepdims=True) / total)
    transposed = factors.swapaxes(-1, -2)
    weighted_sum = transposed @ precisions[..., None]  # (..., r, 1)
    information = (transposed * precisions[..., None, :]) @ factors
    information = information - weighted_sum @ weighted_sum.swapaxes(-1, -2) / total[..., None]
    eigenvalues, vectors = np.linalg.eigh(information)
    projections = vectors.swapaxes(-1, -2) @ (transposed @ linear_terms[..., None])
    return EvidenceProfile(np.maximum(eigenvalues, 0.0), np.square(projections[..., 0]))


def converged_sites(
    factors: Float[Array, "*P n r"],
    signs: Float[Array, "*#P n"],
    start: Sites | None = None,
    *,
    tolerance: float,
    max_sweeps: int,
    label_noise: Float[Array, "*#P n"] | None = None,
) -> Sites:
    """Run EP for labels ±1 under f = F u, F (..., n, r); return sites (..., n).

    Labels of 0 are padding and get flat sites. ``label_noise``: λ of
    :func:`~parbals.posterior.closed.ep.matched_sites`.

    >>> sites = converged_sites(np.array([[1.0]]), np.array([1.0]), tolerance=1e-6, max_sweeps=50)
    >>> sites.precisions.round(3)
    array([0.206])
    """
    transposed = factors.swapaxes(-1, -2)
    is_present = np.square(signs)
    unit = np.eye(factors.shape[-1])

    def update(sites: Sites) -> Sites:
        scaled = factors * np.sqrt(sites.precisions)[..., None]
        precision = scaled.swapaxes(-1, -2) @ scaled + unit
        spread = solve_lower(np.linalg.cholesky(precision), transposed)  # root of FᵀΣF
        mean = ((spread @ sites.linear_terms[..., None]).swapaxes(-1, -2) @ spread)[..., 0, :]
        variance = np.square(spread).sum(axis=-2)
        cavity_mean, cavity_variance = cavities(mean, variance, sites)
        matched = matched_sites(cavity_mean, cavity_variance, signs, label_noise)
        return Sites(is_present * matched.precisions, is_present * matched.linear_terms)

    if start is None:
        flat = np.zeros(np.broadcast_shapes(factors.shape[:-1], signs.shape))
        start = Sites(flat, flat)
    return iterate_to_convergence(update, start, tolerance, max_sweeps).sites
