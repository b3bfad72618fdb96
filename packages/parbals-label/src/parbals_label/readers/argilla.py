"""Argilla's records: of version 2 (fields, responses), and of version 1 (inputs, annotation)."""

from collections.abc import Mapping
from typing import Any

from parbals_label.readers.annotated import Annotated, mapping, records

__all__ = ["is_record", "read"]

_QUESTION = "label"


def is_record(record: Mapping[str, Any]) -> bool:
    """Whether it has the nested objects of either version."""
    if isinstance(record.get("fields"), Mapping):
        return "responses" in record or "suggestions" in record
    return "annotation" in record and "prediction" in record


def read(record: Mapping[str, Any]) -> Annotated:
    """The fields with the metadata beside them, and the submitted responses."""
    name = record.get("id")
    if isinstance(record.get("fields"), Mapping):
        content = {**mapping(record.get("metadata")), **record["fields"]}
        labels = _responses(record.get("responses"))
    else:
        inputs = record.get("inputs")
        shown = inputs if isinstance(inputs, Mapping) else {"text": record.get("text", inputs)}
        content = {**mapping(record.get("metadata")), **shown}
        label, who = record.get("annotation"), record.get("annotation_agent")
        given = label[0] if isinstance(label, list) and len(label) == 1 else label
        labels = [(str(who) if who else None, given)] if isinstance(given, str) else []
    return Annotated(None if name is None else str(name), content, labels)


def _responses(value: Any) -> list[tuple[str | None, str]]:
    """Those of the question ``label``, or of the only question there is."""
    questions = mapping(value)
    name = _QUESTION if _QUESTION in questions else next(iter(questions), "")
    if name != _QUESTION and len(questions) > 1:
        return []
    return [
        (str(response["user_id"]) if response.get("user_id") else None, response["value"])
        for response in records(questions.get(name))
        if isinstance(response.get("value"), str) and response.get("status") != "discarded"
    ]
