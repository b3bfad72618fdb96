"""The model of a project: a learner with its labels, its report and its predictions.

A learner is built from the project file whenever it is needed (:func:`learner_of`); the file is the
only state. :func:`refresh` stores report and predictions so that pages and commands can show them
without a model. :mod:`parbals_label.project.choose` chooses the next items to label.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from parbals.learner.active import ActiveLearner
from parbals.learner.annotators.fit import Annotator
from parbals.learner.evaluation.expectation import temperature_scaled
from parbals.learner.evaluation.report import Report
from parbals.learner.reporting import prediction_temperature
from parbals.wording import PROGRAM_PREFIX

from parbals_label.answer_form import NUMBERS
from parbals_label.project.confidence import split_by_confidence
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
from parbals_label.project.measured import held_back_positions
from parbals_label.project.predicted import raw_predictions
from parbals_label.project.sample_answers import counted_labels, divided_positions
from parbals_label.project.stored_predictions import weights_record
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

__all__ = ["assigned_or_skipped", "learner_of", "open_project", "refresh"]

_BLOCK_ENTRIES = 2**22
"""Entries of the feature matrix that are read and predicted at a time: at most 32 MB."""


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
        model_single_annotator: fit annotator errors even if there is a single annotator. A program
            alone is not taken at its word in any case.
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
        audit_excluded=settings.audit_excluded,
        find=settings.find,
        X_target=_target_features(store),
        **arguments,
    )
    labels = _trusted_labels(store)
    answers = store.current_labels()
    has_programs = any(
        name.startswith(PROGRAM_PREFIX)
        for by_annotator in answers.values()
        for name in by_annotator
    )
    min_annotators: float = 2 if models_annotators else np.inf
    if model_single_annotator or has_programs:
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
        held_back = held_back_positions(store) - labels.keys()
        held_back |= divided_positions(store, settings.audit)
        pending = {**dict.fromkeys(assigned_or_skipped(store, labels)), **dict.fromkeys(held_back)}
        # Items of target sets never train, so no choice is made as if they were labelled.
        not_pending = replaceable.union(settings.target_items)
        learner.mark_pending([position for position in pending if position not in not_pending])
    return learner


def _target_features(store: Store) -> np.ndarray | None:
    """The features (M, D) of the target set, None where there is none."""
    if store.settings.target is None:
        return None
    from parbals_label.project.target import target_features  # reads files of every format

    return target_features(store)


def _trusted_labels(store: Store) -> dict[int, str]:
    """Position → consensus label, without items of target sets or of a sample that is not complete.

    Labels of audit items are those that count.
    """
    labels = aggregate_labels(store.votes(), store.form)
    audit = store.settings.audit
    for position in (*audit, *held_back_positions(store), *store.settings.target_items):
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


def assigned_or_skipped(store: Store, labels: Collection[int] | None = None) -> list[int]:
    """Positions that are assigned or skipped and have no label.

    An item that waits for a second opinion has a label, so it is not among them. ``labels`` are the
    labelled positions, if the caller knows them.
    """
    labelled = store.votes() if labels is None else labels
    unavailable = dict.fromkeys([*store.pending(), *store.passes()])
    return [position for position in unavailable if position not in labelled]


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
    # The learner does not see labels of a sample that is not complete, nor those of audit items
    # that do not count or differ.
    unseen = held_back_positions(store).intersection(store.labelled())
    unseen |= store.audit_labelled_by_programs()
    unseen |= divided_positions(store, store.settings.audit)
    unseen |= set(store.labelled()).intersection(store.settings.target_items)
    n_labels = len(unseen.union(learner.labelled.tolist()))
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
                predictions=PredictionsFile(
                    **asdict(written), answers=last_answer, **weights_record(learner)
                ),
                doubts=find_label_issues(learner, store.classes),
                heard=[_stored_error(annotator) for annotator in annotators],
                judged=_model_consensus(learner, store.votes()),
            )
    # Removes the old file; or the new one, if items were added or features replaced meanwhile.
    remove_matrices(store, previous, written)
    return report


def _stored_error(annotator: Annotator) -> tuple[Any, ...]:
    """An annotator's error rate as the settings store it."""
    error = annotator.error
    return (
        annotator.name,
        annotator.n_answers,
        error.mean if error.known else None,
        error.low,
        error.high,
        annotator.n_checked,
        annotator.same_mistakes_as,
    )


def _predict_pool(learner: ActiveLearner, progress: Callable[[str, int, int], None]) -> np.ndarray:
    """Predictions of all items as they are stored, float32 (N, C); (N, 2) for regression."""
    pool = learner.pool
    width = 2 if learner.task == NUMBERS else len(learner.classes)
    predictions = np.empty((pool.n_rows, width), np.float32)
    model = learner.fitted()
    temperature = prediction_temperature(learner.state)
    for rows, block in pool.blocks(max(1, _BLOCK_ENTRIES // pool.n_columns)):
        values = raw_predictions(model, learner.setup.prepared(block))
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
        learner.mark_pending(store.settings.target_items)  # they measure: nobody trains on them
        learner.name_items([item.id for item in store.iter_items()])
    return learner
