"""Predictions of a state, and its report: how good is the model, and would more labels help?"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import effective_sample_size, mean_prediction
from parbals.errors import InputError
from parbals.learner.choosing import choose_among
from parbals.learner.evaluation.audit import audit_predictions, measure_error
from parbals.learner.evaluation.class_shift import ClassShift, compare_class_shares
from parbals.learner.evaluation.expectation import (
    FINE_TUNING_LABELS,
    PARBALS_LABELS,
    RANDOM_LABELS,
    SELECTED_LABELS,
    UNKNOWN_TEMPERATURE,
    Misfit,
    Temperature,
    expected_error_and_log_loss,
    fit_temperature,
    sample_labellings,
    temperature_scaled,
)
from parbals.learner.evaluation.find import estimate_recall
from parbals.learner.evaluation.fit_check import misfit_sentence
from parbals.learner.evaluation.metric import decision_threshold
from parbals.learner.evaluation.report import NEGLIGIBLE_GAIN, Estimate, Report
from parbals.learner.evaluation.rmse import expected_rmse, measured_rmse, outlier_sentence
from parbals.learner.setup import Setup, mean_proba
from parbals.learner.state import State
from parbals.learner.tasks.base import Classification
from parbals.learner.tasks.multilabel import MultiLabel
from parbals.learner.tasks.regression import Regression
from parbals.machine import several_threads
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_settings, choose_batch
from parbals.strategies.problem import Labelled
from parbals.strategies.table import (
    DEFAULT_STRATEGY,
    RANDOM_STRATEGY,
    unused_target_sentence,
)
from parbals.validate import check_weights

__all__ = [
    "calibration_temperature",
    "label_misfit",
    "make_report",
    "predict",
    "predict_proba",
    "prediction_temperature",
]

_METRICS_IN_EVERY_REPORT = ("accuracy", "log-loss", "hamming")
_MAX_LOOKAHEAD = 1_000
"""Number of random free items from which the next batch is chosen to estimate its gain, which is
within a few hundredths of that of a batch from all free items.
"""
_MAX_MULTILABEL_LOOKAHEAD = 200
_N_LOOKAHEAD_UNIVERSES = 2
"""Number of universes for that batch: its gain is within a few hundredths of that with ten."""
_ORDINAL_MISFIT_SD = 0.25
"""Further standard deviation of ln T for ratings, whose thresholds rest on few labels. Without it,
90 % intervals with 30 and 60 labels held 72 to 80 % of the errors on synthetic ratings.
"""
_MIN_SAMPLES = 30
"""With fewer effective samples a small gain is not reported: see ``_gain_from_samples``."""
_PARBALS = "parbals-"
"""How names of the strategies begin that select batches with pseudo-labels."""
_UNKNOWN = Estimate(np.nan, np.nan, np.nan)
_LARGEST_LOG_LOSS = 700.0
"""A log loss that no prediction has: probabilities count as at least 1e-300."""


# -- predictions


def predict_proba(state: State, X: Any, *, with_audit: bool) -> np.ndarray:
    """Return probabilities (N, C) for rows like the pool's; see ``ActiveLearner.predict_proba``."""
    if isinstance(state.setup.task, Regression):
        raise InputError("Numbers have no probabilities; call predict(X, return_std=True).")
    model = state.fitted(with_audit=with_audit)
    probs = np.concatenate([mean_proba(model, rows) for rows in state.setup.prepared_blocks(X)])
    temperature = prediction_temperature(state)
    return probs if temperature == 1.0 else temperature_scaled(probs, temperature)


def predict(state: State, X: Any, *, with_audit: bool, return_std: bool) -> Any:
    """Return decisions (N,) for rows like the pool's; see ``ActiveLearner.predict``."""
    setup = state.setup
    model = state.fitted(with_audit=with_audit)
    if isinstance(setup.task, Regression):
        blocks = [model.predict(rows) for rows in setup.prepared_blocks(X)]
        mean = np.concatenate([block_mean for block_mean, _ in blocks])
        if not return_std:
            return mean
        return mean, np.concatenate([block_std for _, block_std in blocks])
    if return_std:
        raise InputError('return_std=True needs task="regression"; call predict_proba(X).')
    probs = predict_proba(state, X, with_audit=with_audit)
    return setup.task.output_labels(setup.decide(model, probs))


def calibration_temperature(state: State, model: Any) -> Temperature:
    """Fit the temperature of a state's model to cross-validated and audit labels."""
    leave_one_out = state.cross_validated_predictions(model)
    random_sample = audit_predictions(state, model)
    n_labels = len(leave_one_out[1]) + len(random_sample[1])
    if n_labels == 0 and len(state.training_labels.positions):
        return UNKNOWN_TEMPERATURE
    temperature = fit_temperature(
        leave_one_out,
        random_sample,
        misfit=label_misfit(state.setup),
        shift_auc=state.setup.shift_auc,
    )
    if state.setup.task.name != "ordinal":
        return temperature
    return temperature.widened(_ORDINAL_MISFIT_SD)


def label_misfit(setup: Setup) -> Misfit:
    """Return what the labels' selection, and fine-tuning, add to the error of the temperature."""
    if setup.strategy == RANDOM_STRATEGY:
        return RANDOM_LABELS if setup.held_out is None else FINE_TUNING_LABELS
    return PARBALS_LABELS if setup.strategy.startswith(_PARBALS) else SELECTED_LABELS


def prediction_temperature(state: State) -> float:
    """Return the temperature of the probabilities that users see.

    It is 1, unless labels have trained the encoder of the features. On such features the model fits
    the labels too well and is overconfident.
    """
    if state.setup.held_out is None:
        return 1.0
    return calibration_temperature(state, state.fitted()).value


# -- the report


class _Expectation(NamedTuple):
    """What a model expects of itself on the target set.

    Attributes:
        error: share of wrong decisions.
        log_loss: nats per target point.
        metric: expected value of the metric; None where it is the error or the log loss.
        threshold: {class: probability} from which on the class is decided, or None.
        label_errors: {label: error} of the multi-label task, or None.
    """

    error: Estimate = _UNKNOWN
    log_loss: Estimate = _UNKNOWN
    metric: Estimate | None = None
    threshold: dict[Any, float] | None = None
    label_errors: dict[Any, Estimate] | None = None

    def without_intervals(self) -> "_Expectation":
        """The same with intervals that hold every possible value, because no other one is known."""
        metric = None if self.metric is None else Estimate(self.metric.mean, 0.0, 1.0)
        return self._replace(
            error=Estimate(self.error.mean, 0.0, 1.0),
            log_loss=Estimate(self.log_loss.mean, 0.0, _LARGEST_LOG_LOSS),
            metric=metric,
        )


class _TargetSamples(NamedTuple):
    """Predictive samples (M, K, C) for the target points, and their weights (K,)."""

    probs: np.ndarray
    weights: np.ndarray


@several_threads()
def make_report(state: State, batch_size: int) -> Report:
    """Create the report of a state; the gain is that of the next ``batch_size`` labels."""
    setup = state.setup
    targets = state.target_rows()
    model = state.fitted() if state.can_fit else None
    samples = _TargetSamples(np.zeros(0), np.zeros(0))
    expected = _Expectation()
    is_regression = isinstance(setup.task, Regression)
    class_weights = None
    if is_regression:
        expected = _Expectation(metric=expected_rmse(state, targets))
    elif model is not None:
        class_weights = setup.class_weights(model)
        samples = _samples(state, model)
        expected = _expect(state, model, _without_own_labels(state, samples), class_weights)
    pool_state = None
    pool_samples = None
    if setup.target is not None:
        pool_state = replace(state, setup=replace(setup, target=None))
        if model is not None and not is_regression:
            pool_samples = _samples(pool_state, model)
    class_shift = None
    if pool_state is not None and pool_samples is not None:
        class_shift = _class_shift(state, model, samples, pool_state, pool_samples)
    misfit = None
    if model is not None and not is_regression:
        misfit = _misfit(state, model, samples, expected.error)
    if misfit is not None or (class_shift is not None and class_shift.is_notable):
        expected = expected.without_intervals()
    size = min(batch_size, len(state.choosable()))
    gain = None
    if model is not None and setup.find is None and size:
        gain = _next_gain(state, model, samples, size, expected.log_loss.mean)
    return Report(
        n_items=setup.pool.n_rows,
        n_labelled=len(state.labels),
        n_pending=len(state.pending),
        n_targets=len(targets),
        class_balance=state.class_balance(),
        expected_error=expected.error,
        expected_log_loss=expected.log_loss,
        batch_size=size,
        next_gain=gain,
        warnings=_warnings(state, model, class_shift, misfit),
        measured=measured_rmse(state) if is_regression else measure_error(state),
        recall=estimate_recall(state),
        metric=setup.metric,
        expected_metric=expected.metric,
        decide_from=expected.threshold,
        task=setup.task.name,
        label_errors=expected.label_errors,
        pool_error=_error_on_pool(pool_state, model, pool_samples, class_weights),
        shift=setup.shift,
        class_shift=class_shift,
    )


def _samples(state: State, model: Any) -> _TargetSamples:
    """Draw predictive samples for the target rows of a state."""
    probs = model.sample_proba(state.target_rows())
    return _TargetSamples(probs, check_weights(model.sample_weights, probs.shape[1]))


def _error_on_pool(
    pool_state: State | None, model: Any, samples: _TargetSamples | None, class_weights: Any
) -> Estimate | None:
    """Estimate the error of the same decisions on the pool; None where it is the target set."""
    if pool_state is None:
        return None
    if isinstance(pool_state.setup.task, Regression):
        return expected_rmse(pool_state, pool_state.target_rows())
    if samples is None:
        return None
    held_out_samples = _without_own_labels(pool_state, samples)
    return _expect(pool_state, model, held_out_samples, class_weights).error


def _class_shift(
    state: State,
    model: Any,
    samples: _TargetSamples,
    pool_state: State,
    pool_samples: _TargetSamples,
) -> ClassShift | None:
    """Compare class shares in the target set with the pool's; None for several labels an item."""
    if state.setup.task.n_models > 1 or isinstance(state.setup.task, MultiLabel):
        return None
    pool_probs = mean_prediction(pool_samples.probs, pool_samples.weights)
    training = state.training_labels
    predictions = state.out_of_sample_predictions(model, training)
    _, targets, rows = np.intersect1d(
        pool_state.target_positions(), training.positions[predictions.rows], return_indices=True
    )
    pool_probs[targets] = predictions.probs[rows]
    temperature = calibration_temperature(state, model).value
    return compare_class_shares(
        temperature_scaled(pool_probs, temperature),
        temperature_scaled(mean_prediction(samples.probs, samples.weights), temperature),
        state.setup.classes,
    )


def _without_own_labels(state: State, samples: _TargetSamples) -> _TargetSamples:
    """Replace predictions for items that trained the encoder by those without their own labels.

    A model is surer of these items than of new ones. Leaving them out of the targets instead would
    leave the easier items, because strategies choose hard ones.
    """
    setup = state.setup
    if setup.held_out is None or setup.target is not None:
        return samples
    _, targets, rows = np.intersect1d(
        state.target_positions(), setup.held_out.positions, return_indices=True
    )
    probs = samples.probs.copy()
    probs[targets] = setup.held_out.probs[rows, None, :]
    return samples._replace(probs=probs)


def _misfit(
    state: State, model: Any, samples: _TargetSamples, expected_error: Estimate
) -> str | None:
    """Say that the model does not suit its data; None where random labels would tell anyway."""
    setup = state.setup
    if not isinstance(setup.task, Classification) or setup.task.n_models > 1 or len(state.audited):
        return None
    training = state.training_labels
    rows, probs = state.out_of_sample_predictions(model, training)
    if not len(probs):
        return None
    decisions = mean_prediction(samples.probs, samples.weights).argmax(axis=1)
    return misfit_sentence(
        calibration_temperature(state, model).value,
        expected_error,
        (setup.pool_rows(training.positions[rows]), training.labels[rows], probs.argmax(axis=1)),
        (state.target_rows(), decisions),
    )


def _warnings(
    state: State, model: Any, class_shift: ClassShift | None, misfit: str | None
) -> tuple[str, ...]:
    """Return sentences about the model, the labels and the target set that a user should know."""
    diagnostics = getattr(model, "diagnostics_", None)
    sentences = list(getattr(diagnostics, "problems", ()))
    sentences += filter(None, [misfit])
    if isinstance(state.setup.task, Regression):
        outliers = outlier_sentence(state)
        if outliers is not None:
            sentences.append(outliers)
    shift = state.setup.shift
    if shift is not None:
        sentences += filter(None, [unused_target_sentence(state.setup.strategy)])
        if shift.is_notable:
            sentences.append(shift.sentence)
    if class_shift is not None and class_shift.is_notable:
        sentences.append(class_shift.sentence)
    return tuple(sentences)


def _expect(state: State, model: Any, samples: _TargetSamples, class_weights: Any) -> _Expectation:
    """Compute the error and the metric that a model expects of its decisions.

    The interval of the error also holds that of the items without a label. These are easier than
    the pool where a strategy has labelled a large share of it, and the temperature, which is that
    of labelled items, says by how much less clearly: so its ends are the outer ones of both.
    """
    setup = state.setup
    task = setup.task
    temperature = calibration_temperature(state, model)
    probs = mean_prediction(samples.probs, samples.weights)
    decisions = task.decide_flattened(probs, setup.metric, class_weights)
    generator = derive_generator(setup.seed, "report")
    n_targets = setup.n_rows_of_target
    error, log_loss = expected_error_and_log_loss(
        probs, generator, temperature, decisions, n_targets * task.n_models
    )
    if setup.target is None:
        is_unlabelled = ~np.isin(state.target_positions(), state.training_labels.positions)
        is_unlabelled = np.repeat(is_unlabelled, len(probs) // len(is_unlabelled))
        if is_unlabelled.any():
            n_unlabelled = (n_targets - len(state.training_labels.positions)) * task.n_models
            without_label, _ = expected_error_and_log_loss(
                probs[is_unlabelled],
                derive_generator(setup.seed, "report"),
                temperature,
                decisions[is_unlabelled],
                n_unlabelled,
            )
            low = min(error.low, without_label.low)
            error = Estimate(error.mean, low, max(error.high, without_label.high))
    threshold = None
    if isinstance(task, Classification):
        threshold = decision_threshold(class_weights, setup.classes)
    label_errors = None
    if isinstance(task, MultiLabel):
        label_errors = {}
        n_labels = len(setup.classes)
        for number, label in enumerate(setup.classes):
            pairs = slice(number, None, n_labels)  # flattened item by item
            label_errors[label], _ = expected_error_and_log_loss(
                probs[pairs], generator, temperature, decisions[pairs], n_targets
            )
    metric = _expected_metric(setup, probs, temperature, decisions)
    return _Expectation(error, log_loss, metric, threshold, label_errors)


def _expected_metric(
    setup: Setup, probs: np.ndarray, temperature: Temperature, decisions: np.ndarray
) -> Estimate | None:
    """Compute the expected metric of decisions; None where every report has it already."""
    if setup.metric in _METRICS_IN_EVERY_REPORT:
        return None
    generator = derive_generator(setup.seed, "metric")
    labels = sample_labellings(probs, generator, temperature)
    values = setup.task.metric_values(setup.metric, decisions, labels)
    low, high = np.quantile(values, [0.05, 0.95]).tolist()
    return Estimate(values.mean().item(), low, high)


# -- the gain of the next labels


def _next_gain(
    state: State, model: Any, samples: _TargetSamples, size: int, log_loss: float
) -> float | None:
    """Estimate the information gain of the next ``size`` labels, in nats per target point.

    It is the sum of the scores of a ParBaLS batch, which by the chain rule is the joint
    information of its labels, whatever metric the learner optimises.
    """
    if getattr(model, "gaussian", None) is not None:
        return _gain_in_closed_form(state, model, size)
    return _gain_from_samples(state, model, samples, size, log_loss)


def _gain_in_closed_form(state: State, model: Any, size: int) -> float:
    """Estimate the gain from a sample of the free items and a few universes, which are enough."""
    setup = state.setup
    is_multilabel = isinstance(setup.task, MultiLabel)
    max_lookahead = _MAX_MULTILABEL_LOOKAHEAD if is_multilabel else _MAX_LOOKAHEAD
    n_candidates = max(size, min(setup.n_candidates or max_lookahead, max_lookahead))
    free = state.choosable()
    if len(free) > n_candidates:
        generator = derive_generator(setup.seed, "look-ahead", len(state.labels))
        free = np.sort(generator.choice(free, n_candidates, replace=False))
    rows = setup.pool_rows(np.concatenate([free, state.pending_positions()]))
    settings = check_settings(
        DEFAULT_STRATEGY,
        len(rows),
        size,
        pending=np.arange(len(free), len(rows)),
        n_universes=1 if is_multilabel else _N_LOOKAHEAD_UNIVERSES,
        random_state=setup.seed,
    )
    batch = choose_batch(settings, model, rows, state.target_rows(), Labelled())
    total = float(batch.scores.sum())
    return total / len(setup.classes) if is_multilabel else total


def _gain_from_samples(
    state: State, model: Any, samples: _TargetSamples, size: int, log_loss: float
) -> float | None:
    """Estimate the gain from predictive samples, after subtracting their noise floor.

    If the difference is negligible, that may be due to the samples, and the result is None: if they
    are few, because a few networks that agree may still change with more labels, or if the noise
    floor itself is not negligible.
    """
    batch = choose_among(state, state.choosable(), size, DEFAULT_STRATEGY, "log")
    items = model.sample_proba(state.setup.pool_rows(batch.indices))
    noise = _noise_floor(items, samples.probs, samples.weights, batch.effective_sample_size)
    gain = float(np.maximum(batch.scores - noise, 0.0).sum())
    negligible = NEGLIGIBLE_GAIN * log_loss
    has_enough_samples = effective_sample_size(samples.weights) >= _MIN_SAMPLES
    can_tell = has_enough_samples and noise.sum() <= negligible
    return gain if gain > negligible or can_tell else None


def _noise_floor(
    items: np.ndarray, targets: np.ndarray, weights: np.ndarray, n_effective: np.ndarray
) -> np.ndarray:
    """Compute the noise floor (B,): the EPIG, in nats, of labels that are in fact independent.

    EPIG is about ½ Σ_ab c_ab² / (P_a Q_b), where c_ab is the covariance of the item's probability
    of class a (mean P_a, variance σ_a²) with the target's of class b (mean Q_b, variance τ_b²). If
    they are independent, c_ab from n effective samples still has the variance σ_a² τ_b² / n. So
    EPIG is on average (Σ_a σ_a²/P_a)(Σ_b τ_b²/Q_b) / 2n, the second factor averaged over targets.

    Args:
        items: predictive samples (B, K, C) of the batch.
        targets: predictive samples (M, K, C) of the targets.
        weights: (K,) of the samples.
        n_effective: (B,) effective sample size of each score.
    """
    spread = _relative_variance(items, weights) * _relative_variance(targets, weights).mean()
    return spread / (2.0 * np.maximum(n_effective, 1.0))


def _relative_variance(samples: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute Σ_a σ_a²/P_a (N,) of samples (N, K, C)."""
    mean = np.einsum("nkc,k->nc", samples, weights, dtype=np.float64)
    square = np.einsum("nkc,nkc,k->nc", samples, samples, weights, dtype=np.float64)
    return ((square - np.square(mean)) / np.maximum(mean, 1e-300)).sum(axis=1)
