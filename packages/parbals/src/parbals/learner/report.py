"""How good is the model, and would more labels help? What it expects, and what was measured.

*Expected* is what the model says without a new label (:mod:`parbals.learner.expectation`). It is as
honest as the model. *Measured* is what an audit has found: an interval that assumes nothing of the
model (:mod:`parbals.learner.audit`). docs/coverage.md compares both with the truth.
"""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parbals.arrays import mean_prediction
from parbals.learner.audit import Measurement, audit_predictions, measure
from parbals.learner.choosing import choose_among
from parbals.learner.expectation import Temperature, believed_labels, estimates, temperature
from parbals.learner.find import Recall, estimate_recall
from parbals.learner.metric import METRICS, decide_from, decided, metric_values
from parbals.learner.words import certificate, class_lines, metric_line
from parbals.machine import several_threads
from parbals.randomness import derive_generator
from parbals.strategies.lookahead import expected_gain
from parbals.strategies.table import DEFAULT
from parbals.types import Estimate
from parbals.validate import check_weights
from parbals.wording import percent

if TYPE_CHECKING:
    from parbals.learner.active import ActiveLearner

__all__ = ["Estimate", "Report", "make_report"]

_NEGLIGIBLE = 0.01
"""A batch that would lower the expected log loss by a smaller share is not worth asking for."""
_CANDIDATES = 1_000
"""The best of so many free items are worth within a few hundredths what the best of all are."""


@dataclass(frozen=True)
class Report:
    """Where the labelling stands.

    Attributes:
        expected_error: share of wrong decisions on the target set, as the model expects it.
        expected_log_loss: nats a point on the target set. Both are NaN until a model of your own
            has seen two classes.
        class_balance: how many labels each class has.
        next_gain: how far the next ``batch_size`` labels are expected to lower the log loss, nats a
            point; None when nothing is left to label.
        stop: True when that is negligible.
        advice: the same in words.
        measured: what the audit says; None without one.
        recall: how much of the class that the learner is to find has been found; None where it is
            to find none. ``stop`` and ``advice`` are then about that.
        metric: what the model is judged by.
        expected_metric: balanced accuracy or F1 on the target set, as the model expects it; None
            where the metric is the error or the log loss, which are there already.
        decide_from: then the probability from which a class is decided, where one number says it.
    """

    n_items: int
    n_labelled: int
    n_pending: int
    n_targets: int
    class_balance: dict[Any, int]
    expected_error: Estimate
    expected_log_loss: Estimate
    batch_size: int
    next_gain: float | None
    stop: bool
    advice: str
    warnings: tuple[str, ...] = ()
    measured: Measurement | None = None
    recall: Recall | None = None
    metric: str = "accuracy"
    expected_metric: Estimate | None = None
    decide_from: dict[Any, float] | None = None

    @property
    def measured_error(self) -> Estimate | None:
        """The error on random items of the pool with a 90 % interval, however often one looks."""
        return None if self.measured is None else self.measured.error

    @property
    def certified(self) -> float | None:
        """The error is below this with 95 % confidence, however often one looks."""
        return None if self.measured_error is None else self.measured_error.high

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is not known is None."""
        balance = {str(c): n for c, n in self.class_balance.items()}
        plain = {**asdict(self), "class_balance": balance, "certified": self.certified}
        if self.measured is not None:
            for name in ("recall", "precision"):
                shares = plain["measured"][name]
                plain["measured"][name] = {str(c): share for c, share in shares.items()}
        if self.decide_from is not None:
            plain["decide_from"] = {str(c): share for c, share in self.decide_from.items()}
        for name in ("expected_error", "expected_log_loss"):
            if not getattr(self, name).known:
                plain[name] = None
        return plain

    def __str__(self) -> str:
        balance = ", ".join(f"{label}: {count}" for label, count in self.class_balance.items())
        lines = [
            f"{self.n_labelled} of {self.n_items} items labelled ({balance}), {self.n_pending} "
            "pending"
        ]
        if self.expected_error.known:
            lines += [
                f"expected error on {self.n_targets} target points: "
                f"{_percent(self.expected_error)}",
                f"expected log loss: {self.expected_log_loss}",
                *metric_line(self.as_dict()),
            ]
        measured = self.as_dict()["measured"]
        if self.expected_error.known or measured is not None:
            lines += [certificate(measured), *class_lines(measured)]
        return "\n".join([*lines, self.advice, *self.warnings])


@several_threads()
def make_report(learner: "ActiveLearner", batch_size: int) -> Report:
    """The report of a learner as it stands."""
    targets = learner.target_rows()
    model = learner.fitted() if learner.can_fit else None
    error = log_loss = Estimate(math.nan, math.nan, math.nan)
    judged, threshold = None, None
    gain, size = None, min(batch_size, len(learner.choosable_positions()))
    if model is not None:
        samples = model.sample_proba(targets)
        weights = check_weights(model.sample_weights, samples.shape[1])
        generator = derive_generator(learner.seed, "report")
        heat = temperature(model, *audit_predictions(learner, model))
        stakes = learner.stakes(model)
        decisions = decided(mean_prediction(samples, weights), stakes)
        error, log_loss = estimates(samples, weights, generator, heat, decisions)
        judged = _judged(learner, samples, weights, heat, decisions)
        threshold = decide_from(stakes, learner.classes)
        if learner.find is None:
            gain, size = _next_gain(learner, model, samples, weights, batch_size)
    recall = estimate_recall(learner)
    if recall is None:
        stop, advice = _advice(gain, size, log_loss.mean)
    else:
        stop, advice = recall.stop, recall.advice
    counts = dict.fromkeys(learner.classes, 0)
    for label in learner.labels.values():
        counts[label] += 1
    diagnostics = getattr(model, "diagnostics_", None)
    return Report(
        n_items=learner.pool.n_rows,
        n_labelled=len(learner.labelled),
        n_pending=len(learner.pending),
        n_targets=len(targets),
        class_balance=counts,
        expected_error=error,
        expected_log_loss=log_loss,
        batch_size=size,
        next_gain=gain,
        stop=stop,
        advice=advice,
        warnings=tuple(getattr(diagnostics, "problems", ())),
        measured=measure(learner),
        recall=recall,
        metric=learner.metric,
        expected_metric=judged,
        decide_from=threshold,
    )


def _judged(
    learner: "ActiveLearner",
    samples: np.ndarray,
    weights: np.ndarray,
    heat: Temperature,
    decisions: np.ndarray,
) -> Estimate | None:
    """The learner's metric of decisions (M,) over labellings that the model believes in."""
    if learner.metric in METRICS:
        return None
    generator = derive_generator(learner.seed, "metric")
    labels = believed_labels(samples, weights, generator, heat)
    values = metric_values(learner.metric, decisions, labels, learner.classes)
    low, high = np.quantile(values, [0.05, 0.95])
    return Estimate(float(values.mean()), float(low), float(high))


def _next_gain(
    learner: "ActiveLearner",
    model: Any,
    samples: np.ndarray,
    weights: np.ndarray,
    batch_size: int,
) -> tuple[float | None, int]:
    """Nats a target point that the next batch is expected to gain, and how many labels it has.

    In closed form from the posterior, looking at no more than a thousand free items. From samples
    by the scores of a ParBaLS batch, which by the chain rule add up to the information its labels
    carry together, less what the samples only seem to show (:func:`_noise_floor`).
    """
    size = min(batch_size, len(learner.choosable_positions()))
    if size < 1:
        return None, 0
    gaussian = getattr(model, "gaussian", None)
    if gaussian is not None:
        most = max(size, min(learner.n_candidates or _CANDIDATES, _CANDIDATES))
        free, pending = learner.choosable_positions(), learner.pending_positions()
        if len(free) > most:
            generator = derive_generator(learner.seed, "look-ahead", len(learner.labelled))
            free = np.sort(generator.choice(free, most, replace=False))
        rows = (learner.pool_rows(free), learner.target_rows(), learner.pool_rows(pending))
        return expected_gain(gaussian.channels, *rows, size), size
    # Whatever the learner is judged by, nats are promised here.
    batch = choose_among(learner, learner.choosable_positions(), size, DEFAULT, "log")
    items = model.sample_proba(learner.pool_rows(batch.indices))
    floor = _noise_floor(items, samples, weights, batch.effective_sample_size)
    return float(np.maximum(batch.scores - floor, 0.0).sum()), size


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


def _advice(gain: float | None, size: int, log_loss: float) -> tuple[bool, str]:
    if gain is None:
        if size == 0:
            return True, "Every item is labelled or out for labelling."
        return False, "Go on: the model has not seen two classes yet."
    share = gain / log_loss if log_loss > 0 else 0.0
    if share < _NEGLIGIBLE:
        # Not "you can stop": the model may be bad, and learn little from more labels.
        return True, (
            f"More labels hardly change the model: the next {size} are expected to lower its log "
            f"loss by {percent(share)}. Better features may help more."
        )
    return False, (
        f"Go on: more labels still make the model better; the next {size} are expected to lower "
        f"its log loss by {percent(share)}."
    )


def _percent(estimate: Estimate) -> str:
    interval = f"{percent(estimate.low)} to {percent(estimate.high)}"
    return f"{percent(estimate.mean)} (90 % interval {interval})"
