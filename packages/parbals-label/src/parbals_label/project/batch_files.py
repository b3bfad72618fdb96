"""Batch files: items to label in a spreadsheet, and whose row is whose when they come back."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from parbals.errors import InputError

from parbals_label.project.exports import write_export
from parbals_label.readers.answers import FilledRow, ToolRow
from parbals_label.store.store import Store

__all__ = ["batch_header", "positions_of_answers", "positions_of_ids", "write_batch_csv"]


def batch_header(columns: Sequence[str]) -> list[str]:
    """The first row of a batch file, for items with these columns."""
    own = [f"item.{column}" if column in ("id", "label") else column for column in columns]
    return ["id", *own, "label"]


def write_batch_csv(
    path: str | PathLike[str],
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Sequence[str],
    classes: Sequence[str],
) -> int:
    """Items (id, content) to label: id, their columns, an empty column ``label``; how many.

    A column of the items that is itself called id or label is written as ``item.id`` or
    ``item.label``, for there can be only one of each. The file is UTF-8 with a mark, or Excel would
    not see that it is.
    """
    if len(classes) < 2:
        raise InputError("A batch to be labelled needs at least two classes.")
    header = batch_header(columns)
    names = dict(zip(columns, header[1:-1], strict=True))
    records = (
        {"id": item, **{name: content.get(column) for column, name in names.items()}}
        for item, content in rows
    )
    return write_export(path, records, "csv", header, bom=True)


def positions_of_answers(
    store: Store, answers: Sequence[FilledRow | ToolRow], name: str
) -> list[int]:
    """The item of every row.

    A spreadsheet turns 007 into 7 and 1 into 1.0: that is understood if it is unambiguous.
    """
    places = positions_of_ids(store, [answer.id for answer in answers])
    for answer in answers:
        if len(places[answer.id]) != 1:
            several = "several items of this project, written differently"
            what = several if places[answer.id] else "no item of this project"
            raise InputError(
                f"{name}, row {answer.row}: the id {answer.id!r} names {what}; nothing was stored."
            )
    return [places[answer.id][0] for answer in answers]


def positions_of_ids(store: Store, ids: Sequence[str]) -> dict[str, list[int]]:
    """The items that each id may mean: one if written exactly, else those that look so in Excel."""
    places = {name: [position] for name, position in store.known_positions(ids).items()}
    missing = [name for name in ids if name not in places]
    if missing:
        by_number: dict[str, list[int]] = {}
        for item in store.iter_items():
            by_number.setdefault(_as_number(item.id), []).append(item.position)
        places |= {name: by_number.get(_as_number(name), []) for name in missing}
    return places


def _as_number(text: str) -> str:
    """What a spreadsheet would make of it."""
    stripped = text.strip()
    whole = stripped.removesuffix(".0")
    return whole.lstrip("0") or "0" if whole.isdigit() else stripped
