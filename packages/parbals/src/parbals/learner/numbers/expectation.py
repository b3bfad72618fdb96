"""The error and the log loss that a model expects on its target set.

Let ŷ(x) be the model's decision at target point x. If posterior sample k were the truth, the share
of wrong decisions measured on the M target points would be a mean of independent Bernoulli
variables with means 1 - p_k(ŷ(x)|x). The report gives the mean of that share and a 90 % interval
over both the posterior and the Bernoulli noise: what somebody who labelled the whole target set
would find. Log loss likewise.

A posterior knows no more than its family: on most data real classes lie farther apart than weights
drawn from any Gaussian would put them, and the model is right more often than it expects. Its own
labels tell. With p_-i the prediction for label i by all others, the *temperature* T maximises

    Σ_i ln q_T(y_i | x_i) + ln p(ln T),    q_T ∝ p_-i^(1/T),    ln T ~ N(0, 0.7²),

and labels are expected as p^(1/T) has them; the interval is over ln T as well. Decisions, choices
and predictions stay the model's: the log loss is that of its own p.

Labels that a strategy chose are hard ones, and what they say of p need not hold for the rest. Those
of an audit are random, and the model has not learnt from them: where there are some, T' is fitted
to its predictions for them, ln T' ~ N(ln T, ς² + 0.5²) where ln T is known up to ς.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from parbals.arrays import mean_prediction
from parbals.types import Estimate

__all__ = ["Temperature", "believed_labels", "estimates", "sharpened", "temperature"]

_DRAWS = 4_000
_LABELLINGS = 200
_WIDTH = 0.7
_APART = 0.5  # of ln T: that of chosen labels and that of random ones
_FARTHEST = 3.0  # that ln T may be from 0
_STEP = 0.1  # of ln T, for a second difference
_NODES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])  # deviations of ln T
_LEAST = 1e-300


class Temperature(NamedTuple):
    """T, and how well it is known."""

    degree: float = 1.0
    deviation: float = 0.0  # of ln T


_NONE = Temperature()


def temperature(
    model: Any, probs: np.ndarray | None = None, labels: np.ndarray | None = None
) -> Temperature:
    """By the labels of a fitted model; 1 without labels, and for models that leave none out.

    Args:
        probs, labels: its predictions (n, C) for random items that it has not learnt from, and
            their class numbers.
    """
    gaussian = getattr(model, "gaussian", None)
    heat = _NONE
    if gaussian is not None and len(gaussian.X):
        heat = _fitted(gaussian.left_out(), gaussian.labels, 0.0, _WIDTH)
    if probs is None or labels is None or len(probs) == 0:
        return heat
    width = _WIDTH if heat is _NONE else float(np.hypot(heat.deviation, _APART))
    return _fitted(probs, labels, float(np.log(heat.degree)), width)


def _fitted(probs: np.ndarray, labels: np.ndarray, centre: float, width: float) -> Temperature:
    """T of predictions (n, C), ln T ~ N(centre, width²)."""
    log_probs, own = np.log(np.maximum(probs, _LEAST)), (np.arange(len(labels)), labels)

    def loss(log_degree: float) -> float:
        log_q = _cooled(log_probs, np.exp(log_degree))
        return float(0.5 * ((log_degree - centre) / width) ** 2 - log_q[own].sum())

    best = float(minimize_scalar(loss, bounds=(-_FARTHEST, _FARTHEST), method="bounded").x)
    bend = (loss(best - _STEP) - 2.0 * loss(best) + loss(best + _STEP)) / _STEP**2
    return Temperature(float(np.exp(best)), float(max(bend, width**-2) ** -0.5))


def sharpened(probs: np.ndarray, degree: float) -> np.ndarray:
    """(N, C) probabilities p^(1/T), normalised."""
    return np.exp(_cooled(np.log(np.maximum(probs, _LEAST)), degree))


def _cooled(log_probs: np.ndarray, degree: float) -> np.ndarray:
    """ln of p^(1/T), normalised."""
    logits = log_probs / degree
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def estimates(
    samples: np.ndarray,
    weights: np.ndarray,
    generator: np.random.Generator,
    heat: Temperature = _NONE,
    decisions: np.ndarray | None = None,
) -> tuple[Estimate, Estimate]:
    """Error and log loss as somebody who labelled the target set (M, K, C) would find them.

    Every sample's probabilities are changed by the factor that makes their mean the sharpened one.
    ``decisions`` (M,) are class numbers, by default the most probable ones.
    """
    plain = mean_prediction(samples, weights)
    mean = sharpened(plain, heat.degree)
    n_targets = len(mean)
    decided = np.arange(n_targets), plain.argmax(axis=1) if decisions is None else decisions
    factor = (1.0 - mean[decided]) / np.maximum(1.0 - plain[decided], _LEAST)
    wrong = factor[:, None] * (1.0 - samples[decided[0], :, decided[1]].astype(np.float64))
    wrong = np.minimum(wrong, 1.0)  # (M, K)
    surprise = -np.log(np.maximum(plain, _LEAST))  # of each possible label
    believed = mean / np.maximum(plain, _LEAST)
    powers = np.stack([believed * surprise, believed * np.square(surprise)], axis=2)  # (M, C, 2)
    powers = powers.astype(samples.dtype)  # the samples are many, and not copied
    expected, squared = np.moveaxis(samples @ powers, 2, 0).astype(np.float64)  # (M, K) each
    drawn = generator.choice(len(weights), _DRAWS, p=weights)
    noise = generator.standard_normal((3, _DRAWS))
    warmer = _by_temperature(plain, decided, surprise, heat)  # (2, nodes)
    results = []
    for values, variance, part, most, at_nodes in (
        (wrong, wrong * (1.0 - wrong), noise[0], 1.0, warmer[0]),
        (expected, squared - np.square(expected), noise[1], np.inf, warmer[1]),
    ):
        of_sample = values.mean(axis=0)
        deviation = np.sqrt(np.maximum(variance, 0.0).sum(axis=0)) / n_targets
        measured = of_sample[drawn] + deviation[drawn] * part
        measured = np.clip(measured * np.interp(noise[2], _NODES, at_nodes), 0.0, most)
        low, high = np.quantile(measured, [0.05, 0.95])
        results.append(Estimate(float(weights @ of_sample), float(low), float(high)))
    return results[0], results[1]


def believed_labels(
    samples: np.ndarray, weights: np.ndarray, generator: np.random.Generator, heat: Temperature
) -> np.ndarray:
    """(K', M) labellings of the target set (M, K, C) as likely as the report has them.

    One each of so many draws from the posterior, at a temperature that is drawn as well.
    """
    plain = mean_prediction(samples, weights)
    drawn = generator.choice(len(weights), _LABELLINGS, p=weights)
    labels = np.empty((_LABELLINGS, len(plain)), np.int64)
    for row, (k, noise) in enumerate(
        zip(drawn, generator.standard_normal(len(drawn)), strict=True)
    ):
        mean = sharpened(plain, heat.degree * np.exp(heat.deviation * noise))
        probs = samples[:, k].astype(np.float64) * (mean / np.maximum(plain, _LEAST))
        totals = probs.cumsum(axis=1)
        at = generator.random((len(plain), 1)) * totals[:, -1:]
        labels[row] = (at > totals[:, :-1]).sum(axis=1)
    return labels


def _by_temperature(
    plain: np.ndarray, decided: tuple[np.ndarray, ...], surprise: np.ndarray, heat: Temperature
) -> np.ndarray:
    """(2, nodes): error and log loss at other temperatures, in units of those at T."""
    values = []
    for degree in heat.degree * np.exp(heat.deviation * _NODES):
        mean = sharpened(plain, degree)
        values.append([1.0 - mean[decided].mean(), (mean * surprise).sum(axis=1).mean()])
    at_nodes = np.array(values).T
    return np.asarray(at_nodes / np.maximum(at_nodes[:, len(_NODES) // 2, None], _LEAST))
