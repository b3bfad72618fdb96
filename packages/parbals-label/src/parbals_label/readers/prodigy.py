"""Prodigy's records: the item's fields at the top, the choice in ``accept`` or ``label``."""

from collections.abc import Mapping
from typing import Any

from parbals_label.readers.annotated import Annotated, mapping

__all__ = ["COPIES", "is_record", "read"]

COPIES = {"text": "_text_from", "image": "_image_from"}
"""In files of ours: which columns ``text`` or ``image`` repeats, for Prodigy shows only these."""
_ANSWERS = ("accept", "reject", "ignore")
_THEIRS = ("accept", "answer", "label", "meta", "options", "score", "spans", "tokens", "html")


def is_record(record: Mapping[str, Any]) -> bool:
    """Whether it has Prodigy's hashes, or a choice among options."""
    if "_task_hash" in record or "_input_hash" in record:
        return True
    return isinstance(record.get("options"), list) and (
        record.get("answer") in _ANSWERS or "accept" in record or "meta" in record
    )


def read(record: Mapping[str, Any]) -> Annotated:
    """``accept`` of one option is a label; so is ``label``, unless the answer is not accept.

    Items are known by an ``id``, at the top or in ``meta``, else by Prodigy's hash of the input.
    """
    meta = mapping(record.get("meta"))
    name = record.get("id", meta.get("id", record.get("_input_hash")))
    left_out = {*_THEIRS, "id"} | {key for key, mark in COPIES.items() if mark in record}
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
