"""A mean over a pool from few labels and the predictions of all: prediction-powered inference.

Of n random items the values y_i are known, and predictions ŷ_i of them; of N further items of the
pool only predictions. For every λ

    θ = λ mean_N(ŷ) + mean_n(y - λ ŷ)

has the mean of y, whatever the predictions are worth, and the variance

    λ² var(ŷ) / N + var(y - λ ŷ) / n,

which is least at λ = cov(y, ŷ) / ((1 + n/N) var ŷ), here estimated and kept in [0, 1] (PPI++ of
Angelopoulos, Duchi and Zrnic, 2023). λ = 0 is the plain mean: predictions that know nothing do no
harm. The interval is normal: it holds as n grows, if neither group of items was chosen by what it
shows.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Powered", "ppi_mean"]


class Powered(NamedTuple):
    """A mean, its standard deviation, and the weight λ that predictions have in it."""

    mean: float
    deviation: float
    weight: float


def ppi_mean(values: np.ndarray, predicted: np.ndarray, rest: np.ndarray) -> Powered:
    """The mean of values (n,) with predictions of the same items (n,) and of others (N,)."""
    values, predicted = np.asarray(values, np.float64), np.asarray(predicted, np.float64)
    rest, n = np.asarray(rest, np.float64), len(values)
    weight, together = 0.0, np.concatenate([predicted, rest])
    if len(rest) and np.ptp(together) > 0.0:
        shared = float(np.mean((values - values.mean()) * (predicted - predicted.mean())))
        best = shared / ((1.0 + n / len(rest)) * together.var(ddof=1))
        weight = float(np.clip(best, 0.0, 1.0))
    left = values - weight * predicted
    mean, variance = left.mean(), left.var() / n
    if weight:
        mean, variance = mean + weight * rest.mean(), variance + weight**2 * rest.var() / len(rest)
    return Powered(float(mean), float(np.sqrt(variance)), weight)
