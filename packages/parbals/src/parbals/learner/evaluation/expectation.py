"""The error and log loss that a model expects on its target set, after temperature scaling.

If the model's predictions p(y|x) were right, its decision ŷ(x) at a target point would be wrong
with probability 1 - p(ŷ(x)|x). Models do not fit their data, though. On most data the classes lie
farther apart than weights drawn from any Gaussian would put them, and the model is right more often
than it expects. Temperature scaling corrects this: labels are expected to follow q_T ∝ p^(1/T).
Decisions, choices and predictions remain the model's own, so the log loss is that of the unscaled
p.

With p_-i the leave-one-out prediction for label i, the *temperature* T solves

    Σ_i [ d ln q_T(y_i) / d ln T + κ (e_i - (1 - q_T(ŷ_i))) ] - ln T / 0.7² = 0,    κ = 2,

where e_i is 1 if the decision ŷ_i by p_-i is wrong, and 0 otherwise. The first term alone is
maximum likelihood; the second asks that as many errors be expected as were made. The last one is
the prior ln T ~ N(0, 0.7²). ς, the standard deviation of ln T, is the sandwich estimate, which does
not assume that the model is right, times √(1 + 50/n) with n labels: leave-one-out predictions have
most of their labels in common, so that they say less than n independent ones, and a model of few
labels may be wrong in a way that none of them shows. On data drawn from the model itself, with 15
to 120 random labels, 90 % intervals held 73 to 93 % of the errors without this factor, and 89 to
99 % with it.

The fitted T need not be T*, the one at which the expected error equals the real error: models are
not wrong by exactly a power of p, and items that a strategy selects are harder than others. So the
standard deviation of ln T* - ln T has further parts. One is 0.09, for all labels. Selected labels
add another (:class:`Misfit`), which counts √(1 + 50/n) times as well, and which is larger above T
than below: a model that selects its labels misses errors where it does not look, and rarely
imagines any. With 0.12 below T, 5 % of the real errors fall under the interval. 0.24 above T is as
little as holds 88 % of the errors of ParBaLS with 250 labels; other strategies have 0.28.

κ, 0.09 and 0.12 were learnt from 20 datasets with 110 and 250 labels (κ from ten of them), 0.24 and
0.28 from these and 12 others. studies/error_estimates/README.md lists them, what other values
would hold, and what took no part.

Labels that have fine-tuned the encoder of the features have predictions by encoders of other folds,
which have seen fewer labels and are less sure of new items: on nine sets of texts by 0.2 in ln T.
Random labels have this added. Labels of a strategy do not: these are harder than other items, which
makes T too high by about as much.

A target set that differs from the pool, where the labels are, adds 0.35 (2 AUC - 1), AUC being that
of a classifier which tells the two apart. Weighting the labels towards the target was tried as
well: with the few labels that then count, the expected errors were farther off.

The 90 % interval is over ln T, and over what a target set of finite size shows of it: the error
that somebody who labelled the whole target set would measure. The spread of the posterior is not
added: ς and its further parts are learnt from real errors, and so contain it.

Audit labels are random, and the model is not trained on them. Where there are any, ln T is also
fitted to the model's predictions for them (κ = 0: they are few), with the result above as its
prior.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parbals.types import Estimate

__all__ = [
    "FINE_TUNING_LABELS",
    "PARBALS_LABELS",
    "RANDOM_LABELS",
    "SELECTED_LABELS",
    "UNKNOWN_TEMPERATURE",
    "Misfit",
    "Temperature",
    "expected_error_and_log_loss",
    "fit_temperature",
    "log_t_shift_sd",
    "sample_labellings",
    "temperature_scaled",
]

_N_DRAWS = 4_000
_N_LABELLINGS = 200
_LOG_T_PRIOR_SD = 0.7
_ERROR_WEIGHT = 2.0
"""κ of the module's docstring."""
_FEW_LABELS = 50.0
"""The variance of ln T from n leave-one-out predictions is 1 + 50/n times the sandwich estimate."""
_LOG_T_MISFIT_SD = 0.09
"""Standard deviation of ln T* - ln T, in addition to ς, for random labels."""
_LOG_T_SD_PER_SHIFT = 0.35
"""Further standard deviation for a target set that a classifier tells from the pool without fail,
and in proportion to 2 AUC - 1 for others.
"""
_LOG_T_BOUND = 3.0
_LOG_T_STEP = 0.1
_ROOT_TOLERANCE = 1e-5
_MAX_ROOT_STEPS = 100
"""Step of ln T in the difference that estimates a slope."""
_NODES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
"""Values of ln T, in standard deviations from its mean, between which losses are interpolated."""
_EPS = 1e-300
"""Guards divisions and logarithms."""


class Temperature(NamedTuple):
    """A temperature T and the standard deviation of ln T, which may differ above and below ln T.

    >>> Temperature(1.0, log_sd=0.5, log_sd_below=0.25).draws(np.array([-2.0, 0.0, 2.0])).round(2)
    array([0.61, 1.  , 2.72])

    Attributes:
        value: the median of T.
        log_sd: standard deviation of ln T above the median.
        log_sd_below: the same below it; None if it is the same.
    """

    value: float = 1.0
    log_sd: float = 0.0
    log_sd_below: float | None = None

    @property
    def below(self) -> float:
        """Standard deviation of ln T below the median."""
        return self.log_sd if self.log_sd_below is None else self.log_sd_below

    def draws(self, noise: np.ndarray) -> np.ndarray:
        """Return temperatures (n,) for standard normal noise (n,)."""
        log_sd = np.where(noise > 0.0, self.log_sd, self.below)
        return np.asarray(self.value * np.exp(log_sd * noise))

    def widened(self, above: float, below: float | None = None) -> "Temperature":
        """Add independent standard deviations to those of ln T; ``below`` is by default above."""
        added_below = above if below is None else below
        return Temperature(
            self.value,
            float(np.hypot(self.log_sd, above)),
            float(np.hypot(self.below, added_below)),
        )


_UNSCALED = Temperature()


class Misfit(NamedTuple):
    """Mean of ln T* - ln T for labels of some kind, and its deviations below and above the mean."""

    mean: float = 0.0
    below: float = 0.0
    above: float = 0.0


UNKNOWN_TEMPERATURE = Temperature(1.0, _LOG_T_PRIOR_SD * float(np.sqrt(1.0 + _FEW_LABELS)))
"""Of a model whose labels only programs gave: nobody has said whether they are right."""

RANDOM_LABELS = Misfit()
PARBALS_LABELS = Misfit(below=0.12, above=0.24)
SELECTED_LABELS = Misfit(below=0.12, above=0.28)
"""Labels that other strategies selected; learnt from uncertainty sampling."""
FINE_TUNING_LABELS = Misfit(mean=0.2, below=0.15, above=0.15)
"""Random labels that have fine-tuned the encoder of the features."""

LabelledPredictions = tuple[np.ndarray, np.ndarray]
"""Predictions (n, C) for items that the model was not trained on, and their class numbers (n,)."""


def fit_temperature(
    leave_one_out: LabelledPredictions,
    random_sample: LabelledPredictions,
    *,
    misfit: Misfit = RANDOM_LABELS,
    shift_auc: float | None = None,
) -> Temperature:
    """Fit the temperature of a model; T = 1, without uncertainty, where there are no labels.

    A model that is right nine times in ten and claims 0.7 is underconfident, so T < 1:

    >>> probs = np.tile([0.7, 0.3], (100, 1))
    >>> labels = (np.arange(100) < 10).astype(int)
    >>> no_labels = probs[:0], labels[:0]
    >>> round(fit_temperature((probs, labels), no_labels).value, 2)
    0.39

    Args:
        leave_one_out: training labels, each with its leave-one-out prediction.
        random_sample: labels of random items that the model was not trained on.
        misfit: what the way in which the training labels were selected adds to the error of ln T.
        shift_auc: how well a classifier tells the target set from the pool
            (:mod:`parbals.learner.evaluation.shift`); None if it is the pool.
    """
    has_leave_one_out = len(leave_one_out[0]) > 0
    has_random_sample = len(random_sample[0]) > 0
    if not has_leave_one_out and not has_random_sample:
        return _UNSCALED
    temperature = Temperature(1.0, _LOG_T_PRIOR_SD)
    if has_leave_one_out:
        fitted = _solve_temperature(*leave_one_out, temperature, _ERROR_WEIGHT)
        inflation = np.sqrt(1.0 + _FEW_LABELS / len(leave_one_out[1]))
        centred = Temperature(fitted.value * float(np.exp(misfit.mean)), fitted.log_sd * inflation)
        temperature = centred.widened(misfit.above * inflation, misfit.below * inflation)
    if has_random_sample:
        prior = temperature.widened(_LOG_T_MISFIT_SD)
        fitted = _solve_temperature(*random_sample, prior, error_weight=0.0)
        temperature = Temperature(
            fitted.value, min(fitted.log_sd, prior.log_sd), min(fitted.log_sd, prior.below)
        )
    return temperature.widened(_LOG_T_MISFIT_SD).widened(log_t_shift_sd(shift_auc))


def log_t_shift_sd(shift_auc: float | None) -> float:
    """Return the standard deviation of ln T* - ln T that a shifted target set adds.

    >>> round(log_t_shift_sd(0.9), 2)
    0.28
    """
    if shift_auc is None:
        return 0.0
    return _LOG_T_SD_PER_SHIFT * max(2.0 * shift_auc - 1.0, 0.0)


def _solve_temperature(
    probs: np.ndarray,
    labels: np.ndarray,
    prior: Temperature,
    error_weight: float,
) -> Temperature:
    """Solve the equation of the module's docstring for T; its deviation by the sandwich estimate.

    Args:
        probs: (n, C) predictions.
        labels: (n,) class numbers.
        prior: of T.
        error_weight: κ.
    """
    log_probs = np.log(np.maximum(probs, _EPS))
    rows = np.arange(len(labels))
    decisions = probs.argmax(axis=1)
    is_wrong = decisions != labels
    label_log_probs = log_probs[rows, labels]
    prior_mean = np.log(prior.value)

    def prior_precision(log_temperature: float) -> float:
        """The inverse variance of the prior on this side of its median."""
        log_sd = prior.log_sd if log_temperature > prior_mean else prior.below
        return log_sd**-2

    def scores(log_temperature: float) -> np.ndarray:
        """The terms (n,) of the sum over labels."""
        temperature = np.exp(log_temperature)
        scaled = np.exp(_log_temperature_scaled(log_probs, temperature))
        slope = ((scaled * log_probs).sum(axis=1) - label_log_probs) / temperature
        excess_error = is_wrong - (1.0 - scaled[rows, decisions])
        return np.asarray(slope + error_weight * excess_error)

    def total(log_temperature: float) -> float:
        pull = (log_temperature - prior_mean) * prior_precision(log_temperature)
        return float(scores(log_temperature).sum() - pull)

    low = min(-_LOG_T_BOUND, prior_mean)
    high = max(_LOG_T_BOUND, prior_mean)
    if total(low) <= 0.0:
        solution = low
    elif total(high) >= 0.0:
        solution = high
    else:
        solution = _root(total, low, high)
    step = _LOG_T_STEP
    slope = (total(solution - step) - total(solution + step)) / (2.0 * step)
    precision = prior_precision(solution)
    score_variance = np.square(scores(solution)).sum() + precision
    variance = score_variance / max(slope, precision) ** 2
    return Temperature(float(np.exp(solution)), float(np.sqrt(variance)))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a function that is positive at ``low`` and negative at ``high``.

    Regula falsi with the Illinois rule: the value at an end that stays twice running counts half.

    >>> round(_root(lambda x: 2.0 - x * x, 0.0, 2.0), 4)
    1.4142
    """
    value_low = function(low)
    value_high = function(high)
    last_sign = 0.0
    middle = low
    for _ in range(_MAX_ROOT_STEPS):
        previous = middle
        middle = (low * value_high - high * value_low) / (value_high - value_low)
        if abs(middle - previous) < _ROOT_TOLERANCE:
            break
        value = function(middle)
        sign = float(np.sign(value))
        if sign > 0.0:
            low = middle
            value_low = value
            value_high *= 0.5 if sign == last_sign else 1.0
        elif sign < 0.0:
            high = middle
            value_high = value
            value_low *= 0.5 if sign == last_sign else 1.0
        else:
            break
        last_sign = sign
    return middle


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
    probs: np.ndarray,
    generator: np.random.Generator,
    temperature: Temperature = _UNSCALED,
    decisions: np.ndarray | None = None,
    n_targets: int | None = None,
) -> tuple[Estimate, Estimate]:
    """Estimate the error and the log loss that labels of the whole target set would show.

    >>> probs = np.tile([0.9, 0.1], (50, 1))
    >>> error, log_loss = expected_error_and_log_loss(probs, np.random.default_rng(0))
    >>> round(error.mean, 2), round(log_loss.mean, 2)
    (0.1, 0.33)

    Args:
        probs: (M, C) predictions for target points.
        temperature: of the model's predictions.
        decisions: (M,) class numbers; by default the most probable classes.
        n_targets: size of the target set of which these points are a sample; by default M.
    """
    if decisions is None:
        decisions = probs.argmax(axis=1)
    decision_index = (np.arange(len(probs)), decisions)
    label_loss = -np.log(np.maximum(probs, _EPS))
    scaled_probs = temperature_scaled(probs, temperature.value)
    # Means and variances (M,) over the possible labels of a point.
    error = 1.0 - scaled_probs[decision_index]
    error_variance = error * (1.0 - error)
    log_loss = (scaled_probs * label_loss).sum(axis=1)
    log_loss_variance = (scaled_probs * np.square(label_loss)).sum(axis=1) - np.square(log_loss)

    error_noise, log_loss_noise, log_t_noise = generator.standard_normal((3, _N_DRAWS))
    ratios = _losses_by_temperature(probs, decision_index, label_loss, temperature)
    n_targets = max(len(probs), n_targets or 0)
    return (
        _interval(
            moments=(error, error_variance),
            n_targets=n_targets,
            noise=error_noise,
            temperature_factors=np.interp(log_t_noise, _NODES, ratios[0]),
            upper=1.0,
        ),
        _interval(
            moments=(log_loss, log_loss_variance),
            n_targets=n_targets,
            noise=log_loss_noise,
            temperature_factors=np.interp(log_t_noise, _NODES, ratios[1]),
            upper=np.inf,
        ),
    )


def _interval(
    moments: tuple[np.ndarray, np.ndarray],
    n_targets: int,
    noise: np.ndarray,
    temperature_factors: np.ndarray,
    upper: float,
) -> Estimate:
    """Compute a mean loss and its 90 % interval from Monte-Carlo draws.

    Args:
        moments: mean (M,) and variance (M,) of the loss at each of M target points.
        n_targets: size of the target set that the points were drawn from.
        noise: (draws,) standard normal: the labels' own randomness, and that of the sample.
        temperature_factors: (draws,) loss at the drawn temperature over loss at T.
        upper: largest possible loss.
    """
    means, variances = moments
    n_points = len(means)
    sampling_variance = means.var() * (1.0 / n_points - 1.0 / n_targets)
    label_variance = np.maximum(variances, 0.0).mean() / n_targets
    sd = np.sqrt(label_variance + sampling_variance)
    losses = np.clip(means.mean() * temperature_factors + sd * noise, 0.0, upper)
    low, high = np.quantile(losses, [0.05, 0.95])
    return Estimate(float(means.mean()), float(low), float(high))


def sample_labellings(
    probs: np.ndarray, generator: np.random.Generator, temperature: Temperature
) -> np.ndarray:
    """Draw labels (labellings, M) of target points from their temperature-scaled predictions.

    Each labelling has its own draw of the temperature.

    Args:
        probs: (M, C) predictions for the target points.
    """
    labels = np.empty((_N_LABELLINGS, len(probs)), np.int64)
    temperatures = temperature.draws(generator.standard_normal(_N_LABELLINGS))
    for row, drawn_temperature in enumerate(temperatures):
        cumulative = temperature_scaled(probs, drawn_temperature).cumsum(axis=1)
        uniform = generator.random((len(probs), 1)) * cumulative[:, -1:]
        labels[row] = (uniform > cumulative[:, :-1]).sum(axis=1)
    return labels


def _losses_by_temperature(
    probs: np.ndarray,
    decision_index: tuple[np.ndarray, ...],
    label_loss: np.ndarray,
    temperature: Temperature,
) -> np.ndarray:
    """Compute error and log loss (2, nodes) at other temperatures, relative to those at T."""
    losses = []
    for node_temperature in temperature.draws(_NODES):
        scaled_probs = temperature_scaled(probs, node_temperature)
        error = 1.0 - scaled_probs[decision_index].mean()
        log_loss = (scaled_probs * label_loss).sum(axis=1).mean()
        losses.append([error, log_loss])
    at_nodes = np.array(losses).T
    at_t = at_nodes[:, len(_NODES) // 2, None]
    return np.asarray(at_nodes / np.maximum(at_t, _EPS))
