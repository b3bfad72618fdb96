"""Batch files: items to label in a spreadsheet, and whose row is whose when they come back."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from parbals.errors import InputError

from parbals_label.project.exports import write_export
from parbals_label.readers.answers import Answer
from parbals_label.store.store import Store

__all__ = ["positions_of_answers", "write_batch_csv"]


def write_batch_csv(
    path: str | PathLike[str], rows: Iterable[tuple[str, Mapping[str, Any]]], columns: Sequence[str]
) -> int:
    """Items (id, content) to label: id, their columns, an empty column ``label``; how many.

    A column of the items that is itself called id or label is written as ``item.id`` or
    ``item.label``, for there can be only one of each. The file is UTF-8 with a mark, or Excel would
    not see that it is.
    """
    names = {name: f"item.{name}" if name in ("id", "label") else name for name in columns}
    records = (
        {"id": item, **{name: content.get(column) for column, name in names.items()}}
        for item, content in rows
    )
    return write_export(path, records, "csv", ["id", *names.values(), "label"], bom=True)


def positions_of_answers(store: Store, answers: Sequence[Answer], name: str) -> list[int]:
    """The item of every row.

    A spreadsheet turns 007 into 7 and 1 into 1.0: that is understood if it is unambiguous.
    """
    ids = [answer.id for answer in answers]
    places = {name: [position] for name, position in store.known_positions(ids).items()}
    if len(places) < len(set(ids)):
        by_number: dict[str, list[int]] = {}
        for item in store.iter_items():
            by_number.setdefault(_as_number(item.id), []).append(item.position)
        places = {name: by_number.get(_as_number(name), []) for name in ids} | places
    for answer in answers:
        if len(places[answer.id]) != 1:
            several = "several items of this project, written differently"
            what = several if places[answer.id] else "no item of this project"
            raise InputError(
                f"{name}, row {answer.row}: the id {answer.id!r} names {what}; nothing was stored."
            )
    return [places[answer.id][0] for answer in answers]


def _as_number(text: str) -> str:
    """What a spreadsheet would make of it."""
    stripped = text.strip()
    whole = stripped.removesuffix(".0")
    return whole.lstrip("0") or "0" if whole.isdigit() else stripped
