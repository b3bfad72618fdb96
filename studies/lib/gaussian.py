"""Covariances of a Gaussian posterior between design rows."""

from typing import Any

import numpy as np

__all__ = ["covariance_between"]


def covariance_between(latents: Any, rows: np.ndarray, other_rows: np.ndarray) -> np.ndarray:
    """cov(f_a(x), f_a(x')) (A, n, m) for design rows (n, d) of the one and (m, d) of the other."""
    from parbals.strategies.scoring import covariance, project_rows

    def projected(design: np.ndarray) -> Any:
        whitened = latents.whitening.rows(design)
        return project_rows(latents.basis, latents.location, latents.roots, whitened)

    return np.asarray(covariance(projected(rows), projected(other_rows)))
