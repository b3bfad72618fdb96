"""The model straight from its definition, in float64, sharing no code with the library.

Class weights W (C, D+1), the last column the bias, every entry N(0, σ²); softmax likelihood.
"""

from typing import NamedTuple

import numpy as np


class Data(NamedTuple):
    """Labelled rows X (n, D) with classes y (n,) in 0..C-1, and test points X_test (T, D)."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    n_classes: int = 2
    prior_scale: float = 1.0


class Moments(NamedTuple):
    """Mean, standard deviation and fourth central moment of p(y=c | x_t), for each (t, c)."""

    mean: np.ndarray
    sd: np.ndarray
    fourth: np.ndarray


def with_ones(X):
    return np.column_stack([np.asarray(X, np.float64), np.ones(len(X))])


def log_softmax(logits):
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


def log_likelihood(W, X, y):
    """Σ_n ln p(y_n | x_n, W); leading axes of W (..., C, D+1) are kept."""
    log_probs = log_softmax(np.einsum("nd,...cd->...nc", with_ones(X), W))
    return np.take_along_axis(
        log_probs, np.broadcast_to(y[:, None], (*log_probs.shape[:-1], 1)), -1
    )[..., 0].sum(-1)


def log_prior(W, prior_scale):
    return -0.5 * np.square(W).sum(axis=(-2, -1)) / prior_scale**2


def log_posterior(W, X, y, prior_scale):
    return log_likelihood(W, X, y) + log_prior(W, prior_scale)


def draw_labels(rng, W, X):
    """One label for each row, from p(· | x, W)."""
    cumulative = np.exp(log_softmax(with_ones(X) @ W.T)).cumsum(axis=1)
    return np.minimum((rng.random((len(X), 1)) > cumulative).sum(axis=1), len(W) - 1)


def grid_posterior(data, n_slope=1501, n_bias=401):
    """One feature, two classes: weights on a grid of (slope, bias) of the log odds.

    The log odds are (w₁ - w₀)·x, and each coordinate of the difference is N(0, 2σ²). The slope is
    spaced as sinh(t) / |x|max: features of size 1,000 switch the likelihood within a thousandth of
    the prior's width. Integrands are smooth in t and vanish at both ends, so the trapezoid is
    exact.
    """
    assert data.X.shape[1] == 1
    assert data.n_classes == 2
    width = 8.5 * np.sqrt(2.0) * data.prior_scale
    size = np.abs(data.X).max()
    t = np.linspace(-1.0, 1.0, n_slope) * np.arcsinh(width * size)
    slope = np.sinh(t) / size
    bias = np.linspace(-width, width, n_bias)
    log_density = np.log(np.cosh(t))[:, None] - (slope[:, None] ** 2 + bias**2) / (
        4.0 * data.prior_scale**2
    )
    for x, label in zip(data.X[:, 0], data.y, strict=True):
        log_density -= np.logaddexp(
            0.0, np.where(label == 1, -1.0, 1.0) * (slope[:, None] * x + bias)
        )
    weights = np.exp(log_density - log_density.max())
    return slope, bias, weights / weights.sum()


def exact_moments(data):
    """Predictive moments of the positive class at the test points, by quadrature."""
    slope, bias, weights = grid_posterior(data)
    moments = []
    for x in data.X_test[:, 0]:
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-(slope[:, None] * x + bias)))
        mean = (weights * p).sum()
        deviation = p - mean
        moments.append(
            (mean, np.sqrt((weights * deviation**2).sum()), (weights * deviation**4).sum())
        )
    return Moments(*np.array(moments).T)


def exact_draws(rng, data, n_draws):
    """Draws (n_draws, 2) of (slope, bias) of the log odds from the grid, jittered in its cells."""
    slope, bias, weights = grid_posterior(data)
    i, j = np.unravel_index(rng.choice(weights.size, n_draws, p=weights.ravel()), weights.shape)
    position = np.clip(i + rng.random(n_draws) - 0.5, 0, len(slope) - 1)
    return np.column_stack(
        [
            np.interp(position, np.arange(len(slope)), slope),
            bias[j] + (rng.random(n_draws) - 0.5) * np.diff(bias)[0],
        ]
    )
