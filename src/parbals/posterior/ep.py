"""Two classes without draws: a Gaussian posterior by expectation propagation (Minka, 2001).

The model is f = x·v, p(y = 1 | x) = σ(f), v ~ N(0, diag(prior_variance)); for the softmax model
with N(0, σ²) weights v is the difference of the two classes' weights and its variance is 2σ². Every
label becomes a Gaussian site exp(ν f - τ f²/2) whose moments agree with those of the true
likelihood under all other sites (the cavity). The likelihood is log-concave, so τ ≥ 0 and all sites
can be renewed at once. In whitened coordinates u = v / √prior_variance, and in the row space of the
design when there are fewer rows than columns (the posterior equals the prior across it), a sweep
costs n r² + r³ with r = min(n, d).

The evidence ln Z is the approximation's own; at a fixed point its derivative in a prior variance
θ_j is that of the prior alone, ½ (E[v_j²] / θ_j² - 1/θ_j).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.channels import Channels, relative_change, row_space, unsettled

__all__ = ["GaussianPosterior", "fit_gaussian"]

_MOST_SWEEPS = 200
_TOLERANCE = 1e-7
_SETTLED = 1e-3
_LEAST_SHARE = 1e-12


@dataclass(frozen=True)
class GaussianPosterior:
    """A Gaussian for v given design rows X (n, d) and class numbers 0 or 1."""

    X: np.ndarray
    labels: np.ndarray
    prior_variance: np.ndarray  # (d,)
    precisions: np.ndarray  # τ (n,)
    shifts: np.ndarray  # ν (n,)
    channels: Channels  # one: f
    log_evidence: float
    n_sweeps: int
    change: float
    """Largest relative change of a site in the last sweep; above 1e-7 it did not converge."""

    @property
    def n_classes(self) -> int:
        return 2

    def marginals(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N,) of f at design rows X (N, d)."""
        mean, variance = self.channels.marginals(X)
        return mean[:, 0], variance[:, 0]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, 2) probabilities, E[σ(∓f)]."""
        (second,) = sigmoid_means(*self.marginals(X), 0)
        return np.stack([1.0 - second, second], axis=1)

    def draw(self, generator: np.random.Generator, n_samples: int) -> np.ndarray:
        """(d, K) independent draws of v."""
        return self.channels.draw(generator, n_samples)[:, 0]

    def evidence_gradient(self) -> np.ndarray:
        """(d,) derivatives of the log evidence in the logarithms of the prior variances."""
        mean, variance = self.channels.marginals(np.eye(len(self.prior_variance)))
        second_moment = (np.square(mean) + variance)[:, 0]
        return 0.5 * (second_moment / self.prior_variance - 1.0)

    def problems(self) -> tuple[str, ...]:
        """What the user must be told: sites that still changed when the sweeps were used up."""
        if self.change < _SETTLED:
            return ()
        return (unsettled(self.n_sweeps, self.change),)

    def condition(self, X_new: np.ndarray, labels_new: np.ndarray) -> "GaussianPosterior":
        """The posterior that also knows these labels; the old sites are where it starts."""
        zeros = np.zeros(len(X_new))
        start = np.append(self.precisions, zeros), np.append(self.shifts, zeros)
        X = np.concatenate([self.X, X_new])
        return fit_gaussian(X, np.append(self.labels, labels_new), self.prior_variance, start)


def fit_gaussian(
    X: np.ndarray,
    labels: np.ndarray,
    prior_variance: np.ndarray,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> GaussianPosterior:
    """Expectation propagation on design rows X (n, d), labels 0 or 1; ``start``: sites τ, ν."""
    deviations = np.sqrt(prior_variance)
    whitened = X * deviations
    basis, rows = row_space(whitened)
    signs = 2.0 * labels - 1.0
    precisions, shifts = (np.zeros(len(X)), np.zeros(len(X))) if start is None else start
    change, damping, n_sweeps = np.inf, 1.0, 0
    while True:
        mean, root = _moments(rows, precisions, shifts)
        cavity = _cavities(rows, mean, root, precisions, shifts)
        log_z, slope, curvature = label_evidence(*cavity, signs)
        if change < _TOLERANCE or n_sweeps == _MOST_SWEEPS:
            break
        left = 1.0 - cavity[1] * curvature  # share of the cavity's variance that the label leaves
        renewed = (
            np.maximum(curvature / left, _LEAST_SHARE / np.maximum(cavity[1], 1.0)),
            (slope + cavity[0] * curvature) / left,
        )
        before, change = (
            change,
            max(relative_change(renewed[0], precisions), relative_change(renewed[1], shifts)),
        )
        # Many labels that say the same overshoot together; a quick return to whole steps would
        # only start the next round of that.
        damping = max(0.5 * damping, 0.02) if change > before else min(1.05 * damping, 1.0)
        precisions = precisions + damping * (renewed[0] - precisions)
        shifts = shifts + damping * (renewed[1] - shifts)
        n_sweeps += 1
    return GaussianPosterior(
        X=X,
        labels=labels,
        prior_variance=prior_variance,
        precisions=precisions,
        shifts=shifts,
        channels=Channels((deviations * (basis @ mean))[:, None], deviations, basis, root[None]),
        log_evidence=_log_evidence(rows, root, precisions, shifts, *cavity, log_z),
        n_sweeps=n_sweeps,
        change=float(change),
    )


def _moments(
    rows: np.ndarray, precisions: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (r,) and root (r, r) of the covariance, root rootᵀ = (I + Σ_i τ_i x_i x_iᵀ)⁻¹."""
    lower = cholesky(np.eye(rows.shape[1]) + (rows.T * precisions) @ rows, lower=True)
    root = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    return cho_solve((lower, True), rows.T @ shifts), root


def _cavities(
    rows: np.ndarray, mean: np.ndarray, root: np.ndarray, precisions: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of f at every row under all sites but its own."""
    variance = np.square(rows @ root).sum(axis=1)
    left = 1.0 - precisions * variance
    return (rows @ mean - variance * shifts) / left, variance / left


def _log_evidence(
    rows: np.ndarray,
    root: np.ndarray,
    precisions: np.ndarray,
    shifts: np.ndarray,
    cavity_mean: np.ndarray,
    cavity_variance: np.ndarray,
    log_z: np.ndarray,
) -> float:
    """Σ_i ln Z_i + ½ ln(1 + τ_i v_i) - ... + ½ ln |root rootᵀ| + ½ bᵀ Σ b, b = Σ_i ν_i x_i."""
    spread = 1.0 + precisions * cavity_variance
    sites = (
        0.5 * np.log(spread)
        + (
            0.5 * precisions * np.square(cavity_mean)
            - shifts * cavity_mean
            - 0.5 * cavity_variance * np.square(shifts)
        )
        / spread
    )
    together = np.square(root.T @ (rows.T @ shifts)).sum()
    return float((log_z + sites).sum() + np.log(np.diag(root)).sum() + 0.5 * together)
