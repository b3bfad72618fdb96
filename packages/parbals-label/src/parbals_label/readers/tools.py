"""Records of other labelling tools, seen as rows: an id, the item's columns, its labels.

Which tool wrote a file is told by its first record.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parbals_label.readers.source import Annotated

__all__ = ["ANNOTATORS", "COPIES", "ITEM", "PROJECT", "Tool", "annotator_of", "choices_of", "flat"]
__all__ += ["tool_of"]

ITEM, PROJECT = "parbals_item", "parbals_project"
"""Keys of a task's data: which item of which parbals project it is."""
ANNOTATORS = "parbals_annotators"
"""In files of ours: the names of those whose annotations these are, in order."""
_TASK_KEYS = frozenset(["id", "data", "meta"])
_EMAIL = re.compile(r"(\S+@\S+), \d+\s*$")
COPIES = {"text": "_text_from", "image": "_image_from"}
"""In files of ours for Prodigy, which shows only these: the columns that one of them repeats."""
_PRODIGY_ANSWERS = ("accept", "reject", "ignore")
_PRODIGY_KEYS = ("accept", "answer", "label", "meta", "options", "score", "spans", "tokens", "html")
_ARGILLA_QUESTION = "label"


@dataclass(frozen=True)
class Tool:
    """A labelling tool's way to write a record."""

    title: str
    is_record: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any]], Annotated]


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _is_label_studio(record: Mapping[str, Any]) -> bool:
    """Whether it is a task: an object of data, and what is known about it."""
    known = isinstance(record.get("annotations"), list) or isinstance(
        record.get("predictions"), list
    )
    return isinstance(record.get("data"), Mapping) and (known or set(record) <= _TASK_KEYS)


def _read_label_studio(record: Mapping[str, Any]) -> Annotated:
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


def annotator_of(annotation: Mapping[str, Any], people: Mapping[int, str] | None = None) -> str:
    """Who annotated: the address where the record or ``people`` (by number) tells, else a number.

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
    return (people or {}).get(number) or f"label-studio user {number}"


def _is_argilla(record: Mapping[str, Any]) -> bool:
    """The nested objects of version 2."""
    is_nested = isinstance(record.get("fields"), Mapping)
    return is_nested and ("responses" in record or "suggestions" in record)


def _read_argilla(record: Mapping[str, Any]) -> Annotated:
    """The fields with the metadata beside them, and the submitted responses."""
    name = record.get("id")
    content = {**_mapping(record.get("metadata")), **record["fields"]}
    return Annotated(
        None if name is None else str(name), content, _responses(record.get("responses"))
    )


def _responses(value: Any) -> list[tuple[str | None, str]]:
    """Those of the question ``label``, or of the only question there is."""
    questions = _mapping(value)
    name = _ARGILLA_QUESTION if _ARGILLA_QUESTION in questions else next(iter(questions), "")
    given = questions.get(name)
    if (name != _ARGILLA_QUESTION and len(questions) > 1) or not isinstance(given, list):
        return []
    return [
        (str(response["user_id"]) if response.get("user_id") else None, response["value"])
        for response in map(_mapping, given)
        if isinstance(response.get("value"), str) and response.get("status") != "discarded"
    ]


def _is_prodigy(record: Mapping[str, Any]) -> bool:
    """Prodigy's hashes, or a choice among options."""
    if "_task_hash" in record or "_input_hash" in record:
        return True
    return isinstance(record.get("options"), list) and (
        record.get("answer") in _PRODIGY_ANSWERS or "accept" in record or "meta" in record
    )


def _read_prodigy(record: Mapping[str, Any]) -> Annotated:
    """``accept`` of one option is a label; so is ``label``, unless the answer is not accept.

    Items are known by an ``id``, at the top or in ``meta``, else by Prodigy's hash of the input.
    """
    meta = _mapping(record.get("meta"))
    name = record.get("id", meta.get("id", record.get("_input_hash")))
    left_out = {*_PRODIGY_KEYS, "id"} | {key for key, mark in COPIES.items() if mark in record}
    content = {
        key: value
        for key, value in record.items()
        if key not in left_out and not key.startswith("_")
    }
    labels: list[tuple[str | None, str]] = []
    if record.get("answer", "accept") == "accept":
        chosen = record.get("accept", record.get("label"))
        given = chosen if isinstance(chosen, list) else [chosen]
        who = record.get("_annotator_id") or record.get("_session_id")
        if len(given) == 1 and isinstance(given[0], (str, int)):
            labels = [(str(who) if who else None, str(given[0]))]
    is_named = isinstance(name, (str, int)) and name != ""
    return Annotated(str(name) if is_named else None, content, labels)


TOOLS = (
    Tool("Label Studio", _is_label_studio, _read_label_studio),
    Tool("Argilla", _is_argilla, _read_argilla),
    Tool("Prodigy", _is_prodigy, _read_prodigy),
)


def tool_of(record: Mapping[str, Any]) -> Tool | None:
    """The tool that wrote a record; None where it is a plain one."""
    return next((tool for tool in TOOLS if tool.is_record(record)), None)


def flat(
    name: str | None, content: Mapping[str, Any], labels: Sequence[tuple[str | None, str]]
) -> dict[str, Any]:
    """Columns: ``id``, the item's own, and ``label``, which most annotators give.

    Of two equally frequent ones, the first. The item's own ``id`` and ``label`` are called
    ``item.id`` and ``item.label``.
    """
    own = {f"item.{k}" if k in ("id", "label") else k: v for k, v in content.items()}
    counts = Counter(label for _, label in labels)
    label = counts.most_common(1)[0][0] if counts else None
    named = {} if name is None else {"id": name}
    return {**named, **own, "label": label}
