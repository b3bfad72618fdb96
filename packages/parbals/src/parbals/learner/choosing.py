"""Which items a learner asks for: the audit's share of them, its candidates, its strategy."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from parbals.errors import InputError
from parbals.learner.numbers.audit import audit_batch, audit_share, with_audit_items
from parbals.learner.numbers.find import choose_likely
from parbals.learner.state import State
from parbals.learner.tasks.base import Classes
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_terms, choose_batch, has_closed_form
from parbals.strategies.problem import Labelled
from parbals.strategies.surface import affordable_rows
from parbals.strategies.table import COLD_START, UNIFORM, strategy_named
from parbals.types import Batch, Loss

__all__ = ["choose_among", "choose_items"]

_CANDIDATES = 10_000
"""Free items that are looked at for one batch where samples are compared: a few seconds' work."""


def choose_items(
    state: State, n: int, strategy: str, leave_out: Collection[int], *, with_audit: bool
) -> Batch:
    """``n`` free items, those of the audit spread over them; see ``ActiveLearner.choose``."""
    audit, is_free, left = state.setup.audit, state.is_free(), [*leave_out]
    n_audit_out, n_out = (int((~some).sum()) for some in (is_free[audit], is_free))
    free = np.setdiff1d(state.choosable(), left)
    waiting = audit[is_free[audit] & ~np.isin(audit, left)] if with_audit else audit[:0]
    if n > len(free) + len(waiting):
        raise InputError(
            f"{n} items were asked for and {len(free) + len(waiting)} are free "
            f"({len(state.labels)} labelled, {len(state.pending)} pending of {state.n_items}); ask "
            "for fewer or forget pending ones."
        )
    drawn = waiting[: audit_share(n, n_audit_out, n_out - n_audit_out, len(waiting), len(free))]
    if len(drawn) == n:
        return audit_batch(drawn)
    if state.setup.find is not None and strategy != UNIFORM:  # it costs less than any stand-in
        batch = choose_likely(state, free, n - len(drawn))
    else:
        batch = choose_among(state, free, n - len(drawn), strategy, state.setup.loss)
    return with_audit_items(batch, drawn) if len(drawn) else batch


def choose_among(state: State, free: np.ndarray, n: int, strategy: str, loss: Loss) -> Batch:
    """The strategy's ``n`` of the ``free`` positions (ascending); pending items are a batch begun.

    Where there are more than the learner considers at a time, those drawn by its state.
    """
    setup, used = state.setup, _usable(state, strategy)
    key = state.key(with_pending=True)
    entry = strategy_named(used)
    is_closed = entry.uses_predictions and has_closed_form(entry, state.fitted(alone=True))
    in_place = is_closed and isinstance(setup.kind, Classes)
    whole = in_place and setup.pool.is_distributed
    most = max(n, len(free) if whole else _most(state, in_place))
    candidates = free
    if len(free) > most:
        drawn = derive_generator(setup.seed, "candidates", key.hex())
        candidates = np.sort(drawn.choice(free, most, replace=False))
    # Pending items enter as a partial batch, so they stand in the pool as well.
    positions = np.concatenate([candidates, state.pending_positions()])
    pool = (
        setup.pool.rows_in_place(positions, setup.preparation)
        if in_place
        else setup.pool_rows(positions)
    )
    stakes = None
    if loss == "error" and state.can_fit:
        stakes = setup.stakes(state.fitted(alone=True))
    terms = check_terms(
        used,
        len(pool),
        n,
        pending=np.arange(len(candidates), len(pool)),
        n_universes=setup.kind.n_universes(setup.n_universes),
        random_state=int.from_bytes(key[:7], "little"),
        loss=loss,
        stakes=stakes,
        options=setup.options if used == setup.strategy else None,
    )
    known, numbers = state.training
    labelled = Labelled(numbers, setup.pool_rows(known)) if len(known) else Labelled()
    if entry.uses_predictions:
        batch = choose_batch(terms, state.fitted(alone=True), pool, state.target_rows(), labelled)
    else:
        batch = choose_batch(terms, None, pool, None, labelled)
    notes = (*setup.pool.notes, *batch.notes)
    if len(candidates) < len(free):
        notes = (*notes, f"{len(candidates):,} of {len(free):,} free items were considered.")
    return replace(batch, indices=positions[batch.indices], notes=notes)


def _usable(state: State, strategy: str) -> str:
    """The strategy, or the one that stands in for it until there are labels.

    Those that could choose under the prior start so too: its first batches are worth less
    (studies/cold_start). Not where descriptions of classes say more, nor where rows are elsewhere.
    """
    entry, setup = strategy_named(strategy), state.setup
    told = setup.described is not None or setup.pool.is_distributed
    nothing = not len(state.training[0])
    blind = not state.can_fit or (nothing and (entry.needs_labels or not told))
    return COLD_START if entry.uses_predictions and blind else strategy


def _most(state: State, is_closed: bool) -> int:
    """How many candidates a choice looks at."""
    setup = state.setup
    if setup.n_candidates is not None:
        return setup.n_candidates
    if not is_closed:
        return setup.kind.n_candidates(_CANDIDATES)
    channels = state.fitted(alone=True).gaussian.channels
    return max(_CANDIDATES, affordable_rows(channels, setup.n_targets))
