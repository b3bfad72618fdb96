"""Tasks of Label Studio, seen as rows: an id, the item's columns, its labels."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from parbals_label.readers.source import Annotated

__all__ = ["ANNOTATORS", "ITEM", "PROJECT", "annotator_of", "choices_of", "is_task", "read_task"]
__all__ += ["task_columns"]

ITEM, PROJECT = "parbals_item", "parbals_project"
"""Keys of a task's data: which item of which parbals project it is."""
ANNOTATORS = "parbals_annotators"
"""In files of ours: the names of those whose annotations these are, in order."""
_TASK_KEYS = frozenset(["id", "data", "meta"])
_EMAIL = re.compile(r"(\S+@\S+), \d+\s*$")


def is_task(record: Mapping[str, Any]) -> bool:
    """Whether an object is a task: data, and what is known about it."""
    known = isinstance(record.get("annotations"), list) or isinstance(
        record.get("predictions"), list
    )
    return isinstance(record.get("data"), Mapping) and (known or set(record) <= _TASK_KEYS)


def read_task(record: Mapping[str, Any]) -> Annotated:
    """A task's data without what parbals wrote into it, and the choices of its annotations.

    It is named by the item it was made of, else by its own number.
    """
    data = record["data"]
    name = data.get(ITEM, record.get("id"))
    labels: list[tuple[str | None, str]] = []
    given, listed = record.get("annotations"), data.get(ANNOTATORS)
    annotations = [a for a in given if isinstance(a, Mapping)] if isinstance(given, list) else []
    names = listed if isinstance(listed, list) and len(listed) == len(annotations) else []
    for place, annotation in enumerate(annotations):
        chosen = [] if annotation.get("was_cancelled") else choices_of(annotation)
        if len(chosen) != 1:
            continue
        who = str(names[place]) if names else None
        if annotation.get("completed_by") is not None and who is None:
            who = annotator_of(annotation)
        labels.append((who, chosen[0]))
    content = {key: value for key, value in data.items() if not key.startswith("parbals_")}
    return Annotated(None if name is None else str(name), content, labels)


def choices_of(annotation: Any, control: str | None = None) -> list[str]:
    """What was chosen in an annotation or prediction, by the control of that name or by any."""
    result = annotation.get("result") if isinstance(annotation, Mapping) else None
    chosen: dict[str, None] = {}
    for region in result if isinstance(result, list) else ():
        if not isinstance(region, Mapping) or region.get("type") != "choices":
            continue
        if control is not None and region.get("from_name") != control:
            continue
        value = region.get("value")
        given = value.get("choices") if isinstance(value, Mapping) else None
        chosen |= dict.fromkeys(c for c in given or () if isinstance(c, str))
    return list(chosen)


def annotator_of(annotation: Mapping[str, Any]) -> str:
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


def task_columns(task: Annotated) -> dict[str, Any]:
    """Columns: ``id``, the item's own, and ``label``, which most annotators give.

    Of two equally frequent ones, the first. The item's own ``id`` and ``label`` are called
    ``item.id`` and ``item.label``.
    """
    own = {f"item.{k}" if k in ("id", "label") else k: v for k, v in task.content.items()}
    counts = Counter(label for _, label in task.labels)
    label = counts.most_common(1)[0][0] if counts else None
    named = {} if task.id is None else {"id": task.id}
    return {**named, **own, "label": label}
