"""What a state predicts, and its report: how good is the model, and would more labels help?"""

from typing import Any

import numpy as np

from parbals.arrays import effective_sample_size, mean_prediction
from parbals.errors import InputError
from parbals.learner.choosing import choose_among
from parbals.learner.evaluation.audit import audit_predictions, measure
from parbals.learner.evaluation.expectation import (
    Temperature,
    expected_error_and_log_loss,
    fit_temperature,
    sample_labellings,
    temperature_scaled,
)
from parbals.learner.evaluation.find import estimate_recall
from parbals.learner.evaluation.metric import decision_threshold
from parbals.learner.evaluation.report import NEGLIGIBLE, Estimate, Report
from parbals.learner.evaluation.rmse import expected_rmse, measured_rmse
from parbals.learner.state import Setup, State, mean_proba
from parbals.learner.tasks.many import ManyLabels
from parbals.learner.tasks.numbers import Numbers
from parbals.machine import several_threads
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_terms, choose_batch
from parbals.strategies.problem import Labelled
from parbals.strategies.table import DEFAULT, UNIFORM
from parbals.validate import check_weights

__all__ = ["given_degree", "make_report", "predict", "predict_proba", "temperature_of"]

_REPORTED = ("accuracy", "log-loss", "hamming")
_LOOKED_AHEAD = 1_000
"""The best of so many free items are worth within a few hundredths what the best of all are."""
_LABELS_AHEAD = 200  # the same where items have several labels
_UNIVERSES = 2  # of ten the sums are within a few hundredths
_HANDFUL = 30  # fewer samples do not show how far a model may still change


def predict_proba(state: State, X: Any, *, with_audit: bool) -> np.ndarray:
    """(N, C) for rows like the pool's; see ``ActiveLearner.predict_proba``."""
    if isinstance(state.setup.kind, Numbers):
        raise InputError("Numbers have no probabilities; call predict(X, return_std=True).")
    model = state.fitted(with_audit=with_audit)
    probs = np.concatenate([mean_proba(model, rows) for rows in state.setup.rows_of(X)])
    degree = given_degree(state)
    return probs if degree == 1.0 else temperature_scaled(probs, degree)


def predict(state: State, X: Any, *, with_audit: bool, return_std: bool) -> Any:
    """(N,) decisions for rows like the pool's; see ``ActiveLearner.predict``."""
    setup, model = state.setup, state.fitted(with_audit=with_audit)
    if isinstance(setup.kind, Numbers):
        parts = [model.predict(rows) for rows in setup.rows_of(X)]
        mean, deviation = (np.concatenate(part) for part in zip(*parts, strict=True))
        return (mean, deviation) if return_std else mean
    if return_std:
        raise InputError('return_std=True needs task="regression"; call predict_proba(X).')
    probs = predict_proba(state, X, with_audit=with_audit)
    return setup.kind.shown(setup.kind.decided(setup, model, probs))


@several_threads()
def make_report(state: State, batch_size: int) -> Report:
    """The report of a state; the gain is that of the next ``batch_size`` labels."""
    setup, targets = state.setup, state.target_rows()
    model = state.fitted() if state.can_fit else None
    error = log_loss = Estimate(np.nan, np.nan, np.nan)
    judged, threshold, of_labels = None, None, None
    gain, size = None, min(batch_size, len(state.choosable()))
    samples = weights = np.zeros(0)
    are_numbers = isinstance(setup.kind, Numbers)
    if are_numbers:
        judged = expected_rmse(state, targets)
    elif model is not None:
        samples = model.sample_proba(targets)
        weights = check_weights(model.sample_weights, samples.shape[1])
        temperature = temperature_of(state, model)
        class_weights = setup.class_weights(model)
        decisions = setup.kind.decided_cells(setup, model, mean_prediction(samples, weights))
        generator = derive_generator(setup.seed, "report")
        error, log_loss = expected_error_and_log_loss(
            samples, weights, generator, temperature, decisions
        )
        threshold = (
            decision_threshold(class_weights, setup.classes)
            if setup.kind.name == "classes"
            else None
        )
        judged = _judged(setup, samples, weights, temperature, decisions)
        if isinstance(setup.kind, ManyLabels):
            n = len(setup.classes)  # cells of item after item
            of_labels = {
                name: expected_error_and_log_loss(
                    samples[c::n], weights, generator, temperature, decisions[c::n]
                )[0]
                for c, name in enumerate(setup.classes)
            }
    if model is not None and setup.find is None and size:
        gain = _next_gain(state, model, samples, weights, size, log_loss.mean)
    return Report(
        n_items=setup.pool.n_rows,
        n_labelled=len(state.labels),
        n_pending=len(state.pending),
        n_targets=len(targets),
        class_balance=state.class_balance(),
        expected_error=error,
        expected_log_loss=log_loss,
        batch_size=size,
        next_gain=gain,
        warnings=tuple(getattr(getattr(model, "diagnostics_", None), "problems", ())),
        measured=measured_rmse(state) if are_numbers else measure(state),
        recall=estimate_recall(state),
        metric=setup.metric,
        expected_metric=judged,
        decide_from=threshold,
        task=setup.kind.name,
        label_errors=of_labels,
    )


def _judged(
    setup: Setup,
    samples: np.ndarray,
    weights: np.ndarray,
    temperature: Temperature,
    decisions: np.ndarray,
) -> Estimate | None:
    """The metric that is expected of decisions; None where the report has it already."""
    if setup.metric in _REPORTED:
        return None
    labels = sample_labellings(
        samples, weights, derive_generator(setup.seed, "metric"), temperature
    )
    values = setup.kind.metric_values(setup.metric, decisions, labels)
    return Estimate(values.mean().item(), *np.quantile(values, [0.05, 0.95]).tolist())


def temperature_of(state: State, model: Any) -> Temperature:
    """How far a state's model is to be believed: by labels left out of it, and by the audit."""
    chosen = state.setup.strategy != UNIFORM
    return fit_temperature(
        state.left_out(model), audit_predictions(state, model), actively_selected=chosen
    )


def given_degree(state: State) -> float:
    """The temperature of the predictions that are given to people.

    1, the model's own word, except where labels have taught the features: a model of such features
    is surer of itself than held-out labels allow.
    """
    return 1.0 if state.setup.held_out is None else temperature_of(state, state.fitted()).value


def _next_gain(
    state: State, model: Any, samples: np.ndarray, weights: np.ndarray, size: int, log_loss: float
) -> float | None:
    """Nats a target point that the next ``size`` labels are expected to gain.

    By the scores of a ParBaLS batch, which by the chain rule add up to the information its labels
    carry together. In closed form a part of the free items and two universes are enough. From
    samples less what these only seem to show (:func:`_noise_floor`), and None where that is next to
    nothing and the samples cannot tell: because they are a handful, and that a few networks agree
    does not say that labels would not change their minds, or because they seem to show much.
    """
    setup, free = state.setup, state.choosable()
    # Whatever the learner is judged by, nats are promised here.
    if getattr(model, "gaussian", None) is not None:
        several = isinstance(setup.kind, ManyLabels)
        ahead = _LABELS_AHEAD if several else _LOOKED_AHEAD
        most = max(size, min(setup.n_candidates or ahead, ahead))
        if len(free) > most:
            generator = derive_generator(setup.seed, "look-ahead", len(state.labels))
            free = np.sort(generator.choice(free, most, replace=False))
        rows = setup.pool_rows(np.concatenate([free, state.pending_positions()]))
        out = np.arange(len(free), len(rows))
        n = 1 if several else _UNIVERSES
        terms = check_terms(
            DEFAULT, len(rows), size, pending=out, n_universes=n, random_state=setup.seed
        )
        batch = choose_batch(terms, model, rows, state.target_rows(), Labelled())
        return float(batch.scores.sum()) / (len(setup.classes) if several else 1)
    batch = choose_among(state, free, size, DEFAULT, "log")
    items = model.sample_proba(setup.pool_rows(batch.indices))
    floor = _noise_floor(items, samples, weights, batch.effective_sample_size)
    gain, least = float(np.maximum(batch.scores - floor, 0.0).sum()), NEGLIGIBLE * log_loss
    can_tell = effective_sample_size(weights) >= _HANDFUL and floor.sum() <= least
    return gain if gain > least or can_tell else None


def _noise_floor(
    items: np.ndarray, targets: np.ndarray, weights: np.ndarray, n_effective: np.ndarray
) -> np.ndarray:
    """Nats (B,) that an EPIG from finitely many samples shows even between independent labels.

    A score is about ½ Σ_ab c_ab² / (P_a Q_b), and a covariance c_ab of n effective samples has
    variance σ_a² σ_b² / n: (Σ_a σ_a²/P_a)(Σ_b σ_b²/Q_b) / 2n on average, the second factor a mean
    over the targets.

    Args:
        items, targets: predictive samples (B, K, C) and (M, K, C).
        weights: (K,) of the samples.
        n_effective: (B,) effective sample size that each score rests on.
    """
    spread = _relative_variance(items, weights) * _relative_variance(targets, weights).mean()
    return spread / (2.0 * np.maximum(n_effective, 1.0))


def _relative_variance(samples: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(N,): Σ_a σ_a²/P_a of samples (N, K, C)."""
    mean = np.einsum("nkc,k->nc", samples, weights, dtype=np.float64)
    square = np.einsum("nkc,nkc,k->nc", samples, samples, weights, dtype=np.float64)
    return ((square - np.square(mean)) / np.maximum(mean, 1e-300)).sum(axis=1)
