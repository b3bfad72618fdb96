"""Choose the items to label next, assign them, and record why each was chosen."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from parbals.errors import InputError
from parbals.learner.active import ActiveLearner
from parbals.learner.evaluation.certify import CERTIFY
from parbals.learner.questions import choose_questions
from parbals.types import Batch

from parbals_label.project.engine import learner_of
from parbals_label.project.measured import never_chosen
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.store import Store

__all__ = ["NothingAvailableError", "choose_batch", "choose_by_cost"]

_T = TypeVar("_T")
_MAX_ATTEMPTS = 20
"""Attempts to choose a batch while others take some of its items."""
_PER_ITEM_FIELDS = ("indices", "scores", "initial_scores", "effective_sample_size", "n_exact")
"""Fields of a batch that have one entry for each item."""


class NothingAvailableError(InputError):
    """Every item is labelled, assigned, skipped or excluded."""


def choose_batch(
    store: Store,
    n: int,
    *,
    fewer: bool = False,
    annotator: str | None = None,
    expires: float | None = None,
    queued: bool = False,
    strategy: str | None = None,
    leave_out: Collection[int] = (),
    n_candidates: int | None = None,
    replaces: Collection[str] = (),
    models_annotators: bool = True,
    changes: Mapping[str, Any] | None = None,
) -> tuple[int, Batch]:
    """Choose ``n`` items, assign them, and record why; returns the batch's number and the batch.

    If others take some of the items meanwhile, a new batch is chosen that takes this into account
    (a ``queued`` batch only loses those items); ``ItemsUnavailableError`` if that happens every
    time. Where too few items are available, a batch that is not queued also takes items that wait
    on the labelling page and that nobody has opened, except those of a measurement.

    Args:
        store: the project.
        n: number of items.
        fewer: choose fewer items where fewer are available; ``NothingAvailableError`` where none
            is.
        annotator: to whom the items are assigned.
        expires: until when they are assigned, as a time of ``lease_clock``.
        queued: the items wait on the labelling page for anybody who asks.
        strategy: used in place of the project's strategy.
        leave_out: positions that are not chosen, such as those on which a program abstained.
        n_candidates: at most so many available items are considered, drawn again when labels
            change.
        replaces: strategies whose unopened items in the queue are replaced by this batch.
        models_annotators: see :func:`learner_of`.
        changes: see :func:`learner_of`.
    """

    def learner_and_availability(
        replaced: Collection[str],
    ) -> tuple[ActiveLearner, _Availability]:
        learner = learner_of(
            store,
            n_candidates=n_candidates,
            replaces=replaced,
            models_annotators=models_annotators,
            changes=changes,
        )
        return learner, _availability(learner, never_chosen(store).union(leave_out))

    def attempt() -> tuple[int, Batch]:
        started_at = time.monotonic()
        replaced = replaces
        learner, availability = learner_and_availability(replaced)
        if n > availability.n_available and not queued:
            replaced = [*replaces, *(name for name in store.unopened() if name != CERTIFY)]
            learner, availability = learner_and_availability(replaced)
        if n > availability.n_available and (availability.n_available == 0 or not fewer):
            raise _too_few_available(n, learner, availability)
        batch = learner.choose(
            min(n, availability.n_available),
            strategy=strategy,
            leave_out=availability.excluded,
        )
        scores = zip(batch.indices, batch.scores, batch.initial_scores, strict=True)
        number = store.record_batch(
            batch.strategy,
            learner.setup.seed,
            [(int(position), float(score), float(initial)) for position, score, initial in scores],
            {
                "n_labelled": len(learner.labelled),
                "n_candidates": batch.n_candidates,
                "n_universes": learner.setup.n_universes,
                "n_targets": learner.setup.n_targets,
                "n_left_out": len(availability.excluded),
                "n_audit": int(np.isin(batch.indices, learner.audit).sum()),
                "notes": list(batch.notes),
                "seconds": round(time.monotonic() - started_at, 3),
            },
            annotator=annotator,
            expires=expires,
            queued=queued,
            replaces=replaced,
        )
        return number, _restrict(batch, store.batch_positions(number))

    return _retry_while_taken(attempt)


class _Availability(NamedTuple):
    """Which of the free items, neither labelled nor pending, can be chosen.

    Attributes:
        excluded: free positions that must not be chosen.
        n_available: number of the other free positions.
    """

    excluded: set[int]
    n_available: int


def _availability(learner: ActiveLearner, leave_out: Collection[int]) -> _Availability:
    unavailable = {*learner.labelled.tolist(), *learner.pending}
    excluded = set(leave_out) - unavailable
    is_free = learner.state.is_free()
    is_free[learner.setup.audit_duplicates] = False  # the learner does not choose these
    is_free[sorted(excluded)] = False  # some may be duplicates of audit items as well
    return _Availability(excluded, int(is_free.sum()))


def _too_few_available(n: int, learner: ActiveLearner, availability: _Availability) -> InputError:
    """The error for a request of more items than there are."""
    if len(learner.labelled) == learner.pool.n_rows:
        return NothingAvailableError("Every item is labelled, so there is none left to choose.")
    kind = NothingAvailableError if availability.n_available == 0 else InputError
    return kind(
        f"{n} items were requested and {availability.n_available} are available "
        f"({len(learner.labelled)} labelled, {len(learner.pending)} assigned or skipped, "
        f"{len(availability.excluded)} excluded, of {learner.pool.n_rows}); request fewer (-n), "
        "or first return the labels of the assigned items (parbals tell)."
    )


def _retry_while_taken(attempt: Callable[[], _T]) -> _T:
    """Repeat an attempt to choose while others take its items before it is recorded."""
    for n_left in reversed(range(_MAX_ATTEMPTS)):
        try:
            return attempt()
        except ItemsUnavailableError as error:
            if n_left == 0:
                raise ItemsUnavailableError(
                    "Others took items while these were being chosen, "
                    f"{_MAX_ATTEMPTS} times in a row; nothing was assigned, try again. "
                    f"The last time: {error}"
                ) from None
    raise AssertionError("the last attempt returns or raises")


def choose_by_cost(
    store: Store,
    n: int,
    costs: Mapping[str, float],
    *,
    only: str | None = None,
    expires: float | None = None,
    leave_out: Collection[int] = (),
) -> tuple[int | None, list[tuple[int, str]]]:
    """Choose at most ``n`` questions (position, annotator), most information per cost first.

    Items without a label are assigned as a batch, which also records all questions. Returns the
    number of the batch (None if all questions are second opinions) and the questions.

    Args:
        store: the project.
        n: number of questions.
        costs: annotator → cost of an answer.
        only: keep the questions of this annotator, and assign the items to them.
        expires: until when the items are assigned, as a time of ``lease_clock``.
        leave_out: positions that are not chosen.
    """
    if store.form.task != "classes":
        raise InputError(
            f"Costs need a project with one class per item; this project's task is "
            f"{store.form.task}."
        )

    def attempt() -> tuple[int | None, list[tuple[int, str]]]:
        learner = learner_of(store, model_single_annotator=True)
        excluded = never_chosen(store).union(leave_out)
        try:
            questions = choose_questions(learner.state, n, costs, {}, excluded)
        except InputError as error:
            raise NothingAvailableError(str(error)) from None
        questions = [(position, name) for position, name in questions if only in (None, name)]
        new_items = [
            (position, None, None) for position, _ in questions if position not in learner.labels
        ]
        if not new_items:
            return None, questions
        number = store.record_batch(
            learner.setup.strategy,
            learner.setup.seed,
            new_items,
            {"n_labelled": len(learner.labelled), "costs": dict(costs), "questions": questions},
            annotator=only,
            expires=expires,
        )
        return number, questions

    return _retry_while_taken(attempt)


def _restrict(batch: Batch, positions: list[int]) -> Batch:
    """The batch with only the items at these positions."""
    is_recorded = np.isin(batch.indices, positions)
    fields = {name: getattr(batch, name)[is_recorded] for name in _PER_ITEM_FIELDS}
    return replace(batch, **fields)
