"""A measurement that is kept open: a random hold-out set, the *audit*, measures every later model.

The audit is drawn uniformly from the items that have no label, pending or not: at the beginning,
from the whole pool. Its labels train no model, and its items are neither candidates nor
targets, so no later model depends on them. The model's losses on the audit are therefore
distributed like those on any other random item that was without a label at the draw and that the
model has not seen, whatever strategy chooses the training labels. For an audit from the beginning
these are new items from the same source. For a later one they are items like those that were left:
a strategy has labelled hard ones before.

The interval assumes that whether an audit item is labelled yet does not depend on its content.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parbals.arrays import drawn_positions
from parbals.errors import InputError
from parbals.learner.evaluation.limits import clopper_pearson_limits, stratified_limits
from parbals.learner.evaluation.looks import Look, full_look, latest_look
from parbals.learner.evaluation.report import EarlierLimit, Measurement
from parbals.randomness import derive_generator
from parbals.types import Batch, Estimate
from parbals.validate import check_positive_int

if TYPE_CHECKING:  # so that an audit can be drawn without loading the models
    from parbals.learner.ledger import Ledger
    from parbals.learner.state import State

__all__ = [
    "AUDIT",
    "CurrentLook",
    "audit_positions",
    "audit_predictions",
    "current_look",
    "draw_audit",
    "interleaved_order",
    "measure_error",
    "n_audit_items_due",
    "with_audit_items",
]

AUDIT = "audit"
"""Stands in place of a strategy's name for audit items."""
_AUDIT_INTERVAL = 3
"""Every third requested item is an audit item; the other two train the model."""
_MIN_CLASS_ITEMS = 5
"""A recall or precision is not estimated from fewer items."""
_MAX_POOL_ITEMS = 4_096
"""Number of pool items over which the expected error is averaged: many more than in an audit."""


def draw_audit(n_items: int, size: int, seed: int, taken: Sequence[int] = ()) -> np.ndarray:
    """Draw the positions (size,) of an audit, in random order.

    >>> len(draw_audit(100, 20, seed=0))
    20

    Args:
        n_items: number of items in the pool.
        size: number of items in the audit, at most half of those that are not ``taken``.
        taken: positions that already have a label.
    """
    if size == 0:
        return np.zeros(0, np.int64)
    is_available = np.ones(n_items, bool)
    is_available[list(taken)] = False
    available = np.flatnonzero(is_available)
    if 2 * size > len(available):
        raise InputError(
            f"A sample of {size} items to keep is more than half of the {len(available)} that have "
            "no label; make it smaller."
        )
    return derive_generator(seed, AUDIT).permutation(available)[:size]


def audit_positions(audit: Any, ledger: "Ledger", seed: int) -> np.ndarray:
    """Convert the learner's ``audit`` argument to positions, in the order they are requested.

    Args:
        audit: number of items to draw, or the items themselves.
    """
    if isinstance(audit, int | float | np.integer):
        return draw_audit(ledger.n_items, check_positive_int(audit, "audit", minimum=0), seed)
    return np.array(list(dict.fromkeys(ledger.positions(audit))), np.int64)


def n_audit_items_due(
    n: int, n_audit_used: int, n_other_used: int, n_audit_left: int, n_other_left: int
) -> int:
    """Count how many of the next ``n`` items are to be audit items.

    Every third item is one until none is left. If fewer than a third of the items so far are from
    the audit, for example because labels were imported, at most half of the batch is; more only if
    there are not enough other items.

    >>> n_audit_items_due(9, 0, 0, 30, 500)
    3

    Args:
        n_audit_used, n_other_used: items that are labelled or pending.
        n_audit_left, n_other_left: items that may still be requested.
    """
    due = (n_audit_used + n_other_used + n + 1) // _AUDIT_INTERVAL - n_audit_used
    at_most_half = min(due, (n + 1) // 2)
    needed_to_fill = n - n_other_left
    return max(0, min(max(at_most_half, needed_to_fill), n_audit_left))


def interleaved_order(chosen: np.ndarray, audit: np.ndarray) -> np.ndarray:
    """Return indices (B,) into [*chosen, *audit] that spread audit items evenly over a batch.

    >>> interleaved_order(np.array([7, 8]), np.array([3]))  # indices into [7, 8, 3]
    array([0, 2, 1])

    Args:
        chosen: items of the batch that a strategy has chosen.
        audit: audit items of the batch.
    """
    n_chosen = len(chosen)
    n_audit = len(audit)
    n = n_chosen + n_audit
    audit_slots = ((np.arange(n_audit) + 0.5) * n / max(n_audit, 1)).astype(int)
    order = np.empty(n, int)
    order[audit_slots] = n_chosen + np.arange(n_audit)
    order[np.setdiff1d(np.arange(n), audit_slots)] = np.arange(n_chosen)
    return order


def with_audit_items(batch: Batch | None, positions: np.ndarray) -> Batch:
    """Add audit items to a batch, spread evenly; if it is None, return a batch of them alone."""
    no_scores = np.full(len(positions), np.nan)
    no_counts = np.zeros(len(positions), np.int64)
    if batch is None:
        return Batch(
            indices=positions,
            scores=no_scores,
            initial_scores=no_scores,
            effective_sample_size=no_scores,
            strategy=AUDIT,
            n_exact=no_counts,
            n_samples=0,
            notes=("All of them are random test items.",),
        )
    order = interleaved_order(batch.indices, positions)
    note = f"{len(positions)} of the {len(order)} items are random test items."
    return replace(
        batch,
        indices=np.append(batch.indices, positions)[order],
        scores=np.append(batch.scores, no_scores)[order],
        initial_scores=np.append(batch.initial_scores, no_scores)[order],
        effective_sample_size=np.append(batch.effective_sample_size, no_scores)[order],
        n_exact=np.append(batch.n_exact, no_counts)[order],
        notes=(*batch.notes, note),
    )


def audit_predictions(state: "State", model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions (n, C) for the labelled audit items, and their labels (n,), flattened."""
    if not len(state.audited):
        return np.zeros((0, len(state.setup.classes))), np.zeros(0, np.int64)
    probs = state.setup.predictions(model, state.audited)
    return state.setup.task.flatten(probs, state.encoded_labels(state.audited))


class CurrentLook(NamedTuple):
    """The latest look of a state, and the labels that it uses.

    Attributes:
        look: None before the first look.
        training_positions: of the labels that the evaluated model is trained on, ascending.
        audited: positions of the audit items that are labelled, in the order of their labels.
    """

    look: Look | None
    training_positions: np.ndarray
    audited: np.ndarray


def current_look(state: "State") -> CurrentLook:
    """Find the latest look of a state."""
    return _look_of(state, latest_look)


def _look_of(state: "State", find: Callable[[np.ndarray, int], Look | None]) -> CurrentLook:
    """Find a look of a state, and the labels that it uses."""
    order = np.array(list(state.labels), np.int64)
    order = order[~np.isin(order, state.setup.audit) | np.isin(order, state.audited)]
    is_audit = np.isin(order, state.setup.audit)
    look = find(is_audit, len(state.setup.audit))
    if look is None:
        return CurrentLook(None, order[:0], order[:0])
    order = order[: look.n_labels]
    is_audit = is_audit[: look.n_labels]
    training_positions = np.setdiff1d(order[~is_audit], state.setup.audit_duplicates)
    return CurrentLook(look, training_positions, order[is_audit])


def _expected_losses_of_pool(
    state: "State", model: Any, training_positions: np.ndarray
) -> np.ndarray:
    """Return the losses (n,) that the model expects of items that the audit was drawn from.

    The audit's own are not among them. A model is surer of items that it was trained on than of any
    others, such as those of the audit. For these items, predictions without their own labels stand
    in. Leaving them out instead would leave the easy items, because strategies choose hard ones.
    The result is empty if there are no such predictions: the error is then measured by the audit's
    labels alone.
    """
    from parbals.learner.state import TrainingLabels

    setup = state.setup
    generator = derive_generator(setup.seed, "audit", "pool")
    not_drawn_from = np.concatenate([setup.audit, setup.audit_excluded])
    positions = drawn_positions(generator, setup.pool.n_rows, _MAX_POOL_ITEMS, not_drawn_from)
    is_training = np.isin(positions, training_positions)
    n_training = int(is_training.sum())
    expected = np.zeros(0)
    if n_training < len(positions):
        probs = setup.predictions(model, positions[~is_training])
        expected = setup.task.expected_losses(probs, setup.decide(model, probs))
    if not n_training:
        return expected
    training = TrainingLabels(training_positions, state.encoded_labels(training_positions))
    rows, probs = state.out_of_sample_predictions(model, training)
    probs = probs[~np.isin(training_positions[rows], setup.audit_excluded)]
    if not len(probs):
        return np.zeros(0)
    expected_training = setup.task.expected_losses(probs, setup.decide(model, probs))
    return np.append(expected, np.resize(expected_training, n_training))


def measure_error(state: "State") -> Measurement | None:
    """Measure the error of a state's model at the latest look; None without an audit."""
    setup = state.setup
    task = setup.task
    n_audit = len(setup.audit)
    if not n_audit:
        return None
    look, training_positions, audited = current_look(state)
    model = state.model_of(training_positions) if look is not None else None
    if look is None or model is None:
        return Measurement(
            error=None,
            n=0,
            n_wrong=0,
            n_audit=n_audit,
            n_labels=0,
            recall=dict.fromkeys(setup.classes),
            precision=dict.fromkeys(setup.classes),
            loss=task.audit_loss,
        )
    labels = state.encoded_labels(audited)
    decisions = setup.decide(model, setup.predictions(model, audited))
    losses = task.losses(decisions, labels)
    error = _error_at(state, look, training_positions, audited)

    def share_correct(number: int, labels_or_decisions: np.ndarray) -> Estimate | None:
        """Estimate the recall of a class, given the labels; its precision, given the decisions."""
        is_correct = task.contains(labels, number) & task.contains(decisions, number)
        n_correct = int(is_correct.sum())
        n = int(task.contains(labels_or_decisions, number).sum())
        if n < _MIN_CLASS_ITEMS:
            return None
        return Estimate(n_correct / n, *clopper_pearson_limits(n_correct, n, look.delta))

    classes = list(enumerate(setup.classes))
    return Measurement(
        error=error,
        n=len(labels),
        n_wrong=int((losses > 0).sum()),
        n_audit=n_audit,
        n_labels=look.n_labels,
        recall={label: share_correct(number, labels) for number, label in classes},
        precision={label: share_correct(number, decisions) for number, label in classes},
        loss=task.audit_loss,
        earlier=_earlier_limit(state, look, error.high),
    )


def _error_at(
    state: "State", look: Look, training_positions: np.ndarray, audited: np.ndarray
) -> Estimate:
    """The error of the model at a look, with its limits."""
    setup = state.setup
    model = state.model_of(training_positions)
    probs = setup.predictions(model, audited)
    decisions = setup.decide(model, probs)
    losses = setup.task.losses(decisions, state.encoded_labels(audited))
    expected = setup.task.expected_losses(probs, decisions)
    expected_pool = _expected_losses_of_pool(state, model, training_positions)
    return Estimate(*stratified_limits(losses, expected, expected_pool, look.delta))


def _earlier_limit(state: "State", look: Look, high: float) -> EarlierLimit | None:
    """The limit at the full audit; None where the look is not a later one with a higher limit."""
    earlier, training_positions, audited = _look_of(state, full_look)
    if earlier is None or earlier.n_labels >= look.n_labels:
        return None
    if state.model_of(training_positions) is None:
        return None
    error = _error_at(state, earlier, training_positions, audited)
    return EarlierLimit(earlier.n_labels, error.high) if error.high < high else None
