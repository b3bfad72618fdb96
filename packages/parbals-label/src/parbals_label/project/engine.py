"""The model's side of a project: what to label next, and what it predicts."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, astuple, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from parbals.errors import InputError
from parbals.learner.active import ActiveLearner
from parbals.learner.choosing import choose_questions
from parbals.learner.evaluation.expectation import sharpened
from parbals.learner.evaluation.report import Report
from parbals.learner.reporting import given_degree
from parbals.types import Batch
from parbals.wording import PROGRAM

from parbals_label.answer_form import NUMBERS
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.features import (
    class_information_of,
    features_of,
    held_out_of,
    is_adapted,
    prior_scale_of,
    remove_matrices,
    store_features,
)
from parbals_label.project.goal import metric_of
from parbals_label.project.label_issues import find_label_issues
from parbals_label.project.predicted import raw_predictions
from parbals_label.store.batches import TakenError
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

__all__ = [
    "NothingAvailableError",
    "choose_batch",
    "choose_by_cost",
    "learner_of",
    "split_by_confidence",
]
__all__ += ["assigned_or_skipped", "open_project", "refresh"]

_ENTRIES = 2**22  # of features, read and predicted at a time: 32 MB
_T = TypeVar("_T")
_TRIES = 20
_ONE_EACH = ("indices", "scores", "initial_scores", "effective_sample_size", "n_exact")
"""What a batch has one of for each item."""
_ENOUGH, _BEYOND_CHANCE = 20, 1.64  # answers of a program that people checked; deviations
_THIRDS = ("least sure", "surer", "surest")


def learner_of(
    store: Store,
    *,
    with_pending: bool = True,
    n_candidates: int | None = None,
    renew: Collection[str] = (),
    signed: bool = False,
    changes: Mapping[str, Any] | None = None,
) -> ActiveLearner:
    """A learner that knows the project's features, labels and pending items.

    Items that somebody passed and nobody has labelled are pending as well: they are not chosen.
    Those are free that wait unseen on the page by choice of strategies to ``renew``. ``signed``: it
    knows whose labels these are although there is one annotator alone. ``changes`` are arguments of
    the learner in place of the project's, such as ``n_universes``; without ``weighed`` people,
    though no program, are taken at their word, which spares two fits of three.
    """
    settings, form, changes = store.settings, store.form, {"weighed": True, **(changes or {})}
    weighed = changes.pop("weighed")
    learner = ActiveLearner(
        features_of(store),
        form.classes or None,
        task=form.task,
        strategy=settings.strategy,
        random_state=settings.seed,
        n_samples=settings.n_samples,
        prior_scale=prior_scale_of(settings, taught=is_adapted(settings.encoder)),
        metric=metric_of(settings.loss),
        checked=True,
        n_candidates=n_candidates,
        audit=settings.audit,
        find=settings.find,
        **{"held_out": held_out_of(store), **class_information_of(store), **changes},
    )
    uncounted = store.uncounted()  # a program's word on the audit's items measures nothing
    labels = {p: v for p, v in aggregate_labels(store.votes(), form).items() if p not in uncounted}
    # In the order in which they came: an audit's looks are at the first so many.
    came = [position for position in store.answered() if position in labels]
    plain = {p: form.plain(v) for p, v in labels.items()}
    # Before an answer is there nobody knows how sure it will be.
    sure = {} if signed else store.confidences()
    said = store.current_labels()
    weighed = weighed or any(who.startswith(PROGRAM) for by in said.values() for who in by)
    _tell(learner, came, plain, said, 1 if signed else 2 if weighed else np.inf, sure)
    if with_pending:
        unseen = {p for by, some in store.unseen().items() if by in renew for p in some}
        learner.mark_pending([p for p in assigned_or_skipped(store, labels) if p not in unseen])
    return learner


def _tell(
    learner: ActiveLearner,
    came: list[int],
    labels: Mapping[int, Any],
    answers: Mapping[int, Mapping[str, str]],
    fewest: float,
    sure: Mapping[tuple[int, str], float],
) -> None:
    """Labels of these positions, and whose they are if ``fewest`` people or programs gave them.

    People's label of an audit item is true; what programs say of it shows how good they are.
    """
    audit = set(learner.audit.tolist())
    names = {name for position in came if position not in audit for name in answers[position]}
    if len(names) < fewest or learner.task != "classes":
        learner.tell(came, [labels[position] for position in came])
        return
    by_people = {p for p in came if any(not who.startswith(PROGRAM) for who in answers[p])}
    checked = [(p, who) for p, who in sure if p in by_people - audit]
    names_by = split_by_confidence(
        sure, {(p, who): answers[p][who] == labels[p] for p, who in checked}
    )
    for position in came:
        said = {names_by.get((position, who), who): v for who, v in answers[position].items()}
        if position in audit:
            learner.tell(position, labels[position])
            said = {name: label for name, label in said.items() if name.startswith(PROGRAM)}
        for name, label in said.items():
            learner.tell(position, label, annotator=name)


def split_by_confidence(
    sure: Mapping[tuple[int, str], float], right: Mapping[tuple[int, str], bool]
) -> dict[tuple[int, str], str]:
    """(position, program) → a name for each third of its answers, by how sure it says it is.

    Each third is an annotator to the learner. A program stays one until what people have checked
    (``right`` or not) shows, beyond chance, that it is right more often where it is surer.
    """
    found: dict[tuple[int, str], str] = {}
    for program in {who for _, who in sure}:
        mine = {position: value for (position, who), value in sure.items() if who == program}
        pairs = [(value, right[p, program]) for p, value in mine.items() if (p, program) in right]
        varied = len(pairs) >= _ENOUGH and all(
            len({*part}) > 1 for part in zip(*pairs, strict=True)
        )
        if varied and np.corrcoef(np.transpose(pairs))[0, 1] * np.sqrt(len(pairs)) > _BEYOND_CHANCE:
            cuts = np.quantile([*mine.values()], [1 / 3, 2 / 3])
            for position, value in mine.items():
                third = _THIRDS[int(np.searchsorted(cuts, value))]
                found[position, program] = f"{program}, {third}"
    return found


def assigned_or_skipped(store: Store, labels: Collection[int] | None = None) -> list[int]:
    """What is out or passed and has no label; an item that waits for a second opinion has one."""
    labelled = store.votes() if labels is None else labels
    out = dict.fromkeys([*store.pending(), *store.passes()])
    return [position for position in out if position not in labelled]


class NothingAvailableError(InputError):
    """Every item is labelled, out, passed or to be left out."""


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
    renew: Collection[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> tuple[int, Batch]:
    """Choose ``n`` items, lease them, and record why: the batch's number, and the batch as stored.

    All is chosen again, knowing more, where others take some of the items meanwhile (from a
    ``queued`` batch only those are left out); ``TakenError`` where that happens every time.

    Args:
        fewer: fewer items where fewer are free; ``NothingAvailableError`` where none is.
        annotator, expires: whose items these are, and until when (as ``moment()``).
        queued: the items wait on the labelling page for anybody who asks.
        strategy: stands in for the project's own.
        leave_out: positions that are not chosen, such as those a machine abstained on.
        n_candidates: at most so many free items are looked at, drawn again when labels change.
        renew: strategies whose choice on the page, as far as it is unseen, makes way for this one.
        changes: see :func:`learner_of`.
    """

    def attempt() -> tuple[int, Batch]:
        began = time.monotonic()
        learner = learner_of(store, n_candidates=n_candidates, renew=renew, changes=changes)
        taken = {*learner.labelled.tolist(), *learner.pending}
        left_out = {copy for copy, _ in store.settings.copies}.union(leave_out) - taken
        n_left_out = len(left_out)
        is_free = learner.state.is_free()
        is_free[learner.setup.twins] = False  # copies of an audit item
        n_free = int(is_free.sum()) - n_left_out
        if n > n_free and (n_free == 0 or not fewer):
            kind = NothingAvailableError if n_free == 0 else InputError
            raise kind(
                f"{n} items were asked for and {n_free} are free ({len(learner.labelled)} "
                f"labelled, {len(learner.pending)} out or passed, {n_left_out} left out, of "
                f"{learner.pool.n_rows}); ask for fewer (-n), or first tell the labels of what is "
                "out (parbals tell)."
            )
        batch = learner.choose(min(n, n_free), strategy=strategy, leave_out=left_out)
        rows = zip(batch.indices, batch.scores, batch.initial_scores, strict=True)
        number = store.record_batch(
            batch.strategy,
            learner.setup.seed,
            [(int(position), float(score), float(alone)) for position, score, alone in rows],
            {
                "n_labelled": len(learner.labelled),
                "n_candidates": batch.n_candidates,
                "n_universes": learner.setup.n_universes,
                "n_targets": learner.setup.n_targets,
                "n_left_out": n_left_out,
                "n_audit": int(np.isin(batch.indices, learner.audit).sum()),
                "notes": list(batch.notes),
                "seconds": round(time.monotonic() - began, 3),
            },
            annotator=annotator,
            expires=expires,
            queued=queued,
            renew=renew,
        )
        return number, _only(batch, store.batch_positions(number))

    return _again_where_taken(attempt)


def _again_where_taken(attempt: Callable[[], _T]) -> _T:
    """What an attempt to choose gives; others may take some of the items before it is recorded."""
    for left in reversed(range(_TRIES)):
        try:
            return attempt()
        except TakenError as error:
            if left == 0:
                raise TakenError(
                    f"Others took items while these were being chosen, {_TRIES} times in a row; "
                    f"nothing was handed out, try again. The last time: {error}"
                ) from None
    raise AssertionError("the last try returns or raises")


def choose_by_cost(
    store: Store,
    n: int,
    costs: Mapping[str, float],
    *,
    only: str | None = None,
    expires: float | None = None,
    leave_out: Collection[int] = (),
) -> tuple[int | None, list[tuple[int, str]]]:
    """At most ``n`` items and whom to ask of each, what is worth most for its cost first.

    Items without a label are leased as a batch, whose number comes first (None where all asked for
    are second opinions); it remembers all questions. ``only`` the questions of this annotator are
    taken, until ``expires``.
    """
    if store.form.task != "classes":
        raise InputError(f"Costs need one class an item, and labels are {store.form.task} here.")

    def attempt() -> tuple[int | None, list[tuple[int, str]]]:
        learner = learner_of(store, signed=True)
        left_out = {copy for copy, _ in store.settings.copies}.union(leave_out)
        try:
            asked = choose_questions(learner.state, n, costs, {}, left_out)
        except InputError as error:
            raise NothingAvailableError(str(error)) from None
        asked = [(position, who) for position, who in asked if only in (None, who)]
        new = [(p, None, None) for p, _ in asked if p not in learner.labels]
        if not new:
            return None, asked
        told = {"n_labelled": len(learner.labelled), "costs": dict(costs), "questions": asked}
        setup = learner.setup
        number = store.record_batch(
            setup.strategy, setup.seed, new, told, annotator=only, expires=expires
        )
        return number, asked

    return _again_where_taken(attempt)


def _only(batch: Batch, positions: list[int]) -> Batch:
    """The part of a batch that is at these positions."""
    kept = np.isin(batch.indices, positions)
    return replace(batch, **{name: getattr(batch, name)[kept] for name in _ONE_EACH})


def refresh(
    store: Store,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    *,
    with_pending: bool = True,
    n_candidates: int | None = None,
) -> Report:
    """Compute and store the report and all predictions, so that looking at them needs no model.

    The gain of the next labels is what they add to those that are out, and without them
    (``with_pending``) what they add to the labels there are. It is the gain of the best of at most
    ``n_candidates`` items. The predictions remember the number of the answer that was the last one
    then.
    """
    # Before the labels are read: what comes in between makes the predictions stale.
    answers, features = store.revision()[0], store.settings.features
    learner = learner_of(store, with_pending=with_pending, n_candidates=n_candidates)
    report = learner.report()
    if not with_pending:
        report = replace(report, n_pending=len(assigned_or_skipped(store, learner.labels)))
    # Before the predictions, which take longer where items are many.
    store.save_report(report.to_dict(), len(learner.labelled) + len(store.uncounted()))
    if not learner.state.can_fit:
        return report
    form = store.form
    width = 2 if form.task == NUMBERS else len(form.classes)
    predictions = np.empty((learner.pool.n_rows, width), np.float32)
    model, degree = learner.fitted(), given_degree(learner.state)
    for rows, block in learner.pool.blocks(max(1, _ENTRIES // learner.pool.n_columns)):
        found = raw_predictions(model, learner.setup.preparation(block))
        predictions[rows] = found if degree == 1.0 else sharpened(found, degree)
        progress("predicting", rows.stop, learner.pool.n_rows)
    written = store_features(store.folder, predictions, name="predictions")
    # Last: where it stops in between, the predictions still say that they are older.
    with store.together():
        old = store.settings.predictions
        if store.settings.features == features:
            store.update_settings(
                predictions=PredictionsFile(**asdict(written), answers=answers),
                doubts=find_label_issues(learner, store.classes),
                heard=[(a.name, a.n_answers, *astuple(a.error)) for a in learner.annotators()],
                judged=_judged(learner, store.votes()),
            )
    # The new ones, where items were added or other features made meanwhile.
    remove_matrices(store, old, written)
    return report


def _judged(
    learner: ActiveLearner, votes: Mapping[int, Mapping[str, str]]
) -> list[tuple[int, int, str]]:
    """What different answers come to, as the setting has it: the likeliest of those given."""
    if not learner.annotators():
        return []
    audit, beliefs, found = set(learner.audit.tolist()), learner.consensus(), []
    for position, by in votes.items():
        if len({*by.values()}) > 1 and position in beliefs and position not in audit:
            probs = dict(zip(learner.classes, beliefs[position].tolist(), strict=True))
            found.append((position, len(by), max(by.values(), key=probs.__getitem__)))
    return found


def open_project(folder: str | PathLike[str]) -> ActiveLearner:
    """The learner of the project in ``folder``, as it stands: its items by their ids, its labels.

    It is a copy. Telling it labels, or asking it, changes the copy alone: nothing is written to the
    project, and labels that the project gets later do not appear here. To give labels to the
    project itself use ``parbals tell`` or the page.
    """
    with Store.open(Path(folder), read_only=True) as store:
        learner = learner_of(store)
        learner.name_items([item.id for item in store.iter_items()])
    return learner
