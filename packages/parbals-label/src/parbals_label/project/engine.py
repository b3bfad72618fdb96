"""The model of a project: choose the next items to label, report, and predict.

A learner is built from the project file whenever it is needed (:func:`learner_of`); the file is the
only state. Choices are recorded as batches (:func:`choose_batch`, :func:`choose_by_cost`), and
:func:`refresh` stores report and predictions so that pages and commands can show them without a
model.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, astuple, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from parbals.errors import InputError
from parbals.learner.active import ActiveLearner
from parbals.learner.choosing import choose_questions
from parbals.learner.evaluation.certify import CERTIFY
from parbals.learner.evaluation.expectation import temperature_scaled
from parbals.learner.evaluation.report import Report
from parbals.learner.reporting import prediction_temperature
from parbals.types import Batch
from parbals.wording import PROGRAM_PREFIX

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
from parbals_label.project.samples import counted_labels
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

__all__ = [
    "NothingAvailableError",
    "assigned_or_skipped",
    "choose_batch",
    "choose_by_cost",
    "learner_of",
    "open_project",
    "refresh",
    "split_by_confidence",
]

_BLOCK_ENTRIES = 2**22
"""Entries of the feature matrix that are read and predicted at a time: at most 32 MB."""
_T = TypeVar("_T")
_MAX_ATTEMPTS = 20
"""Attempts to choose a batch while others take some of its items."""
_PER_ITEM_FIELDS = ("indices", "scores", "initial_scores", "effective_sample_size", "n_exact")
"""Fields of a batch that have one entry for each item."""
_MIN_CHECKED_ANSWERS = 20
"""Answers of a program that people must have checked before its confidence is used."""
_MIN_Z = 1.64
"""Standard errors by which the correlation of accuracy and confidence must exceed 0: one-sided,
95 %."""
_CONFIDENCE_THIRDS = ("least sure", "surer", "surest")


def learner_of(
    store: Store,
    *,
    with_pending: bool = True,
    n_candidates: int | None = None,
    replaces: Collection[str] = (),
    model_single_annotator: bool = False,
    models_annotators: bool = True,
    changes: Mapping[str, Any] | None = None,
) -> ActiveLearner:
    """Build a learner from the project's features, labels and pending items.

    Args:
        store: the project.
        with_pending: mark items that are assigned or skipped as pending, so that they are not
            chosen.
        n_candidates: see :class:`ActiveLearner`.
        replaces: strategies whose unopened items in the queue may be chosen again.
        model_single_annotator: fit annotator errors even if there is a single annotator.
        models_annotators: fit annotator errors if there are several annotators. False saves two of
            three fits, but is ignored if a program has answered.
        changes: arguments of the learner in place of the project's, such as ``n_universes``.
    """
    settings = store.settings
    form = store.form
    arguments = {
        "held_out": held_out_of(store),
        **class_information_of(store),
        **(changes or {}),
    }
    learner = ActiveLearner(
        features_of(store),
        form.classes or None,
        task=form.task,
        strategy=settings.strategy,
        random_state=settings.seed,
        n_samples=settings.n_samples,
        prior_scale=prior_scale_of(settings, adapted=is_adapted(settings.encoder)),
        metric=metric_of(settings.loss),
        checked=True,
        n_candidates=n_candidates,
        audit=settings.audit,
        find=settings.find,
        **arguments,
    )
    labels = _trusted_labels(store)
    answers = store.current_labels()
    has_programs = any(
        name.startswith(PROGRAM_PREFIX)
        for by_annotator in answers.values()
        for name in by_annotator
    )
    min_annotators: float = 2 if models_annotators or has_programs else np.inf
    if model_single_annotator:
        min_annotators = 1
    _tell_labels(
        learner,
        # In the order of arrival: an evaluation of the audit uses the earliest labels.
        [position for position in store.answered() if position in labels],
        {position: form.plain(label) for position, label in labels.items()},
        answers,
        # For questions that are still to be asked, annotators are not split by confidence: the
        # answer has none yet.
        {} if model_single_annotator else store.confidences(),
        min_annotators=min_annotators,
    )
    if with_pending:
        replaceable = {
            position
            for strategy, positions in store.unopened().items()
            if strategy in replaces
            for position in positions
        }
        pending = assigned_or_skipped(store, labels)
        learner.mark_pending([position for position in pending if position not in replaceable])
    return learner


def _trusted_labels(store: Store) -> dict[int, str]:
    """Position → consensus label; of audit items only from answers that count."""
    labels = aggregate_labels(store.votes(), store.form)
    audit = store.settings.audit
    for position in audit:
        labels.pop(position, None)
    return labels | counted_labels(store, audit)


def _tell_labels(
    learner: ActiveLearner,
    positions: list[int],
    labels: Mapping[int, Any],
    answers: Mapping[int, Mapping[str, str]],
    confidences: Mapping[tuple[int, str], float],
    *,
    min_annotators: float,
) -> None:
    """Tell the learner labels, with their annotators if at least ``min_annotators`` gave them.

    What people say about an audit item is told as its true label, without annotators. Programs'
    answers to it are told as theirs, so that the learner sees how often they are right.
    """
    audit = set(learner.audit.tolist())
    annotators = {
        name for position in positions if position not in audit for name in answers[position]
    }
    if len(annotators) < min_annotators or learner.task != "classes":
        learner.tell(positions, [labels[position] for position in positions])
        return
    labelled_by_people = {
        position
        for position in positions
        if any(not name.startswith(PROGRAM_PREFIX) for name in answers[position])
    }
    is_right = {
        (position, name): answers[position][name] == labels[position]
        for position, name in confidences
        if position in labelled_by_people - audit
    }
    aliases = split_by_confidence(confidences, is_right)
    for position in positions:
        label_by_annotator = {
            aliases.get((position, name), name): label for name, label in answers[position].items()
        }
        if position in audit:
            learner.tell(position, labels[position])
        for name, label in label_by_annotator.items():
            if position not in audit or name.startswith(PROGRAM_PREFIX):
                learner.tell(position, label, annotator=name)


def split_by_confidence(
    confidences: Mapping[tuple[int, str], float], is_right: Mapping[tuple[int, str], bool]
) -> dict[tuple[int, str], str]:
    """Split a program's answers into thirds by confidence: (position, program) → name of the third.

    The learner treats each third as an annotator. A program is split only when the answers that
    people have checked (``is_right``) show, beyond chance, that it is right more often where it is
    more confident. The answers of other programs are not in the result.

    >>> confidences = {(i, "bot"): i / 40 for i in range(40)}
    >>> names = split_by_confidence(confidences, {key: key[0] > 20 for key in confidences})
    >>> names[0, "bot"], names[39, "bot"]
    ('bot, least sure', 'bot, surest')
    >>> split_by_confidence(confidences, {})
    {}
    """
    aliases: dict[tuple[int, str], str] = {}
    for program in {name for _, name in confidences}:
        by_position = {
            position: value for (position, name), value in confidences.items() if name == program
        }
        checked = [
            (value, is_right[position, program])
            for position, value in by_position.items()
            if (position, program) in is_right
        ]
        if not _is_informative(checked):
            continue
        cuts = np.quantile([*by_position.values()], [1 / 3, 2 / 3])
        for position, value in by_position.items():
            third = _CONFIDENCE_THIRDS[int(np.searchsorted(cuts, value))]
            aliases[position, program] = f"{program}, {third}"
    return aliases


def _is_informative(checked: list[tuple[float, bool]]) -> bool:
    """Whether accuracy increases with confidence beyond chance, in pairs (confidence, is right)."""
    if len(checked) < _MIN_CHECKED_ANSWERS:
        return False
    is_constant = any(len(set(values)) == 1 for values in zip(*checked, strict=True))
    if is_constant:
        return False
    correlation = np.corrcoef(np.transpose(checked))[0, 1]
    return bool(correlation * np.sqrt(len(checked)) > _MIN_Z)


def assigned_or_skipped(store: Store, labels: Collection[int] | None = None) -> list[int]:
    """Positions that are assigned or skipped and have no label.

    An item that waits for a second opinion has a label, so it is not among them. ``labels`` are the
    labelled positions, if the caller knows them.
    """
    labelled = store.votes() if labels is None else labels
    unavailable = dict.fromkeys([*store.pending(), *store.passes()])
    return [position for position in unavailable if position not in labelled]


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
        return learner, _availability(learner, _duplicates(store).union(leave_out))

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


def _duplicates(store: Store) -> set[int]:
    """Positions of items whose text repeats that of an earlier item."""
    return {duplicate for duplicate, _ in store.settings.copies}


def _availability(learner: ActiveLearner, leave_out: Collection[int]) -> _Availability:
    unavailable = {*learner.labelled.tolist(), *learner.pending}
    excluded = set(leave_out) - unavailable
    is_free = learner.state.is_free()
    is_free[learner.setup.audit_duplicates] = False  # the learner does not choose these
    is_free[sorted(excluded)] = False  # some may be duplicates of audit items as well
    return _Availability(excluded, int(is_free.sum()))


def _too_few_available(n: int, learner: ActiveLearner, availability: _Availability) -> InputError:
    """The error for a request of more items than there are."""
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
        excluded = _duplicates(store).union(leave_out)
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


def refresh(
    store: Store,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    *,
    with_pending: bool = True,
    n_candidates: int | None = None,
) -> Report:
    """Compute and store the report and all predictions, so that showing them needs no model.

    Args:
        store: the project.
        progress: called with the stage, and how much of it is done.
        with_pending: estimate the gain of the next labels as if the assigned and skipped items were
            already labelled; otherwise from the labels that exist.
        n_candidates: at most so many items are considered for the next labels.
    """
    # Read before the labels: predictions count as stale if an answer arrives meanwhile.
    last_answer = store.revision()[0]
    features = store.settings.features
    learner = learner_of(store, with_pending=with_pending, n_candidates=n_candidates)
    report = learner.report()
    if not with_pending:
        report = replace(report, n_pending=len(assigned_or_skipped(store, learner.labels)))
    # The report is stored before the predictions, which take long for many items.
    # Audit items that only programs have labelled count as labels; the learner does not see them.
    n_labels = len(learner.labelled) + len(store.audit_labelled_by_programs())
    store.save_report(report.to_dict(), n_labels)
    if not learner.state.can_fit:
        return report
    predictions = _predict_pool(learner, progress)
    written = store_features(store.folder, predictions, name="predictions")
    # The settings change last: until then they name the old predictions, which are known to be
    # stale.
    with store.transaction():
        previous = store.settings.predictions
        if store.settings.features == features:
            annotators = learner.annotators()
            store.update_settings(
                predictions=PredictionsFile(**asdict(written), answers=last_answer),
                doubts=find_label_issues(learner, store.classes),
                heard=[(a.name, a.n_answers, *astuple(a.error)) for a in annotators],
                judged=_model_consensus(learner, store.votes()),
            )
    # Removes the old file; or the new one, if items were added or features replaced meanwhile.
    remove_matrices(store, previous, written)
    return report


def _predict_pool(learner: ActiveLearner, progress: Callable[[str, int, int], None]) -> np.ndarray:
    """Predictions of all items as they are stored, float32 (N, C); (N, 2) for regression."""
    pool = learner.pool
    width = 2 if learner.task == NUMBERS else len(learner.classes)
    predictions = np.empty((pool.n_rows, width), np.float32)
    model = learner.fitted()
    temperature = prediction_temperature(learner.state)
    for rows, block in pool.blocks(max(1, _BLOCK_ENTRIES // pool.n_columns)):
        values = raw_predictions(model, learner.setup.preparation(block))
        predictions[rows] = (
            values if temperature == 1.0 else temperature_scaled(values, temperature)
        )
        progress("predicting", rows.stop, pool.n_rows)
    return predictions


def _model_consensus(
    learner: ActiveLearner, votes: Mapping[int, Mapping[str, str]]
) -> list[tuple[int, int, str]]:
    """(position, number of answers, likeliest answer) of items on which annotators disagree."""
    if not learner.annotators():
        return []
    audit = set(learner.audit.tolist())
    class_probs = learner.consensus()
    consensus = []
    for position, by_annotator in votes.items():
        labels = by_annotator.values()
        if len(set(labels)) > 1 and position in class_probs and position not in audit:
            probs = dict(zip(learner.classes, class_probs[position].tolist(), strict=True))
            likeliest = max(labels, key=probs.__getitem__)
            consensus.append((position, len(by_annotator), likeliest))
    return consensus


def open_project(folder: str | PathLike[str]) -> ActiveLearner:
    """Load a project as a learner, with its labels; items are named by their ids.

    The learner is a copy: telling it labels or asking it changes nothing in the project, and labels
    that the project gets later do not appear in it. To add labels to the project use ``parbals
    tell`` or the labelling page.
    """
    with Store.open(Path(folder), read_only=True) as store:
        learner = learner_of(store)
        learner.name_items([item.id for item in store.iter_items()])
    return learner
