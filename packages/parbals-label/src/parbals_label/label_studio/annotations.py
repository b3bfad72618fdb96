"""Annotations become answers: the same however often, and in whatever order, they are heard of.

Every stored answer carries the annotation's number and the moment of its last change as request id,
so hearing of it again changes nothing. A changed annotation is a revision, a deleted one is a
withdrawal, a skipped task is a pass; the labels of a task that was deleted stay.
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
from parbals_label.store.people import check_name
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

__all__ = ["Heard", "record_annotations"]

_PREFIX = "label-studio"
_EMAIL = re.compile(r"(\S+@\S+), \d+\s*$")
_NUMBERED = re.compile(r"label-studio user \d{1,18}")
"""Somebody whose address the server does not tell."""
_TYPES = ("choices", "number", "rating")


@dataclass
class Heard:
    """What annotations changed, and sentences about those that cannot be used."""

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
    heard: Heard,
) -> None:
    """Store what all annotations of one task say, the latest of each person.

    ``uid`` is the Label Studio project's. Labels from there whose annotation is gone are withdrawn.
    """
    latest: dict[str, Mapping[str, Any]] = {}
    for annotation in annotations:
        if isinstance(annotation, Mapping) and isinstance(annotation.get("id"), int):
            who = _annotator(annotation)
            before = latest.get(who)
            if before is None or _moment(annotation) >= _moment(before):
                latest[who] = annotation
    gone = _holders(store, uid, position)
    for who, annotation in latest.items():
        request = f"{_PREFIX}:{uid}:{annotation['id']}:{_moment(annotation)}:{who}"
        try:
            if _NUMBERED.fullmatch(who) is None:
                check_name(who)
            if annotation.get("was_cancelled"):
                if who in gone:
                    heard.withdrawn += store.undo_labels([position], annotator=who)
                    gone.remove(who)
                outcome = store.pass_over(position, "skip", annotator=who, request_id=request)
                heard.passed += outcome == "new"
            elif (label := _label(store, interface, position, annotation, heard)) is not None:
                gone.discard(who)
                submission = Submission(position, label, request_id=request, revise=True)
                stored = store.submit([submission], annotator=who)
                heard.labels += stored.new
                heard.revised += stored.revised
        except InputError as error:
            heard.notes.append(f"Not stored: {error}")
            gone.discard(who)
    for who in gone:
        heard.withdrawn += store.undo_labels([position], annotator=who)


def _moment(annotation: Mapping[str, Any]) -> str:
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _holders(store: Store, uid: str, position: int) -> set[str]:
    """Who holds a label of the item that came from this Label Studio project."""
    last = {answer.annotator: answer for answer in store.history(position)}
    return {
        who
        for who, answer in last.items()
        if answer.label is not None
        and answer.request is not None
        and answer.request.startswith(f"{_PREFIX}:{uid}:")
    }


def _label(
    store: Store, interface: Interface, position: int, annotation: Mapping[str, Any], heard: Heard
) -> str | None:
    # An annotation outlives changes of the interface: its control may be called otherwise now, and
    # its choice may be gone.
    chosen = _choices(annotation, interface.control) or _choices(annotation)
    meant = {choice: name for name, choice in interface.choices.items()}
    chosen = [meant.get(choice, choice) for choice in chosen]
    form = store.form
    if len(chosen) == 1 or form.task == MANY:
        with suppress(LabelError):
            given = chosen if form.task == MANY else chosen[0]
            return Classes(form.classes, store.former_classes).read(form, given, "")
    name = short(store.items([position])[0].id)
    words = "nothing" if not chosen else f"{len(chosen)} classes; one is needed"
    if len(chosen) == 1 or form.task == MANY:
        words = (
            f"{short(', '.join(chosen))}, which is not a class of this project; `parbals edit "
            f"{store.folder} --add-class` adds it, and the label is taken then"
        )
    heard.notes.append(f"Left aside: annotation {annotation['id']} (item {name}) chooses {words}.")
    return None


def _choices(annotation: Mapping[str, Any], control: str | None = None) -> list[str]:
    """What was chosen in an annotation, by the control of that name or by any."""
    result = annotation.get("result")
    chosen: dict[str, None] = {}
    for region in result if isinstance(result, list) else ():
        if not isinstance(region, Mapping) or region.get("type") not in _TYPES:
            continue
        if control is not None and region.get("from_name") != control:
            continue
        value = region.get("value")
        given = value.get(region["type"]) if isinstance(value, Mapping) else None
        given = [str(given)] if isinstance(given, int | float) else given
        chosen |= dict.fromkeys(c for c in given or () if isinstance(c, str))
    return list(chosen)


def _annotator(annotation: Mapping[str, Any]) -> str:
    """Who annotated: the address where the record tells it, else a number.

    Some answers of the server hold the whole user, some "Kim Lee kim@example.com, 7", and some 7.
    """
    who = annotation.get("completed_by")
    if isinstance(who, Mapping):
        email, who = who.get("email"), who.get("id")
        if isinstance(email, str) and email.strip():
            return email.strip()
    named = _EMAIL.search(str(annotation.get("created_username") or ""))
    if named:
        return named[1]
    number = who if isinstance(who, int) and not isinstance(who, bool) else 0
    return f"label-studio user {number}"
