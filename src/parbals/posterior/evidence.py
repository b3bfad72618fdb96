"""The evidence of expectation propagation for many two-class priors at once.

With f = F u at the labelled rows, u ~ N(0, I), sites τ, ν, A = I + Fᵀ diag(τ) F, m = A⁻¹ Fᵀ ν:

    f has mean F m and covariance F A⁻¹ Fᵀ,    ln Z = Σ_i (label i) - ½ ln |A| + ½ νᵀ F m.

At a fixed point of the sites ln Z does not depend on them to first order, so its derivative in the
logarithm of the scale of column j is that of the prior alone, E[u_j²] - 1, and sites that have
settled roughly are good enough.
"""

from typing import NamedTuple

import numpy as np

from parbals.posterior.ep import cavities, renewed_sites, site_evidence
from parbals.posterior.sites import Sites, settle

__all__ = ["Evidence", "stacked_evidence"]

_TOLERANCE = 1e-2
_MOST_SWEEPS = 30


class Evidence(NamedTuple):
    """For every prior of a stack."""

    log_evidence: np.ndarray  # (...,)
    gradient: np.ndarray  # (..., r), in the logarithms of the columns' scales
    sites: Sites  # (..., n)


def stacked_evidence(
    factors: np.ndarray,
    signs: np.ndarray,
    start: Sites | None = None,
    *,
    tolerance: float = _TOLERANCE,
) -> Evidence:
    """ln Z of factors F (..., n, r) and labels ±1 (..., n).

    Labels of 0, with rows of zeros, pad: each adds the same to every ln Z.
    """

    def renew(sites: Sites) -> Sites:
        found = _posterior(factors, sites)
        return renewed_sites(*cavities(found.mean, found.variance, sites), signs)

    empty = np.zeros(np.broadcast_shapes(factors.shape[:-1], signs.shape))
    sites = settle(renew, start or Sites(empty, empty), tolerance, _MOST_SWEEPS).sites
    found = _posterior(factors, sites)
    added = site_evidence(*cavities(found.mean, found.variance, sites), sites, signs).sum(axis=-1)
    half_log_det = 0.5 * np.linalg.slogdet(found.precision)[1]
    log_evidence = added - half_log_det + 0.5 * (sites.shifts * found.mean).sum(axis=-1)
    left = np.diagonal(found.covariance, axis1=-2, axis2=-1)
    return Evidence(log_evidence, np.square(found.weights) + left - 1.0, sites)


class _Posterior(NamedTuple):
    mean: np.ndarray  # of f (..., n)
    variance: np.ndarray  # (..., n)
    weights: np.ndarray  # m (..., r)
    precision: np.ndarray  # A (..., r, r)
    covariance: np.ndarray  # A⁻¹


def _posterior(factors: np.ndarray, sites: Sites) -> _Posterior:
    turned = factors.swapaxes(-1, -2)
    precision = (turned * sites.precisions[..., None, :]) @ factors + np.eye(factors.shape[-1])
    covariance = np.linalg.inv(precision)
    weights = (covariance @ (turned @ sites.shifts[..., None]))[..., 0]
    mean = (factors @ weights[..., None])[..., 0]
    variance = ((factors @ covariance) * factors).sum(axis=-1)
    return _Posterior(mean, variance, weights, precision, covariance)
