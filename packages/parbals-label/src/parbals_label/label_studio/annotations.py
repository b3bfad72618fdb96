"""Store annotations as answers: idempotent, and independent of the order in which they are read.

Every stored answer has the annotation's number and the time of its last change as request id, so
reading it again changes nothing. A changed annotation is a revision, a deleted one undoes the
label, a skipped task skips the item; the labels of a deleted task stay.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from parbals.errors import InputError, LabelError

from parbals_label.answer_form import MANY
from parbals_label.label_studio.interface import Interface
from parbals_label.readers.answers import Classes
from parbals_label.readers.source import short
from parbals_label.store.names import check_name
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

__all__ = ["AnnotationCounts", "record_annotations"]

_PREFIX = "label-studio"
_EMAIL = re.compile(r"(\S+@\S+), \d+\s*$")
_NUMBERED = re.compile(r"label-studio user \d{1,18}")
"""A user whose email address the server does not report."""
_TYPES = ("choices", "number", "rating")


@dataclass
class AnnotationCounts:
    """Changes by annotations.

    Attributes:
        labels: new labels.
        revised: labels that changed.
        withdrawn: labels that were undone.
        passed: skipped items.
        notes: sentences about annotations that cannot be used.
    """

    labels: int = 0
    revised: int = 0
    withdrawn: int = 0
    passed: int = 0
    notes: list[str] = field(default_factory=list)


def record_annotations(
    store: Store,
    interface: Interface,
    uid: str,
    position: int,
    annotations: Iterable[Any],
    counts: AnnotationCounts,
) -> None:
    """Store the latest annotation of each person for one task.

    ``uid`` identifies the Label Studio project. Labels from there whose annotation was deleted are
    undone.
    """
    deleted = _label_holders(store, uid, position)
    for annotator, annotation in _latest_by_annotator(annotations).items():
        request = f"{_PREFIX}:{uid}:{annotation['id']}:{_changed_at(annotation)}:{annotator}"
        try:
            if _NUMBERED.fullmatch(annotator) is None:
                _check_address(annotator)
            if annotation.get("was_cancelled"):
                if annotator in deleted:
                    counts.withdrawn += store.undo_labels([position], annotator=annotator)
                    deleted.remove(annotator)
                outcome = store.pass_over(position, "skip", annotator=annotator, request_id=request)
                counts.passed += outcome == "new"
                continue
            label = _label(store, interface, position, annotation, counts)
            if label is not None:
                deleted.discard(annotator)
                submission = Submission(position, label, request_id=request, revise=True)
                stored = store.submit([submission], annotator=annotator)
                counts.labels += stored.new
                counts.revised += stored.revised
        except InputError as error:
            counts.notes.append(f"Not stored: {error}")
            deleted.discard(annotator)
    for annotator in deleted:
        counts.withdrawn += store.undo_labels([position], annotator=annotator)


def _check_address(annotator: str) -> None:
    """Refuse names that nobody may have, and those that may be of somebody in the project."""
    check_name(annotator)
    if "@" not in annotator:
        raise InputError(
            f"Label Studio gives an annotator the email address {short(annotator)}, which is none; "
            "somebody else in the project may have this name."
        )


def _latest_by_annotator(annotations: Iterable[Any]) -> dict[str, Mapping[str, Any]]:
    """Annotator → their latest annotation; what is no annotation is ignored."""
    latest: dict[str, Mapping[str, Any]] = {}
    for annotation in annotations:
        if isinstance(annotation, Mapping) and isinstance(annotation.get("id"), int):
            annotator = _annotator(annotation)
            previous = latest.get(annotator)
            if previous is None or _changed_at(annotation) >= _changed_at(previous):
                latest[annotator] = annotation
    return latest


def _changed_at(annotation: Mapping[str, Any]) -> str:
    """The time of the last change, as the server writes it."""
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _label_holders(store: Store, uid: str, position: int) -> set[str]:
    """Annotators whose current label of the item came from this Label Studio project."""
    latest = {answer.annotator: answer for answer in store.history(position)}
    return {
        annotator
        for annotator, answer in latest.items()
        if answer.label is not None
        and answer.request is not None
        and answer.request.startswith(f"{_PREFIX}:{uid}:")
    }


def _label(
    store: Store,
    interface: Interface,
    position: int,
    annotation: Mapping[str, Any],
    counts: AnnotationCounts,
) -> str | None:
    """The label of an annotation; None, and a note, if it has none of this project."""
    # An annotation may be older than the interface: its control may have been renamed, and its
    # choice removed.
    choices = _choices(annotation, interface.control) or _choices(annotation)
    class_of_choice = {choice: name for name, choice in interface.choices.items()}
    names = [class_of_choice.get(choice, choice) for choice in choices]
    form = store.form
    has_valid_count = len(names) == 1 or form.task == MANY
    if has_valid_count:
        with suppress(LabelError):
            cell = names if form.task == MANY else names[0]
            return Classes(form.classes, store.former_classes).read(form, cell, "")
    item = short(store.items([position])[0].id)
    problem = f"{len(names)} classes; one is needed" if names else "nothing"
    if has_valid_count:
        problem = (
            f"{short(', '.join(names))}, which is not a class of this project; `parbals edit "
            f"{store.folder} --add-class` adds it, and the label is taken then"
        )
    counts.notes.append(f"Ignored: annotation {annotation['id']} (item {item}) chooses {problem}.")
    return None


def _choices(annotation: Mapping[str, Any], control: str | None = None) -> list[str]:
    """The choices of an annotation, made with the control of that name or with any."""
    result = annotation.get("result")
    choices: dict[str, None] = {}
    for region in result if isinstance(result, list) else ():
        if not isinstance(region, Mapping) or region.get("type") not in _TYPES:
            continue
        if control is not None and region.get("from_name") != control:
            continue
        value = region.get("value")
        selected = value.get(region["type"]) if isinstance(value, Mapping) else None
        if isinstance(selected, int | float):
            selected = [str(selected)]
        choices |= dict.fromkeys(choice for choice in selected or () if isinstance(choice, str))
    return list(choices)


def _annotator(annotation: Mapping[str, Any]) -> str:
    """The annotator's email address where the record has it, else a number.
    Some answers of the server hold the whole user, some "Kim Lee kim@example.com, 7", and some 7.
    """
    user = annotation.get("completed_by")
    number = user
    if isinstance(user, Mapping):
        number = user.get("id")
        email = user.get("email")
        if isinstance(email, str) and email.strip():
            return email.strip()
    match = _EMAIL.search(str(annotation.get("created_username") or ""))
    if match:
        return match[1]
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return f"label-studio user {number if is_number else 0}"
