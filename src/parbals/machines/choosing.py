"""What a machine is asked next: the project's choice among the items that it has not passed over.

Loads JAX.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.learner.active import ActiveLearner
from parbals.project.engine import learner_of
from parbals.randomness import derive_generator
from parbals.store.store import Store

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """A batch as the store records it: (position, score, initial score), best first, and what it
    was made of."""

    strategy: str
    seed: int
    rows: Sequence[tuple[int, float | None, float | None]]
    known: dict[str, Any]


def choose(store: Store, n: int, strategy: str | None, leave_out: Collection[int]) -> Choice | None:
    """Up to ``n`` free items outside ``leave_out``; None if there are none. Nothing is leased."""
    learner = learner_of(store)
    left = _left(learner, leave_out)
    size = min(n, len(left))
    if size == 0:
        return None
    if len(left) == learner.free_items:
        batch, names = learner.choose(size, strategy=strategy), None
    else:
        part = _among(learner, left, size)
        batch, names = part.choose(size, strategy=strategy), part.ids
    positions = [int(index) if names is None else int(names[index]) for index in batch.indices]
    # The scores of a strategy that stands in for the project's own would not compare with the
    # others.
    scores = (
        zip(batch.scores.tolist(), batch.initial_scores.tolist(), strict=True)
        if strategy is None
        else None
    )
    pairs = [(None, None)] * size if scores is None else list(scores)
    rows = [(position, *pair) for position, pair in zip(positions, pairs, strict=True)]
    return Choice(batch.strategy, learner.seed, rows, _known(learner, left, batch.notes))


def _known(learner: ActiveLearner, left: np.ndarray, notes: Any) -> dict[str, Any]:
    return {
        "n_labelled": len(learner.labelled),
        "n_candidates": learner.n_candidates,
        "n_left_out": learner.free_items - len(left),
        "notes": list(notes),
    }


def _left(learner: ActiveLearner, leave_out: Collection[int]) -> np.ndarray:
    """Positions that are free and not left out, ascending."""
    free = np.ones(learner.pool.n_rows, bool)
    for taken in (learner.labelled, learner.pending, sorted(leave_out)):
        free[np.asarray(taken, np.int64)] = False
    return np.flatnonzero(free)


def _among(learner: ActiveLearner, left: np.ndarray, n: int) -> ActiveLearner:
    """The same learner over fewer items: at most ``n_candidates`` of ``left``, and those labelled
    or out.

    Calling the others pending would keep them from being chosen as well, but the model would then
    think through the labels that they are about to get: minutes for thousands of them, and labels
    that may never come.
    """
    pending = np.asarray(learner.pending, np.int64)
    most = max(n, learner.n_candidates)
    if len(left) > most:
        drawn = derive_generator(
            learner.seed, "machine candidates", len(learner.labelled), len(pending), len(left)
        )
        left = np.sort(drawn.choice(left, most, replace=False))
    positions = np.concatenate([left, learner.labelled, pending])
    part = ActiveLearner(
        learner.pool.rows(positions),
        learner.classes,
        learner.target_rows(),
        learner.strategy,
        learner.seed,
        ids=positions.tolist(),
        n_samples=learner.n_samples,
        prior_scale=learner.prior_scale,
        loss=learner.loss,
        n_candidates=most,
        checked=True,
    )
    part.tell(list(learner.labels), list(learner.labels.values()))
    part.mark_pending(pending.tolist())
    return part
