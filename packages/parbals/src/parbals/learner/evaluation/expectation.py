"""The error and log loss that a model expects on its target set, after temperature scaling.

Let ŷ(x) be the model's decision at target point x. If posterior sample k were the truth, the error
measured on the M target points would be a mean of independent Bernoulli variables with means
1 - p_k(ŷ(x)|x). The report gives the mean of that error and a 90 % interval over both the posterior
and the Bernoulli noise: the error that somebody who labelled the whole target set would measure.
The log loss is treated likewise.

A model that does not fit the data has a misleading posterior, too. On most data the classes lie
farther apart than weights drawn from any Gaussian would put them, and the model is right more often
than it expects. Temperature scaling, fitted to the training labels, corrects this. With p_-i the
leave-one-out prediction for label i, the *temperature* T maximises

    Σ_i ln q_T(y_i | x_i) + ln p(ln T),    q_T ∝ p_-i^(1/T),    ln T ~ N(0, 0.7²).

Labels are then expected to follow p^(1/T), and the interval includes the uncertainty of ln T, whose
standard deviation is ς. Decisions, choices and predictions remain the model's own, so the log loss
is that of the unscaled p.

The fitted T need not be T*, the one at which the expected error equals the real error: models are
not wrong by exactly a power of p, and items that a strategy selects are harder than others. Over 24
datasets (tables, texts, images; 2 to 20 classes), four strategies and 110 to 250 labels, ln T*
minus the fitted ln T has mean 0.03. Its standard deviation, in addition to ς, is 0.13 for random
labels. For actively selected labels it is √(0.13² + 0.22²) = 0.26. Twelve of the datasets were held
out while these constants were estimated (docs/explanation/coverage.md). Both the mean and the
standard deviation enter the report.

Audit labels are random, and the model is not trained on them. Where there are any, ln T is also
fitted to the model's predictions for them, with the result above as its prior.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from parbals.arrays import mean_prediction
from parbals.types import Estimate

__all__ = [
    "Temperature",
    "expected_error_and_log_loss",
    "fit_temperature",
    "sample_labellings",
    "temperature_scaled",
]

_N_DRAWS = 4_000
_N_LABELLINGS = 200
_LOG_T_PRIOR_SD = 0.7
_LOG_T_SHIFT = 0.03
"""Mean of ln T* minus the fitted ln T (see the module's docstring)."""
_LOG_T_MISFIT_SD = 0.13
"""Standard deviation of that difference for random labels."""
_LOG_T_SELECTION_SD = 0.22
"""Further standard deviation for actively selected labels; the variances add up."""
_LOG_T_BOUND = 3.0
_LOG_T_STEP = 0.1
"""Step of ln T in the second difference that estimates the curvature."""
_NODES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
"""Values of ln T, in standard deviations from its mean, between which losses are interpolated."""
_EPS = 1e-300
"""Guards divisions and logarithms."""


class Temperature(NamedTuple):
    """A temperature T and the standard deviation of ln T."""

    value: float = 1.0
    log_sd: float = 0.0


_UNSCALED = Temperature()

LabelledPredictions = tuple[np.ndarray, np.ndarray]
"""Predictions (n, C) for items that the model was not trained on, and their class numbers (n,)."""


def fit_temperature(
    leave_one_out: LabelledPredictions,
    random_sample: LabelledPredictions,
    *,
    actively_selected: bool,
) -> Temperature:
    """Fit the temperature of a model; T = 1, without uncertainty, where there are no labels.

    A model that is right nine times in ten and claims 0.7 is underconfident, so T < 1:

    >>> probs = np.tile([0.7, 0.3], (100, 1))
    >>> labels = (np.arange(100) < 10).astype(int)
    >>> no_labels = probs[:0], labels[:0]
    >>> round(fit_temperature((probs, labels), no_labels, actively_selected=False).value, 2)
    0.42

    Args:
        leave_one_out: training labels, each with its leave-one-out prediction.
        random_sample: labels of random items that the model was not trained on.
        actively_selected: whether a strategy selected the training labels.
    """
    has_leave_one_out = len(leave_one_out[0]) > 0
    has_random_sample = len(random_sample[0]) > 0
    if not has_leave_one_out and not has_random_sample:
        return _UNSCALED
    log_mean = 0.0
    log_sd = _LOG_T_PRIOR_SD
    if has_leave_one_out:
        probs, labels = leave_one_out
        fitted = _posterior_temperature(probs, labels, 0.0, _LOG_T_PRIOR_SD)
        log_mean = float(np.log(fitted.value)) + _LOG_T_SHIFT
        selection_sd = _LOG_T_SELECTION_SD if actively_selected else 0.0
        log_sd = float(np.hypot(fitted.log_sd, selection_sd))
    if has_random_sample:
        probs, labels = random_sample
        prior_sd = float(np.hypot(log_sd, _LOG_T_MISFIT_SD))
        fitted = _posterior_temperature(probs, labels, log_mean, prior_sd)
        log_mean = float(np.log(fitted.value))
        log_sd = fitted.log_sd
    return Temperature(float(np.exp(log_mean)), float(np.hypot(log_sd, _LOG_T_MISFIT_SD)))


def _posterior_temperature(
    probs: np.ndarray, labels: np.ndarray, prior_mean: float, prior_sd: float
) -> Temperature:
    """Find the posterior mode of T and the Laplace SD of ln T, given ln T ~ N(mean, sd²).

    Args:
        probs: (n, C) predictions.
        labels: (n,) class numbers.
    """
    log_probs = np.log(np.maximum(probs, _EPS))
    label_index = (np.arange(len(labels)), labels)

    def loss(log_temperature: float) -> float:
        log_q = _log_temperature_scaled(log_probs, np.exp(log_temperature))
        negative_log_prior = 0.5 * ((log_temperature - prior_mean) / prior_sd) ** 2
        return float(negative_log_prior - log_q[label_index].sum())

    bounds = (-_LOG_T_BOUND, _LOG_T_BOUND)
    mode = float(minimize_scalar(loss, bounds=bounds, method="bounded").x)
    difference = loss(mode - _LOG_T_STEP) - 2.0 * loss(mode) + loss(mode + _LOG_T_STEP)
    curvature = difference / _LOG_T_STEP**2
    return Temperature(float(np.exp(mode)), float(max(curvature, prior_sd**-2) ** -0.5))


def temperature_scaled(probs: np.ndarray, temperature: float) -> np.ndarray:
    """Scale probabilities (N, C) to p^(1/T), normalised.

    >>> temperature_scaled(np.array([[0.8, 0.2]]), 0.5).round(3)
    array([[0.941, 0.059]])
    """
    log_probs = np.log(np.maximum(probs.astype(np.float64), _EPS))
    return np.exp(_log_temperature_scaled(log_probs, temperature))


def _log_temperature_scaled(log_probs: np.ndarray, temperature: float) -> np.ndarray:
    """Scale log probabilities (N, C) to ln p^(1/T), normalised."""
    logits = log_probs / temperature
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def expected_error_and_log_loss(
    samples: np.ndarray,
    weights: np.ndarray,
    generator: np.random.Generator,
    temperature: Temperature = _UNSCALED,
    decisions: np.ndarray | None = None,
) -> tuple[Estimate, Estimate]:
    """Estimate the error and the log loss that labels of the whole target set would show.

    Each sample's probabilities are rescaled such that their mean is the temperature-scaled one.

    >>> samples = np.tile([0.9, 0.1], (50, 1, 1))  # 50 targets, one posterior sample, two classes
    >>> error, log_loss = expected_error_and_log_loss(
    ...     samples, np.ones(1), np.random.default_rng(0)
    ... )
    >>> round(error.mean, 2), round(log_loss.mean, 2)
    (0.1, 0.33)

    Args:
        samples: (M, K, C) posterior predictive samples at the target points.
        weights: (K,) of the samples.
        temperature: of the model's predictions.
        decisions: (M,) class numbers; by default the most probable classes.
    """
    probs = mean_prediction(samples, weights)
    scaled_probs = temperature_scaled(probs, temperature.value)
    if decisions is None:
        decisions = probs.argmax(axis=1)
    decision_index = (np.arange(len(probs)), decisions)
    # Errors: means and variances of Bernoulli variables, (M, K) each.
    prob_correct = samples[decision_index[0], :, decision_index[1]].astype(np.float64).T
    error = _rescaled_error(prob_correct, probs[decision_index], scaled_probs[decision_index]).T
    error_variance = error * (1.0 - error)
    # Log losses: means and variances over the possible labels, (M, K) each.
    label_loss = -np.log(np.maximum(probs, _EPS))
    density_ratio = scaled_probs / np.maximum(probs, _EPS)
    loss_and_square = [density_ratio * label_loss, density_ratio * np.square(label_loss)]
    # Cast to the type of the samples, which are large and would otherwise be copied.
    by_label = np.stack(loss_and_square, axis=2).astype(samples.dtype)  # (M, C, 2)
    log_loss, squared_log_loss = np.moveaxis(samples @ by_label, 2, 0).astype(np.float64)
    log_loss_variance = squared_log_loss - np.square(log_loss)

    sample_draws = generator.choice(len(weights), _N_DRAWS, p=weights)
    error_noise, log_loss_noise, log_t_noise = generator.standard_normal((3, _N_DRAWS))
    ratios = _losses_by_temperature(probs, decision_index, label_loss, temperature)
    return (
        _interval(
            moments=(error, error_variance),
            weights=weights,
            sample_draws=sample_draws,
            noise=error_noise,
            temperature_factors=np.interp(log_t_noise, _NODES, ratios[0]),
            upper=1.0,
        ),
        _interval(
            moments=(log_loss, log_loss_variance),
            weights=weights,
            sample_draws=sample_draws,
            noise=log_loss_noise,
            temperature_factors=np.interp(log_t_noise, _NODES, ratios[1]),
            upper=np.inf,
        ),
    )


def _interval(
    moments: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    sample_draws: np.ndarray,
    noise: np.ndarray,
    temperature_factors: np.ndarray,
    upper: float,
) -> Estimate:
    """Compute a mean loss and its 90 % interval from Monte-Carlo draws.

    Args:
        moments: means (M, K) and variances (M, K) of the loss at each target and sample.
        weights: (K,) of the posterior samples.
        sample_draws: (draws,) the posterior sample of each draw.
        noise: (draws,) standard normal: the labels' own randomness.
        temperature_factors: (draws,) loss at the drawn temperature over loss at T.
        upper: largest possible loss.
    """
    means, variances = moments
    sample_means = means.mean(axis=0)
    sample_sds = np.sqrt(np.maximum(variances, 0.0).sum(axis=0)) / len(means)
    losses = sample_means[sample_draws] + sample_sds[sample_draws] * noise
    losses = np.clip(losses * temperature_factors, 0.0, upper)
    low, high = np.quantile(losses, [0.05, 0.95])
    return Estimate(float(weights @ sample_means), float(low), float(high))


def sample_labellings(
    samples: np.ndarray,
    weights: np.ndarray,
    generator: np.random.Generator,
    temperature: Temperature,
) -> np.ndarray:
    """Draw labels (labellings, M) of the M target points from the temperature-scaled predictions.

    Each labelling has its own posterior sample and its own draw of the temperature.
    """
    probs = mean_prediction(samples, weights)
    best_index = (np.arange(len(probs)), probs.argmax(axis=1))
    sample_draws = generator.choice(len(weights), _N_LABELLINGS, p=weights)
    log_t_noise = generator.standard_normal(len(sample_draws))
    labels = np.empty((_N_LABELLINGS, len(probs)), np.int64)
    for row, (k, noise) in enumerate(zip(sample_draws, log_t_noise, strict=True)):
        drawn_temperature = temperature.value * np.exp(temperature.log_sd * noise)
        scaled_probs = temperature_scaled(probs, drawn_temperature)
        sample = samples[:, k].astype(np.float64)
        # The same errors as in ``expected_error_and_log_loss``. Normalising each scaled sample
        # instead would undo the scaling where samples disagree: a sample that is certain of a class
        # stays certain.
        error = _rescaled_error(sample[best_index], probs[best_index], scaled_probs[best_index])
        label_probs = sample * (scaled_probs / np.maximum(probs, _EPS))
        label_probs[best_index] = 0.0
        label_probs *= (error / np.maximum(label_probs.sum(axis=1), _EPS))[:, None]
        label_probs[best_index] = 1.0 - error
        cumulative = label_probs.cumsum(axis=1)
        uniform = generator.random((len(probs), 1)) * cumulative[:, -1:]
        labels[row] = (uniform > cumulative[:, :-1]).sum(axis=1)
    return labels


def _rescaled_error(
    prob_correct: np.ndarray, mean: np.ndarray, target_mean: np.ndarray
) -> np.ndarray:
    """Rescale the errors 1 - p (…, M) of samples so that their mean becomes 1 - ``target_mean``.

    Where the mean error must fall, the errors are multiplied by a factor below 1; where it must
    rise, the probabilities p are. So all results stay in [0, 1].

    Args:
        prob_correct: (…, M) probability p of the decision under each sample.
        mean: (M,) mean of ``prob_correct`` over the samples.
        target_mean: (M,) mean that it is to have.
    """
    error_ratio = (1.0 - target_mean) / np.maximum(1.0 - mean, _EPS)
    correct_ratio = target_mean / np.maximum(mean, _EPS)
    return np.minimum(error_ratio, 1.0) - np.minimum(error_ratio, correct_ratio) * prob_correct


def _losses_by_temperature(
    probs: np.ndarray,
    decision_index: tuple[np.ndarray, ...],
    label_loss: np.ndarray,
    temperature: Temperature,
) -> np.ndarray:
    """Compute error and log loss (2, nodes) at other temperatures, relative to those at T."""
    losses = []
    for node_temperature in temperature.value * np.exp(temperature.log_sd * _NODES):
        scaled_probs = temperature_scaled(probs, node_temperature)
        error = 1.0 - scaled_probs[decision_index].mean()
        log_loss = (scaled_probs * label_loss).sum(axis=1).mean()
        losses.append([error, log_loss])
    at_nodes = np.array(losses).T
    at_t = at_nodes[:, len(_NODES) // 2, None]
    return np.asarray(at_nodes / np.maximum(at_t, _EPS))
