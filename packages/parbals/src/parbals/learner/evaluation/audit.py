"""An audit: random items that measure the model, kept out of choosing and of training.

The audit is drawn from the pool uniformly, before anything is chosen. Its labels train no model,
and its items are neither candidates nor targets, so no model of the session depends on them: its
losses are those of a fresh random item of the same source, whatever strategy chose the rest. Items
that took part in choosing would not do: those a strategy left unlabelled are the easy ones.

What the interval assumes: whether an audit item has a label yet does not depend on what it shows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parbals.arrays import drawn_positions
from parbals.errors import InputError
from parbals.learner.evaluation.looks import Look, clopper_pearson_limits, latest_look, ppi_limits
from parbals.learner.evaluation.report import Measurement
from parbals.randomness import derive_generator
from parbals.types import Batch, Estimate
from parbals.validate import check_positive_int

if TYPE_CHECKING:  # a project draws its audit without loading a model
    from parbals.learner.ledger import Ledger
    from parbals.learner.state import State

__all__ = ["AUDIT", "audit_positions", "audit_predictions", "n_audit_items_due"]
__all__ += ["current_look", "draw_audit", "interleave", "measure", "with_audit_items"]

AUDIT = "audit"
"""What chose an item of the audit, beside the names of strategies."""
_EVERY = 3
"""Every third item asked for is the audit's: half as many as are chosen measure as they train."""
_FEWEST = 5
"""A recall or precision of fewer items than this is not worth an interval."""
_AVERAGED = 4_096
"""Items of the pool by which its expected error is known: many beside those of an audit."""


def draw_audit(n_items: int, size: int, seed: int, taken: Sequence[int] = ()) -> np.ndarray:
    """(size,) positions in random order, none of them ``taken``; at most half of what is left."""
    if size == 0:
        return np.zeros(0, np.int64)
    is_left = np.ones(n_items, bool)
    is_left[list(taken)] = False
    left = np.flatnonzero(is_left)
    if 2 * size > len(left):
        raise InputError(
            f"An audit of {size} items is more than half of the {len(left)} that have no label; "
            "make it smaller."
        )
    return derive_generator(seed, AUDIT).permutation(left)[:size]


def audit_positions(audit: Any, ledger: "Ledger", seed: int) -> np.ndarray:
    """Of so many items, or of those that are named; in the order they are asked for."""
    if isinstance(audit, int | float | np.integer):
        return draw_audit(ledger.n_items, check_positive_int(audit, "audit", least=0), seed)
    return np.array(list(dict.fromkeys(ledger.positions(audit))), np.int64)


def n_audit_items_due(
    n: int, n_audit_out: int, n_other_out: int, n_audit_left: int, n_left: int
) -> int:
    """How many of the next ``n`` items are the audit's.

    Every third label until it is done, at most half of a batch where it lags behind (such as after
    labels that were there before), and all that is needed where nothing else is left.

    Args:
        n_audit_out, n_other_out: items that have a label or are out.
        n_audit_left, n_left: items that may still be asked for; ``n_left`` are not the audit's.
    """
    due = (n_audit_out + n_other_out + n + 1) // _EVERY - n_audit_out
    wanted = max(min(due, (n + 1) // 2), n - n_left)
    return max(0, min(wanted, n_audit_left))


def interleave(chosen: np.ndarray, audit: np.ndarray) -> np.ndarray:
    """(B,) places of ``chosen`` then ``audit`` in one order, the audit's spread evenly."""
    n, n_audit = len(chosen) + len(audit), len(audit)
    places = ((np.arange(n_audit) + 0.5) * n / max(n_audit, 1)).astype(int)
    order = np.empty(n, int)
    order[places] = len(chosen) + np.arange(n_audit)
    order[np.setdiff1d(np.arange(n), places)] = np.arange(len(chosen))
    return order


def with_audit_items(batch: Batch | None, positions: np.ndarray) -> Batch:
    """The batch with items of the audit spread over it; or those alone."""
    blank, none = np.full(len(positions), np.nan), np.zeros(len(positions), np.int64)
    if batch is None:
        note = "All of them are random items of the audit."
        return Batch(positions, blank, blank, blank, AUDIT, none, 0, (note,))
    order = interleave(batch.indices, positions)
    note = f"{len(positions)} of the {len(order)} items are random ones of the audit."
    more = {
        "indices": positions, "n_exact": none,
        **dict.fromkeys(("scores", "initial_scores", "effective_sample_size"), blank),
    }  # fmt: skip
    joined = {name: np.append(getattr(batch, name), own)[order] for name, own in more.items()}
    return replace(batch, **joined, notes=(*batch.notes, note))


def audit_predictions(state: "State", model: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n, C) of the audit's items that have a label, and the labels' class numbers (n,)."""
    if not len(state.audited):
        return np.zeros((0, len(state.setup.classes))), np.zeros(0, np.int64)
    setup, numbers = state.setup, state.encoded_labels(state.audited)
    return setup.task.flatten(setup.predicted(model, state.audited), numbers)


def current_look(state: "State") -> tuple[Look | None, np.ndarray, np.ndarray]:
    """The latest look of a state; the labels it takes in the order they came, without the audit's
    (sorted), and those of the audit.
    """
    order = np.array(list(state.labels), np.int64)
    is_audit = np.isin(order, state.setup.audit)
    look = latest_look(is_audit, len(state.setup.audit))
    if look is None:
        return None, order[:0], order[:0]
    order, is_audit = order[: look.n_labels], is_audit[: look.n_labels]
    return look, np.setdiff1d(order[~is_audit], state.setup.audit_duplicates), order[is_audit]


def measure(state: "State") -> Measurement | None:
    """The latest measurement; None without an audit."""
    setup = state.setup
    if not len(setup.audit):
        return None
    look, training, audited = current_look(state)
    model = state.model_of(training) if look is not None else None
    if look is None or model is None:
        blank = dict.fromkeys(setup.classes)
        size, loss = len(setup.audit), setup.task.audit_loss
        return Measurement(None, 0, 0, size, 0, blank, dict(blank), loss)
    given, probs = state.encoded_labels(audited), setup.predicted(model, audited)
    task = setup.task
    said = setup.decide(model, probs)
    wrong = task.losses(said, given)
    # The expected error is averaged over items without the audit's.
    generator = derive_generator(setup.seed, "audit", "pool")
    drawn = drawn_positions(generator, setup.pool.n_rows, _AVERAGED, setup.audit)
    others = setup.predicted(model, drawn)
    error = ppi_limits(
        wrong,
        task.expected_losses(probs, said),
        task.expected_losses(others, setup.decide(model, others)),
        look.delta,
    )

    def share(number: int, among: np.ndarray) -> Estimate | None:
        both = task.contains(given, number) & task.contains(said, number)
        n, hits = int(task.contains(among, number).sum()), int(both.sum())
        return (
            None
            if n < _FEWEST
            else Estimate(hits / n, *clopper_pearson_limits(hits, n, look.delta))
        )

    classes = list(enumerate(setup.classes))
    return Measurement(
        error=Estimate(*error),
        n=len(given),
        n_wrong=int((wrong > 0).sum()),
        n_audit=len(setup.audit),
        n_labels=look.n_labels,
        recall={label: share(c, given) for c, label in classes},
        precision={label: share(c, said) for c, label in classes},
        loss=task.audit_loss,
    )
