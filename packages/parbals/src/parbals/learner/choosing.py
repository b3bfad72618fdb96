"""Which items a learner asks for: the audit's share of them, its candidates, its strategy."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from parbals.errors import InputError
from parbals.learner.audit import audit_batch, audit_share, with_audit_items
from parbals.learner.find import choose_likely
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_terms, choose_batch, has_closed_form
from parbals.strategies.problem import Labelled
from parbals.strategies.surface import affordable_rows
from parbals.strategies.table import COLD_START, UNIFORM, strategy_named
from parbals.types import Batch, Loss

if TYPE_CHECKING:
    from parbals.learner.active import ActiveLearner

__all__ = ["choose_among", "choose_items"]

_CANDIDATES = 10_000


def choose_items(
    learner: "ActiveLearner",
    n: int,
    strategy: str,
    leave_out: Collection[int],
    *,
    with_audit: bool,
) -> Batch:
    """``n`` free items, those of the audit spread over them; see ``ActiveLearner.choose``."""
    audit, is_free = learner.audit, learner.is_free()
    n_audit_out = int((~is_free[audit]).sum())
    n_out = int((~is_free).sum())
    is_free[list(leave_out)] = False
    waiting = audit[is_free[audit]] if with_audit else audit[:0]
    is_free[audit] = False
    free = np.flatnonzero(is_free)
    if n > len(free) + len(waiting):
        raise InputError(
            f"{n} items were asked for and {len(free) + len(waiting)} are free "
            f"({len(learner.labelled)} labelled, {len(learner.pending)} pending of "
            f"{learner.pool.n_rows}); ask for fewer or forget pending ones."
        )
    drawn = waiting[: audit_share(n, n_audit_out, n_out - n_audit_out, len(waiting), len(free))]
    if len(drawn) == n:
        return audit_batch(drawn)
    if learner.find is not None and strategy != UNIFORM:  # it costs less than any that stands in
        batch = choose_likely(learner, free, n - len(drawn))
    else:
        batch = choose_among(learner, free, n - len(drawn), strategy, learner.loss)
    return with_audit_items(batch, drawn) if len(drawn) else batch


def choose_among(
    learner: "ActiveLearner", free: np.ndarray, n: int, strategy: str, loss: Loss
) -> Batch:
    """The strategy's ``n`` of the ``free`` positions (ascending); pending items are a batch begun.

    Where there are more than the learner considers at a time, those drawn by its state.
    """
    used = _usable(learner, strategy)
    key = learner.state_key(with_pending=True)
    entry = strategy_named(used)
    in_place = entry.closed_form and has_closed_form(entry, learner.fitted())
    whole = in_place and learner.pool.is_distributed
    most = max(n, len(free) if whole else _most(learner, in_place))
    candidates = free
    if len(free) > most:
        drawn = derive_generator(learner.seed, "candidates", key.hex())
        candidates = np.sort(drawn.choice(free, most, replace=False))
    # Pending items enter as a partial batch, so they stand in the pool as well.
    positions = np.concatenate([candidates, learner.pending_positions()])
    pool = (
        learner.pool.rows_in_place(positions, learner.preparation)
        if in_place
        else learner.pool_rows(positions)
    )
    terms = check_terms(
        used,
        len(pool),
        n,
        pending=np.arange(len(candidates), len(pool)),
        n_universes=learner.n_universes,
        random_state=int.from_bytes(key[:7], "little"),
        loss=loss,
        stakes=learner.stakes(learner.fitted()) if loss == "error" and learner.can_fit else None,
        options=learner.options if used == learner.strategy else None,
    )
    known, numbers = learner.training_set()
    labelled = Labelled(numbers, learner.pool_rows(known)) if len(known) else Labelled()
    if entry.uses_predictions:
        batch = choose_batch(terms, learner.fitted(), pool, learner.target_rows(), labelled)
    else:
        batch = choose_batch(terms, None, pool, None, labelled)
    notes = (*learner.pool.notes, *batch.notes)
    if len(candidates) < len(free):
        notes = (*notes, f"{len(candidates):,} of {len(free):,} free items were considered.")
    return replace(batch, indices=positions[batch.indices], notes=notes)


def _usable(learner: "ActiveLearner", strategy: str) -> str:
    """The strategy, or the one that stands in for it until there are labels."""
    entry = strategy_named(strategy)
    blind = not learner.can_fit or (entry.needs_labels and not len(learner.training_set()[0]))
    return COLD_START if entry.uses_predictions and blind else strategy


def _most(learner: "ActiveLearner", is_closed: bool) -> int:
    """How many candidates a choice looks at."""
    if learner.n_candidates is not None:
        return learner.n_candidates
    if not is_closed:
        return _CANDIDATES
    return max(_CANDIDATES, affordable_rows(learner.fitted().gaussian.channels, learner.n_targets))
