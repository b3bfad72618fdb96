"""The rows of an export: items with their labels, votes and predictions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import consensus_labels
from parbals_label.project.features import predictions_of
from parbals_label.project.measured import unlabelled_measured_positions
from parbals_label.project.predicted import PREDICTED, predicted_columns, predicted_records
from parbals_label.project.stored_predictions import decision_rule_of
from parbals_label.store.store import Store

__all__ = ["export_columns", "export_records"]

_TEST_COLUMN = "test_item"
"""Whether an item belongs to a sample that is kept."""
_EXPORT_COLUMNS = ("id", "label", "annotators", "votes", "agreement")
"""Columns that every export adds to those of the items."""


def export_columns(store: Store) -> list[str]:
    """Names of the columns of :func:`export_records`.

    id, the items' columns, label, annotators, votes (labels and how many gave them, such as
    spam:2;ham:1), agreement (the share of the most frequent one), test_item (whether it belongs to
    a sample that is kept), the prediction, and the probability of each class; an item that is being
    measured, or that could not be read, has no prediction. A duplicate text has the label of the
    first one, and ``copy of`` its id as annotator.
    """
    settings = store.settings
    added = _added_columns(store)
    item_columns = [f"item.{name}" if name in added else name for name in settings.columns]
    predicted = predicted_columns(_predicted_form(store)) if settings.predictions else []
    return ["id", *item_columns, *added[1:], *predicted[1:]]


def export_records(store: Store, labelled_only: bool = False) -> Iterator[dict[str, Any]]:
    """One record for every item, in order."""
    form = store.form
    predicted_form = _predicted_form(store)
    added = _added_columns(store)
    audit = frozenset(store.settings.audit)
    answers = store.current_labels()
    votes = store.votes(decided=False)
    labels = consensus_labels(store)
    first_ids = _first_ids(store, labels)
    labels |= {
        duplicate: labels[first]
        for duplicate, first in store.settings.copies
        if duplicate in first_ids
    }
    predictions = predictions_of(store)
    decision_rule = None if predictions is None else decision_rule_of(store, predictions)
    hidden = unlabelled_measured_positions(store).union(store.settings.unreadable)
    no_prediction = dict.fromkeys(predicted_columns(predicted_form))
    for item in store.iter_items():
        position = item.position
        if labelled_only and position not in labels:
            continue
        annotators = ";".join(answers.get(position, {}))
        if position in first_ids:
            annotators = f"copy of {first_ids[position]}"
        item_labels = [*votes.get(position, {}).values()]
        record = {
            "id": item.id,
            **{f"item.{k}" if k in added else k: v for k, v in item.content.items()},
            "label": form.plain(labels[position]) if position in labels else None,
            "annotators": annotators,
            "votes": _votes_text(form, item_labels),
            "agreement": _majority_share(item_labels),
        }
        if audit:
            record[_TEST_COLUMN] = position in audit
        if predictions is not None:
            record |= no_prediction
        if predictions is not None and position not in hidden:
            row = predictions[position][None]
            record |= predicted_records(predicted_form, row, decision_rule)[0]
        yield record


def _first_ids(store: Store, labels: Mapping[int, str]) -> dict[int, str]:
    """Unlabelled duplicate → id of the first item, where that has a label."""
    firsts = {
        duplicate: first
        for duplicate, first in store.settings.copies
        if first in labels and duplicate not in labels
    }
    ids = [item.id for item in store.items(list(firsts.values()))]
    return dict(zip(firsts, ids, strict=True))


def _votes_text(form: AnswerForm, labels: list[str]) -> str:
    """Labels and how many gave them, such as spam:2;ham:1."""
    votes = Counter(name for label in labels for name in form.names(label) or [label])
    return ";".join(f"{name}:{n}" for name, n in votes.most_common())


def _majority_share(labels: list[str]) -> float | None:
    """The share of the most frequent label; None without labels."""
    if not labels:
        return None
    return round(max(Counter(labels).values()) / len(labels), 4)


def _added_columns(store: Store) -> tuple[str, ...]:
    """Columns of an export that are not the items'."""
    columns = list(_EXPORT_COLUMNS)
    if store.settings.audit:
        columns.append(_TEST_COLUMN)
    if store.settings.predictions:
        columns.append(PREDICTED)
    return tuple(columns)


def _predicted_form(store: Store) -> AnswerForm:
    """The classes that stored predictions have: a class that was added later has none."""
    stored = store.settings.predictions
    form = store.form
    return replace(form, classes=() if stored is None else form.classes[: stored.shape[1]])
