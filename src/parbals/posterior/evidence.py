"""The evidence of expectation propagation for many two-class priors at once, by their kernels.

A prior under which f at the labelled rows has covariance K (n, n) enters through K alone. With
sites τ, ν and S = diag(τ), M = √S (I + √S K √S)⁻¹ √S and b = ν - M K ν, the posterior of f has

    mean K b,    covariance K - K M K,    ln Z = Σ_i (label i) - ½ ln |I + √S K √S| + ½ νᵀ K b.

At a fixed point of the sites ln Z does not depend on them to first order: its derivative is that of
the prior alone, ½ tr((b bᵀ - M) dK), and sites that have settled roughly give it exactly enough.
"""

from typing import NamedTuple

import numpy as np

from parbals.posterior.ep import cavities, renewed_sites, site_evidence
from parbals.posterior.sites import Sites, settle

__all__ = ["KernelEvidence", "kernel_evidence"]

_TOLERANCE = 1e-2
_MOST_SWEEPS = 30


class KernelEvidence(NamedTuple):
    """For every prior of a stack."""

    log_evidence: np.ndarray  # (...,)
    gradient: np.ndarray  # (...,) along a change of the kernel
    sites: Sites  # (..., n)


def kernel_evidence(
    kernels: np.ndarray,
    changes: np.ndarray,
    signs: np.ndarray,
    start: Sites | None = None,
    *,
    tolerance: float = _TOLERANCE,
) -> KernelEvidence:
    """ln Z of kernels (..., n, n) and labels ±1 (..., n), and its change along dK (..., n, n).

    Labels of 0, with rows of zeros in the kernels, pad: each adds the same to every ln Z.
    """
    diagonal = np.diagonal(kernels, axis1=-2, axis2=-1)

    def renew(sites: Sites) -> Sites:
        _, moments = _posterior(kernels, sites)
        return renewed_sites(*cavities(moments.mean, moments.variance, sites), signs)

    empty = np.zeros(np.broadcast_shapes(diagonal.shape, signs.shape))
    sites = settle(renew, start or Sites(empty, empty), tolerance, _MOST_SWEEPS).sites
    inner, (mean, variance, pull, taken) = _posterior(kernels, sites)
    added = site_evidence(*cavities(mean, variance, sites), sites, signs).sum(axis=-1)
    half_log_det = 0.5 * np.linalg.slogdet(inner)[1]
    log_evidence = added - half_log_det + 0.5 * (sites.shifts * mean).sum(axis=-1)
    bent = (pull * (changes @ pull[..., None])[..., 0]).sum(axis=-1)
    gradient = 0.5 * (bent - (taken * changes).sum(axis=(-2, -1)))
    return KernelEvidence(log_evidence, gradient, sites)


class _Moments(NamedTuple):
    mean: np.ndarray  # (..., n)
    variance: np.ndarray  # (..., n)
    pull: np.ndarray  # b (..., n)
    taken: np.ndarray  # M (..., n, n)


def _posterior(kernels: np.ndarray, sites: Sites) -> tuple[np.ndarray, _Moments]:
    """I + √S K √S, and the moments of f."""
    roots = np.sqrt(sites.precisions)
    inner = roots[..., :, None] * kernels * roots[..., None, :] + np.eye(roots.shape[-1])
    taken = roots[..., :, None] * np.linalg.inv(inner) * roots[..., None, :]
    product = taken @ kernels
    pull = sites.shifts - (product @ sites.shifts[..., None])[..., 0]
    mean = (kernels @ pull[..., None])[..., 0]
    variance = np.diagonal(kernels, axis1=-2, axis2=-1) - (kernels * product).sum(axis=-2)
    return inner, _Moments(mean, variance, pull, taken)
