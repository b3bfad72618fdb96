"""Prediction-powered inference (PPI++): the mean of a pool from few labels and many predictions.

For n random items both the values y_i and predictions ŷ_i are known, for N further items of the
pool only the predictions. For every λ

    θ = λ mean_N(ŷ) + mean_n(y - λ ŷ)

is an unbiased estimate of the mean of y, however good the predictions are. Its variance

    λ² var(ŷ) / N + var(y - λ ŷ) / n

is smallest at λ = cov(y, ŷ) / ((1 + n/N) var ŷ), which is estimated from the data and clipped to
[0, 1] (Angelopoulos, Duchi and Zrnic, PPI++, 2023). λ = 0 is the plain mean, so useless predictions
do no harm. A normal interval from this variance is valid for large n, provided that both groups of
items are random, not selected by their content.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["PPIMean", "ppi_mean"]


class PPIMean(NamedTuple):
    """A PPI++ estimate of a mean.

    Attributes:
        mean: the estimate θ.
        deviation: its standard deviation.
        weight: λ, the weight of the predictions.
    """

    mean: float
    deviation: float
    weight: float


def ppi_mean(
    values: np.ndarray, predictions: np.ndarray, unlabelled_predictions: np.ndarray
) -> PPIMean:
    """Estimate a mean by PPI++.

    Good predictions narrow the estimate; the plain mean would have a deviation of 0.25:

    >>> values = np.array([0.0, 1.0, 1.0, 0.0])
    >>> estimate = ppi_mean(values, np.array([0.1, 0.9, 0.8, 0.2]), np.tile([0.1, 0.9], 50))
    >>> round(estimate.mean, 2), round(estimate.deviation, 2)
    (0.5, 0.09)

    Args:
        values: (n,) known values.
        predictions: (n,) predictions of the same items.
        unlabelled_predictions: (N,) predictions of further items.
    """
    values = np.asarray(values, np.float64)
    predictions = np.asarray(predictions, np.float64)
    unlabelled_predictions = np.asarray(unlabelled_predictions, np.float64)
    n = len(values)
    n_unlabelled = len(unlabelled_predictions)
    all_predictions = np.concatenate([predictions, unlabelled_predictions])
    weight = 0.0
    if n_unlabelled and np.ptp(all_predictions) > 0.0:
        centred_values = values - values.mean()
        centred_predictions = predictions - predictions.mean()
        covariance = float(np.mean(centred_values * centred_predictions))
        variance_of_predictions = all_predictions.var(ddof=1)
        optimal = covariance / ((1.0 + n / n_unlabelled) * variance_of_predictions)
        weight = float(np.clip(optimal, 0.0, 1.0))
    residuals = values - weight * predictions
    mean = residuals.mean()
    variance = residuals.var() / n
    if weight:
        mean = mean + weight * unlabelled_predictions.mean()
        variance = variance + weight**2 * unlabelled_predictions.var() / n_unlabelled
    return PPIMean(float(mean), float(np.sqrt(variance)), weight)
