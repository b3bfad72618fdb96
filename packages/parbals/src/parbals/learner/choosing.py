"""Choose the next items by a strategy, random audit items among them.

A strategy gives each item i a score_i: how much its true label would tell about the targets. Before
any label the cold-start strategy chooses, unless the prior knows something about the classes.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.learner.evaluation.audit import n_audit_items_due, with_audit_items
from parbals.learner.evaluation.find import choose_likely_positives
from parbals.learner.models import USER_MODEL_N_CANDIDATES
from parbals.learner.state import State
from parbals.learner.tasks.base import Classification
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_settings, choose_batch, has_closed_form
from parbals.strategies.problem import Labelled
from parbals.strategies.scoring import affordable_rows
from parbals.strategies.table import COLD_START_STRATEGY, RANDOM_STRATEGY, strategy_named
from parbals.types import Batch, Loss

__all__ = ["choose_among", "choose_items"]

_N_CANDIDATES = 10_000
"""Default number of free items that are considered for a batch: a few seconds' work."""
_MIN_UNIVERSES = 2
"""Least number of universes with many labels, unless the user asked for fewer."""


def choose_items(
    state: State, n: int, strategy: str, leave_out: Collection[int], *, with_audit: bool
) -> Batch:
    """Choose ``n`` free items, audit items spread over them; see ``ActiveLearner.choose``."""
    audit = state.setup.audit
    excluded = list(leave_out)
    is_free = state.is_free()
    free = np.setdiff1d(state.choosable(), excluded)
    free_audit = audit[:0]
    if with_audit:
        free_audit = audit[is_free[audit] & ~np.isin(audit, excluded)]
    n_available = len(free) + len(free_audit)
    if n > n_available:
        raise InputError(
            f"{n} items were asked for and {n_available} are free "
            f"({len(state.labels)} labelled, {len(state.pending)} pending of {len(is_free)}); ask "
            "for fewer or forget pending ones."
        )
    n_used = int(np.count_nonzero(~is_free))
    n_audit_used = int(np.count_nonzero(~is_free[audit]))
    n_audit = n_audit_items_due(n, n_audit_used, n_used - n_audit_used, len(free_audit), len(free))
    audit_items = free_audit[:n_audit]
    if n_audit == n:
        return with_audit_items(None, audit_items)
    # The search for a rare class replaces every strategy but "random".
    if state.setup.find is not None and strategy != RANDOM_STRATEGY:
        batch = choose_likely_positives(state, free, n - n_audit)
    else:
        batch = choose_among(state, free, n - n_audit, strategy)
    return with_audit_items(batch, audit_items) if n_audit else batch


def choose_among(
    state: State, free: np.ndarray, n: int, strategy: str, loss: Loss | None = None
) -> Batch:
    """Choose ``n`` of the ``free`` positions (ascending) by a strategy.

    Pending items count as the beginning of the batch. If there are more free items than can be
    considered at a time, a random sample of them is. ``loss`` is the loss that the strategy
    minimises, by default that of the metric.
    """
    setup = state.setup
    used_strategy = _strategy_or_cold_start(state, strategy)
    entry = strategy_named(used_strategy)
    loss = loss or setup.task.loss(setup.metric)
    key = state.key(with_pending=True)
    model = state.fitted(warm_start=False) if entry.uses_predictions else None
    is_closed_form = entry.uses_predictions and has_closed_form(entry, model)
    # Scores in closed form are computed block by block, so the rows need not be in memory at once.
    reads_rows_in_place = is_closed_form and isinstance(setup.task, Classification)
    candidates = free
    scores_whole_pool = reads_rows_in_place and setup.pool.is_distributed
    if not scores_whole_pool:
        n_candidates = max(n, _max_candidates(state, is_closed_form=reads_rows_in_place))
        candidates = _sample_candidates(setup.seed, key, free, n_candidates)
    # Pending items enter the strategy as a partial batch, and so are rows of its pool, too.
    positions = np.concatenate([candidates, state.pending_positions()])
    if reads_rows_in_place:
        pool: Any = setup.pool.rows_in_place(positions, setup.preparation)
    else:
        pool = setup.pool_rows(positions)
    uses_class_weights = loss == "error" and state.can_fit
    class_weights = None
    if uses_class_weights:
        class_weights = setup.class_weights(state.fitted(warm_start=False))
    n_universes = _multilabel_budget(state, setup.n_universes)
    settings = check_settings(
        used_strategy,
        len(pool),
        n,
        pending=np.arange(len(candidates), len(pool)),
        n_universes=max(min(setup.n_universes, _MIN_UNIVERSES), n_universes),
        random_state=int.from_bytes(key[:7], "little"),
        loss=loss,
        class_weights=class_weights,
        options=setup.options if used_strategy == setup.strategy else None,
        n_classes=len(setup.task.classes) or None,
    )
    has_targets = entry.uses_predictions or setup.target is not None
    targets = state.target_rows() if has_targets else None
    batch = choose_batch(settings, model, pool, targets, _labelled_rows(state))
    notes = [*setup.pool.notes, *batch.notes]
    if len(candidates) < len(free):
        notes.append(f"{len(candidates):,} of {len(free):,} free items were considered.")
    return replace(batch, indices=positions[batch.indices], notes=tuple(notes))


def _strategy_or_cold_start(state: State, strategy: str) -> str:
    """Return the strategy, or the cold-start strategy if it needs a model and there are no labels.

    A model without labels predicts from its prior. A strategy could choose by that, but its first
    batches would be worse than those of the cold-start strategy (studies/cold_start). It does so
    only if classes are described, or if the pool is distributed.
    """
    entry = strategy_named(strategy)
    setup = state.setup
    has_no_labels = len(state.training_labels.positions) == 0
    has_prior_information = setup.class_descriptions is not None or setup.pool.is_distributed
    can_start_with_prior = has_prior_information and not entry.needs_labels
    use_cold_start = not state.can_fit or (has_no_labels and not can_start_with_prior)
    return COLD_START_STRATEGY if entry.uses_predictions and use_cold_start else strategy


def _multilabel_budget(state: State, budget: int) -> int:
    """Divide a number of universes or candidates by √n_models: less work per model of a label.

    The task has one model, and the number stays as it is, unless it is multi-label. The effect on
    the quality of the choice has not been measured.
    """
    return round(budget / np.sqrt(state.setup.task.n_models))


def _max_candidates(state: State, *, is_closed_form: bool) -> int:
    """Return the largest number of free items that are considered for a batch."""
    setup = state.setup
    if setup.n_candidates is not None:
        return setup.n_candidates
    if is_closed_form:
        latents = state.fitted(warm_start=False).gaussian.latents
        return max(_N_CANDIDATES, affordable_rows(latents, setup.n_targets))
    if setup.model is not None:
        return USER_MODEL_N_CANDIDATES
    return _multilabel_budget(state, _N_CANDIDATES)


def _sample_candidates(seed: int, key: bytes, free: np.ndarray, size: int) -> np.ndarray:
    """Sample at most ``size`` of the free positions, ascending."""
    if len(free) <= size:
        return free
    generator = derive_generator(seed, "candidates", key.hex())
    return np.sort(generator.choice(free, size, replace=False))


def _labelled_rows(state: State) -> Labelled:
    """Return the training labels with their rows, for strategies that compare items with them."""
    positions, labels = state.training_labels
    if not len(positions):
        return Labelled()
    return Labelled(labels, state.setup.pool_rows(positions))
