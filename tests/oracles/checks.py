"""Statistical checks as plain functions: each returns a p-value, and the caller judges.

A check passes when p > ALPHA. The same functions are run on deliberately broken copies of the
library (tests/statistics/test_planted_bugs.py), where they must fail.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

ALPHA = 1e-3
_SIMULATIONS = 20_000
# Predictive samples are float32, and what the moves leave of a particle's start is a bias of a few
# per cent of one Monte-Carlo error: differences below these are not errors.
_ABSOLUTE = 1e-6


class Summary(NamedTuple):
    """Means and standard deviations (Q each), and the covariance (2Q, 2Q) of their error."""

    mean: np.ndarray
    sd: np.ndarray
    covariance: np.ndarray


class Agreement(NamedTuple):
    """Differences in units of Monte-Carlo error, and how likely ones as large are by chance."""

    rms_z: float
    max_z: float
    p_value: float


def summarise_draws(values, weights=None):
    """Summary of independent draws (K, Q), weighted or not."""
    values = np.asarray(values, np.float64)
    weights = np.full(len(values), 1.0 / len(values)) if weights is None else np.asarray(weights)
    mean, sd, influence = _influence(values, weights)
    scaled = weights[:, None] * influence
    return Summary(mean, sd, scaled.T @ scaled)


def summarise_chains(values, n_batches=25):
    """Summary of Markov chains (chains, S, Q): the error is read off the spread of batch means."""
    values = np.asarray(values, np.float64)
    n_chains, n_draws, n_values = values.shape
    length = n_draws // n_batches
    flat = values.reshape(-1, n_values)
    mean, sd, influence = _influence(flat, np.full(len(flat), 1.0 / len(flat)))
    batches = influence.reshape(n_chains, n_draws, -1)[:, : length * n_batches]
    batches = batches.reshape(n_chains * n_batches, length, -1).mean(axis=1)
    return Summary(mean, sd, np.cov(batches.T) / len(batches))


def summarise_exact(mean, sd):
    """Summary without error."""
    return Summary(mean, sd, np.zeros((2 * len(mean), 2 * len(mean))))


def _influence(values, weights):
    mean = weights @ values
    deviation = values - mean
    sd = np.sqrt(weights @ deviation**2)
    return mean, sd, np.hstack([deviation, (deviation**2 - sd**2) / (2.0 * np.maximum(sd, 1e-30))])


def agreement(a, b):
    """Do two summaries agree within their errors?

    The root mean square and the largest of the 2Q standardised differences are each compared with
    what the same statistic shows for normal errors of the same correlation (test points are far
    from independent, and there are many of them), and the smaller of the two p-values is doubled.
    """
    difference = np.concatenate([a.mean - b.mean, a.sd - b.sd])
    covariance = a.covariance + b.covariance
    error = np.sqrt(np.diag(covariance)) + _ABSOLUTE
    z = difference / error
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    chance = np.random.default_rng(0).standard_normal((_SIMULATIONS, len(z))) @ root.T
    rms = np.sqrt(np.mean(z**2))
    largest = np.abs(z).max()
    p_rms = _tail(np.sqrt(np.mean(chance**2, axis=1)), rms)
    p_max = _tail(np.abs(chance).max(axis=1), largest)
    return Agreement(float(rms), float(largest), min(1.0, 2.0 * min(p_rms, p_max)))


def _tail(chance, seen):
    return (1 + np.count_nonzero(chance >= seen)) / (1 + len(chance)) if np.isfinite(seen) else 0.0


def predictive_values(probs):
    """Columns (K, T·(C-1)) of predictive samples (T, K, C); the first class is redundant."""
    return np.moveaxis(np.asarray(probs, np.float64), 1, 0)[:, :, 1:].reshape(probs.shape[1], -1)


def summarise_model(model, X_test):
    """Summary of a fitted model's predictive samples, taken as independent weighted draws."""
    return summarise_draws(predictive_values(model.sample_proba(X_test)), model.sample_weights)


def ranks_of(truth, draws, weights, rng):
    """Position in (0, 1) of true values (Q,) among posterior draws (K, Q)."""
    n_draws = len(draws)
    if not np.allclose(weights, 1.0 / n_draws):
        points = (rng.random() + np.arange(n_draws)) / n_draws
        draws = draws[np.minimum(np.searchsorted(np.cumsum(weights), points), n_draws - 1)]
    return ((draws < truth).sum(axis=0) + rng.random(len(truth))) / (n_draws + 1)


def uniformity(ranks):
    """p-value of "the ranks (R, Q) are uniform": χ² on 16 bins and Kolmogorov-Smirnov."""
    p_values = []
    for column in ranks.T:
        counts = np.histogram(column, bins=16, range=(0.0, 1.0))[0]
        p_values += [stats.chisquare(counts).pvalue, stats.kstest(column, "uniform").pvalue]
    return float(min(1.0, len(p_values) * min(p_values)))
