"""Independent Gaussian weight vectors that share a prior: what every score in closed form needs.

Channel a has weights v_a ~ N(mean_a, S_a). With prior deviations D = diag(deviations), a basis B
(d, r) of the whitened labelled rows, and R_a (r, r) the root of the posterior within it,

    S_a = D (I + B (R_a R_aᵀ - I) Bᵀ) D:

across the rows the posterior is the prior. So D > n costs no more than D = n, in time and memory.
Two classes have one channel, the difference of their logits; C > 2 classes have C, their logits.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Channels", "relative_change", "row_space", "unsettled"]


@dataclass(frozen=True)
class Channels:
    """A Gaussian weight vectors of d coordinates each."""

    mean: np.ndarray  # (d, A)
    deviations: np.ndarray  # (d,)
    basis: np.ndarray  # (d, r)
    roots: np.ndarray  # (A, r, r)

    def marginals(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N, A) of f_a = x·v_a at design rows X (N, d)."""
        whitened = X * self.deviations
        inside = whitened @ self.basis
        prior = np.square(whitened).sum(axis=1) - np.square(inside).sum(axis=1)
        posterior = np.square(inside @ self.roots).sum(axis=2).T
        return X @ self.mean, np.maximum(prior, 0.0)[:, None] + posterior

    def covariance_with(self, X: np.ndarray) -> np.ndarray:
        """S_a xᵀ (A, d, M) for design rows X (M, d): cov(f_a(x'), f_a(x)) = x' S_a xᵀ."""
        whitened = (X * self.deviations).T  # (d, M)
        inside = self.basis.T @ whitened
        learnt = self.roots @ (self.roots.transpose(0, 2, 1) @ inside) - inside
        return self.deviations[:, None] * (whitened + self.basis @ learnt)

    def draw(self, generator: np.random.Generator, n_samples: int) -> np.ndarray:
        """(d, A, K) independent draws of the weights."""
        n_columns, n_channels = self.mean.shape
        noise = generator.standard_normal((n_channels, n_columns, n_samples))
        inside = self.basis.T @ noise
        coloured = noise + self.basis @ (self.roots @ inside - inside)
        return self.mean[:, :, None] + self.deviations[:, None, None] * coloured.transpose(1, 0, 2)


def row_space(whitened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis (d, r) of rows (n, d), r = min(n, d), and their coordinates (n, r)."""
    n_rows, n_columns = whitened.shape
    if n_rows >= n_columns:
        return np.eye(n_columns), whitened
    basis, triangle = np.linalg.qr(whitened.T)
    return basis, triangle.T


def relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """Largest change of a site, as a share of the largest site."""
    largest = max(np.abs(new).max(initial=0.0), 1e-300)
    return float(np.abs(new - old).max(initial=0.0) / largest)


def unsettled(n_sweeps: int, change: float) -> str:
    """What the user is told when the sweeps of expectation propagation were used up."""
    return (
        f"Expectation propagation did not settle: after {n_sweeps} sweeps a site still "
        f"changed by {change:.1g} of the largest. Standardise the features, use a smaller "
        'prior_scale, or use inference="smc".'
    )
