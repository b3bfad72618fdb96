"""Files on their way out, as CSV, JSONL or Parquet: results, and batches to label.

A batch comes back filled in; whose row is whose is found here as well.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

from parbals.errors import InputError
from parbals.files import need

from parbals_label.files import whole_file
from parbals_label.readers.answers import Answer
from parbals_label.readers.cells import cell_text, plain_value, safe_cell
from parbals_label.readers.source import check_columns
from parbals_label.store.folder import is_project_file
from parbals_label.store.store import Store

__all__ = ["check_destination", "positions_of_answers", "write_batch_csv", "write_export"]


def check_destination(folder: Path, path: Path, *, force: bool = False) -> None:
    """Refuse a file of the project and, without ``force``, one that is there; "-" is the screen.

    A link in the project's folder is refused too: whoever made the project chose where it leads.
    """
    if str(path) == "-":
        return
    real = Path(os.path.realpath(path))
    if real.parent == folder.resolve() and is_project_file(real.name):
        raise InputError(f"{path} is a file of the project itself; name another with --out.")
    if path.is_symlink() and path.parent.resolve() == folder.resolve():
        raise InputError(
            f"{path} is a link that leads out of the project's folder; name a file with --out."
        )
    if real.is_dir() or not real.parent.is_dir():
        fault = "is a folder" if real.is_dir() else f"cannot be written: there is no {real.parent}"
        raise InputError(f"{path} {fault}; name a file in a folder that is there.")
    if real.exists() and not force:
        raise InputError(f"{path} is there already; name another file, or replace it by --force.")


def write_export(
    path: str | PathLike[str],
    records: Iterable[Mapping[str, Any]],
    fmt: str,
    columns: Sequence[str],
    *,
    bom: bool = False,
) -> int:
    """Write records as 'csv', 'jsonl' or 'parquet'; how many. What a record lacks is empty.

    CSV: text that a spreadsheet would run gets an apostrophe in front (:func:`safe_cell`), also
    inside a cell where a spreadsheet might split it; missing is an empty cell; lists and objects
    are JSON. ``bom`` adds the mark by which Excel knows UTF-8.
    JSONL: missing is null. Parquet: a column is boolean, integer, number, text or lists of texts,
    whichever fits all its values.
    """
    check_columns(list(columns), "The export")
    pa = need("pyarrow", "Writing Parquet files", "parbals[parquet]") if fmt == "parquet" else None
    with whole_file(path, mode=0o600) as file:
        if fmt == "csv":
            return _write_csv(file, records, columns, bom)
        if fmt == "jsonl":
            return _write_jsonl(file, records, columns)
        return _write_parquet(pa, file, records, columns)


def _value(convert: Any, record: Mapping[str, Any], column: str, number: int) -> Any:
    try:
        return convert(record.get(column))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"record {number}, column {column!r} {error}, so it cannot be exported."
        ) from None


def _safe_row(cells: Iterable[str]) -> list[str]:
    return [safe_cell(cell, is_first=place == 0) for place, cell in enumerate(cells)]


def _write_csv(
    file: IO[bytes], records: Iterable[Mapping[str, Any]], columns: Sequence[str], bom: bool
) -> int:
    count = 0
    text = io.TextIOWrapper(file, encoding="utf-8-sig" if bom else "utf-8", newline="")
    try:
        # With this line end a lone \r in a cell is quoted, too.
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(_safe_row(columns))
        for count, record in enumerate(records, start=1):
            writer.writerow(_safe_row(_value(cell_text, record, name, count) for name in columns))
        text.flush()
    finally:
        text.detach()
    return count


def _values(
    records: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, start=1):
        yield {column: _value(plain_value, record, column, number) for column in columns}


def _write_jsonl(
    file: IO[bytes], records: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> int:
    count = 0
    for values in _values(records, columns):
        file.write(json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        count += 1
    return count


def _write_parquet(
    pa: Any, file: IO[bytes], records: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> int:
    """All at once: only when every value was seen is the type of a column known."""
    parquet = need("pyarrow.parquet", "Writing Parquet files", "parbals[parquet]")
    rows = list(_values(records, columns))
    table = {column: _column(pa, [row[column] for row in rows]) for column in columns}
    parquet.write_table(pa.table(table), file)
    return len(rows)


def _column(pa: Any, values: list[Any]) -> Any:
    """Values as the narrowest of boolean, integer, number, lists and text that holds all."""
    try:
        if any(isinstance(value, list) for value in values):
            return pa.array(values, pa.list_(pa.string()))
        array = pa.array(values)
        if not pa.types.is_nested(array.type) and not pa.types.is_null(array.type):
            return array
    except (pa.ArrowException, OverflowError):
        pass
    return pa.array([None if v is None else cell_text(v) for v in values], pa.string())


def write_batch_csv(
    path: str | PathLike[str],
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Sequence[str],
    whom: Sequence[str] = (),
) -> int:
    """Items (id, content) to label: id, their columns, an empty column ``label``; how many.

    ``whom`` to ask, of each item, is a column ``annotator``. A column of the items that is itself
    called so, or id or label, is written as ``item.id`` and so on, for there can be only one of
    each. The file is UTF-8 with a mark, or Excel would not see that it is.
    """
    ours = ("id", "annotator", "label")
    names = {name: f"item.{name}" if name in ours else name for name in columns}
    records = (
        {"id": item, **{name: content.get(column) for column, name in names.items()}}
        | ({"annotator": whom[place]} if whom else {})
        for place, (item, content) in enumerate(rows)
    )
    last = ours[1:] if whom else ours[2:]
    return write_export(path, records, "csv", ["id", *names.values(), *last], bom=True)


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
