"""The error and the log loss that a model expects on its target set.

Let ŷ(x) be the model's decision at target point x. If posterior sample k were the truth, the share
of wrong decisions measured on the M target points would be a mean of independent Bernoulli
variables with means 1 - p_k(ŷ(x)|x). The report gives the mean of that share and a 90 % interval
over both the posterior and the Bernoulli noise: what somebody who labelled the whole target set
would find. Log loss likewise.

A posterior knows no more than its family: on most data real classes lie farther apart than weights
drawn from any Gaussian would put them, and the model is right more often than it expects. Its own
labels tell. With p_-i the prediction for label i without it, the *temperature* T maximises

    Σ_i ln q_T(y_i | x_i) + ln p(ln T),    q_T ∝ p_-i^(1/T),    ln T ~ N(0, 0.7²),

and labels are expected as p^(1/T) has them; the interval is over ln T as well. Decisions, choices
and predictions stay the model's: the log loss is that of its own p.

That T is not yet the one at which the expected error is the real one. A power of p is not quite how
a model is wrong, and labels that a strategy chose are hard ones, whose T need not be that of the
rest. Over 24 sets (tables, texts, images; 2 to 20 classes), four strategies and 110 to 250 labels,
the ln T of the real error differs from that of left-out labels, beyond what ς explains, by
0.03 ± 0.13 where labels are random and 0.03 ± 0.21 where they were chosen; twelve of the sets were
held out while this was learnt (docs/explanation/coverage.md). Both enter the report.

Labels of an audit are random, and the model has not learnt from them: where there are some, ln T is
fitted to its predictions for them as well, with the above as its prior.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from parbals.arrays import mean_prediction
from parbals.types import Estimate

__all__ = ["Temperature", "believed_labels", "estimates", "sharpened", "temperature"]

_DRAWS = 4_000
_LABELLINGS = 200
_WIDTH = 0.7
_SHIFT = 0.03  # of ln T, from that of left-out labels to that of the real error
_MISFIT = 0.13  # deviation of that shift
_CHOSEN = 0.22  # what it is more where a strategy chose the labels
_FARTHEST = 3.0  # that ln T may be from 0
_STEP = 0.1  # of ln T, for a second difference
_NODES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])  # deviations of ln T
_LEAST = 1e-300


class Temperature(NamedTuple):
    """T, and how well it is known."""

    degree: float = 1.0
    deviation: float = 0.0  # of ln T


_NONE = Temperature()


Labelled = tuple[np.ndarray, np.ndarray]
"""Predictions (n, C) for items that the model has not learnt from, and their class numbers (n,)."""


def temperature(left_out: Labelled, random: Labelled, *, chosen: bool) -> Temperature:
    """The temperature of a model; 1, and known, where there is no label.

    Args:
        left_out: labels that it was fitted to, each predicted without it.
        random: labels of random items that it has not learnt from.
        chosen: whether a strategy chose the labels that were left out.
    """
    centre, width = 0.0, _WIDTH
    if len(left_out[0]):
        found = _fitted(*left_out, 0.0, _WIDTH)
        centre = float(np.log(found.degree)) + _SHIFT
        width = float(np.hypot(found.deviation, _CHOSEN if chosen else 0.0))
    elif not len(random[0]):
        return _NONE
    if len(random[0]):
        found = _fitted(*random, centre, float(np.hypot(width, _MISFIT)))
        centre, width = float(np.log(found.degree)), found.deviation
    return Temperature(float(np.exp(centre)), float(np.hypot(width, _MISFIT)))


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
    return np.exp(_cooled(np.log(np.maximum(probs.astype(np.float64), _LEAST)), degree))


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

    Every sample's probabilities are changed so that their mean is the sharpened one.
    ``decisions`` (M,) are class numbers, by default the most probable ones.
    """
    plain = mean_prediction(samples, weights)
    mean = sharpened(plain, heat.degree)
    n_targets = len(mean)
    decided = np.arange(n_targets), plain.argmax(axis=1) if decisions is None else decisions
    right = samples[decided[0], :, decided[1]].astype(np.float64).T
    wrong = _wrong(right, plain[decided], mean[decided]).T  # (M, K)
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
    best = np.arange(len(plain)), plain.argmax(axis=1)
    drawn = generator.choice(len(weights), _LABELLINGS, p=weights)
    labels = np.empty((_LABELLINGS, len(plain)), np.int64)
    for row, (k, noise) in enumerate(
        zip(drawn, generator.standard_normal(len(drawn)), strict=True)
    ):
        mean = sharpened(plain, heat.degree * np.exp(heat.deviation * noise))
        sample = samples[:, k].astype(np.float64)
        # As wrong as in ``estimates``. To normalise what is sharpened would blunt it again where
        # samples differ: a class that a sample is sure of stays sure.
        wrong = _wrong(sample[best], plain[best], mean[best])
        probs = sample * (mean / np.maximum(plain, _LEAST))
        probs[best] = 0.0
        probs *= (wrong / np.maximum(probs.sum(axis=1), _LEAST))[:, None]
        probs[best] = 1.0 - wrong
        totals = probs.cumsum(axis=1)
        at = generator.random((len(plain), 1)) * totals[:, -1:]
        labels[row] = (at > totals[:, :-1]).sum(axis=1)
    return labels


def _wrong(right: np.ndarray, mean: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """1 - ``right`` (…, M), of mean ``mean`` (M,), brought to mean 1 - ``wanted``, in [0, 1]."""
    fewer, less = (1.0 - wanted) / np.maximum(1.0 - mean, _LEAST), wanted / np.maximum(mean, _LEAST)
    return np.minimum(fewer, 1.0) - np.minimum(fewer, less) * right


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
