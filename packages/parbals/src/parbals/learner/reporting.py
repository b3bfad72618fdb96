"""Making a report: how good is the model, and would more labels help?"""

from typing import Any

import numpy as np

from parbals.arrays import mean_prediction
from parbals.learner.choosing import choose_among
from parbals.learner.numbers.audit import audit_predictions, measure
from parbals.learner.numbers.expectation import (
    Temperature,
    believed_labels,
    estimates,
    temperature,
)
from parbals.learner.numbers.find import estimate_recall
from parbals.learner.numbers.metric import METRICS, decide_from, decided, metric_values
from parbals.learner.numbers.report import Estimate, Report
from parbals.learner.state import State
from parbals.machine import several_threads
from parbals.randomness import derive_generator
from parbals.strategies.lookahead import expected_gain
from parbals.strategies.table import DEFAULT, UNIFORM
from parbals.validate import check_weights

__all__ = ["make_report", "temperature_of"]

_LOOKED_AHEAD = 1_000
"""The best of so many free items are worth within a few hundredths what the best of all are."""


@several_threads()
def make_report(state: State, batch_size: int) -> Report:
    """The report of a state; the gain is that of the next ``batch_size`` labels."""
    setup, targets = state.setup, state.target_rows()
    model = state.fitted() if state.can_fit else None
    error = log_loss = Estimate(np.nan, np.nan, np.nan)
    judged, threshold = None, None
    gain, size = None, min(batch_size, len(state.choosable()))
    if model is not None:
        samples = model.sample_proba(targets)
        weights = check_weights(model.sample_weights, samples.shape[1])
        heat = temperature_of(state, model)
        stakes = setup.stakes(model)
        decisions = decided(mean_prediction(samples, weights), stakes)
        generator = derive_generator(setup.seed, "report")
        error, log_loss = estimates(samples, weights, generator, heat, decisions)
        threshold = decide_from(stakes, setup.classes)
        if setup.metric not in METRICS:
            drawn = derive_generator(setup.seed, "metric")
            labels = believed_labels(samples, weights, drawn, heat)
            values = metric_values(setup.metric, decisions, labels, setup.classes)
            judged = Estimate(values.mean().item(), *np.quantile(values, [0.05, 0.95]).tolist())
        if setup.find is None and size:
            gain = _next_gain(state, model, samples, weights, size)
    return Report(
        n_items=state.n_items,
        n_labelled=len(state.labels),
        n_pending=len(state.pending),
        n_targets=len(targets),
        class_balance=state.class_balance(),
        expected_error=error,
        expected_log_loss=log_loss,
        batch_size=size,
        next_gain=gain,
        warnings=tuple(getattr(getattr(model, "diagnostics_", None), "problems", ())),
        measured=measure(state),
        recall=estimate_recall(state),
        metric=setup.metric,
        expected_metric=judged,
        decide_from=threshold,
    )


def temperature_of(state: State, model: Any) -> Temperature:
    """How far a state's model is to be believed: by labels left out of it, and by the audit."""
    chosen = state.setup.strategy != UNIFORM
    return temperature(state.left_out(model), audit_predictions(state, model), chosen=chosen)


def _next_gain(
    state: State, model: Any, samples: np.ndarray, weights: np.ndarray, size: int
) -> float:
    """Nats a target point that the next ``size`` labels are expected to gain.

    In closed form from the posterior, looking at no more than a thousand free items. From samples
    by the scores of a ParBaLS batch, which by the chain rule add up to the information its labels
    carry together, less what the samples only seem to show (:func:`_noise_floor`).
    """
    setup, free = state.setup, state.choosable()
    gaussian = getattr(model, "gaussian", None)
    if gaussian is not None:
        most = max(size, min(setup.n_candidates or _LOOKED_AHEAD, _LOOKED_AHEAD))
        if len(free) > most:
            generator = derive_generator(setup.seed, "look-ahead", len(state.labels))
            free = np.sort(generator.choice(free, most, replace=False))
        out = setup.pool_rows(state.pending_positions())
        rows = (setup.pool_rows(free), state.target_rows(), out)
        return expected_gain(gaussian.channels, *rows, size)
    # Whatever the learner is judged by, nats are promised here.
    batch = choose_among(state, free, size, DEFAULT, "log")
    items = model.sample_proba(setup.pool_rows(batch.indices))
    floor = _noise_floor(items, samples, weights, batch.effective_sample_size)
    return float(np.maximum(batch.scores - floor, 0.0).sum())


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
