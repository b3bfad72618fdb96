"""What there is to see of a learner, before it is drawn: state, curve, map, last batch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parbals.learner.words import why_words
from parbals.randomness import derive_generator
from parbals.strategies.table import STRATEGIES
from parbals.types import Batch, Estimate

if TYPE_CHECKING:
    from parbals.learner.active import ActiveLearner

__all__ = ["COLOURS", "LastItem", "View", "view_of"]

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#767676")
"""Okabe and Ito's, which the colour-blind can tell apart; further classes begin again."""
_POINTS = 600
_ITEMS = 10


@dataclass(frozen=True)
class LastItem:
    """An item of the last batch: its name, its label if it has one, and why it was chosen."""

    name: Any
    label: Any
    reason: str
    score: float


@dataclass(frozen=True)
class View:
    """Plain values for pictures.

    Attributes:
        counts: labels of each class; n_items, n_labelled, n_pending: of the pool.
        curve: (labels, expected error) of every report so far; measured: what audits said then.
        places: (n, 2) some items of the pool, all that are labelled or out among them.
        classes: (n,) their class numbers, -1 without a label; is_out: (n,) in the last batch.
        last: the last batch; n_last: how many items it had; by: what chose it.
        advice: of the latest report; None before the first.
    """

    n_items: int
    n_labelled: int
    n_pending: int
    counts: dict[Any, int]
    curve: list[tuple[int, Estimate]]
    measured: list[tuple[int, Estimate]]
    places: np.ndarray
    classes: np.ndarray
    is_out: np.ndarray
    last: list[LastItem]
    n_last: int
    by: str
    advice: str | None


def view_of(learner: "ActiveLearner") -> View:
    """The learner as it stands; fits a model where the last batch needs one, makes no report."""
    counts = dict.fromkeys(learner.classes, 0)
    for label in learner.labels.values():
        counts[label] += 1
    batch, reports = learner.last_batch, learner.reports
    out = np.zeros(0, np.int64) if batch is None else batch.indices
    positions, places = _map(learner, out)
    labels = learner.labels_by_position
    return View(
        n_items=learner.pool.n_rows,
        n_labelled=len(labels),
        n_pending=len(learner.pending),
        counts=counts,
        curve=[(r.n_labelled, r.expected_error) for r in reports if r.expected_error.known],
        measured=[(r.n_labelled, r.measured_error) for r in reports if r.measured_error],
        places=places,
        classes=np.array([labels.get(p, -1) for p in positions.tolist()], np.int64),
        is_out=np.isin(positions, out),
        last=[] if batch is None else _last(learner, batch),
        n_last=len(out),
        by="" if batch is None else batch.strategy,
        advice=reports[-1].advice if reports else None,
    )


def _map(learner: "ActiveLearner", out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n,) and places (n, 2) in [-1, 1] along the two directions that differ most.

    The background and the axes are those of 600 items drawn by the seed: the picture keeps still.
    """
    if learner.pool.is_distributed:
        return np.zeros(0, np.int64), np.zeros((0, 2))
    n_items = learner.pool.n_rows
    generator = derive_generator(learner.seed, "map")
    some = np.sort(generator.choice(n_items, min(n_items, _POINTS), replace=False))
    sample = learner.pool_rows(some).astype(np.float64)
    centre = sample.mean(axis=0)
    axes = np.linalg.svd(sample - centre, full_matrices=False)[2][:2].T  # (D', ≤ 2)
    positions = np.union1d(some, np.concatenate([learner.labelled, out]).astype(np.int64))
    places = np.zeros((len(positions), 2))
    rows = learner.pool_rows(positions).astype(np.float64)
    places[:, : axes.shape[1]] = (rows - centre) @ axes
    low, high = places.min(axis=0), places.max(axis=0)
    return positions, 2.0 * (places - low) / np.maximum(high - low, 1e-12) - 1.0


def _last(learner: "ActiveLearner", batch: Batch) -> list[LastItem]:
    """The first ten items of a batch, each with how sure the model of today's labels is of it."""
    shown = batch.indices[:_ITEMS]
    audit, labels = set(learner.audit.tolist()), learner.labels_by_position
    probs = None
    if learner.can_fit and len(learner.training_set()[0]):
        probs = learner.mean_proba(learner.fitted(), learner.pool_rows(shown))
    items = []
    for place, position in enumerate(shown.tolist()):
        number = labels.get(position)
        if position in audit:
            reason = "Drawn at random, to measure the error."
        elif probs is None:
            entry = STRATEGIES.get(batch.strategy)
            about = "chosen by its score" if entry is None else entry.about
            reason = f"{about[0].upper()}{about[1:]}."
        elif number is not None:  # what the model thinks of it now is not why it was chosen
            reason = "The model has learnt from it since."
        else:
            names = map(str, learner.classes)
            reason = why_words(dict(zip(names, probs[place].tolist(), strict=True)))
        label = None if number is None else learner.classes[number]
        name = position if learner.ids is None else learner.ids[position]
        items.append(LastItem(name, label, reason, float(batch.scores[place])))
    return items
