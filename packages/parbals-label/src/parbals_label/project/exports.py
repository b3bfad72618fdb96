"""Write results and batches to label as CSV, JSONL or Parquet.

Rows of a batch that comes back filled in are matched to items here as well.
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
    """Refuse a file of the project and, without ``force``, an existing one; "-" is the screen.

    A link in the project's folder is refused too: the maker of the project chose where it leads.
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
        raise InputError(f"{path} {fault}; name a file in an existing folder.")
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
    """Write records as 'csv', 'jsonl' or 'parquet'; their number.

    CSV: text that a spreadsheet would run as a formula gets an apostrophe in front
    (:func:`safe_cell`), also inside a cell where a spreadsheet might split it; a missing value is
    an empty cell; lists and objects are JSON. ``bom`` adds the mark by which Excel knows UTF-8.
    JSONL: a missing value is null. Parquet: a column is boolean, integer, number, text or lists of
    texts, whichever fits all its values.
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
    """A converted value; an error names its record and column."""
    try:
        return convert(record.get(column))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"record {number}, column {column!r} {error}, so it cannot be exported."
        ) from None


def _safe_row(cells: Iterable[str]) -> list[str]:
    return [safe_cell(cell, is_first=index == 0) for index, cell in enumerate(cells)]


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
    """Write all rows at once: the type of a column depends on all its values."""
    parquet = need("pyarrow.parquet", "Writing Parquet files", "parbals[parquet]")
    rows = list(_values(records, columns))
    table = {column: _column(pa, [row[column] for row in rows]) for column in columns}
    parquet.write_table(pa.table(table), file)
    return len(rows)


def _column(pa: Any, values: list[Any]) -> Any:
    """Values as the narrowest of boolean, integer, number, lists and text that holds them all."""
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
    """Write items (id, content) to label, with an empty column ``label``; their number.

    ``whom`` are the annotators to ask, one for each item, as a column ``annotator``. Columns of the
    items with one of these names, or ``id``, are written as ``item.id`` and so on. The file always
    starts with a byte order mark, by which Excel recognises UTF-8; a script that reads it needs the
    encoding ``utf-8-sig`` from the first batch on, not only where letters are beyond ASCII.
    """
    reserved = ("id", "annotator", "label")
    names = {name: f"item.{name}" if name in reserved else name for name in columns}

    def records() -> Iterator[dict[str, Any]]:
        for index, (item, content) in enumerate(rows):
            record: dict[str, Any] = {"id": item}
            for column, name in names.items():
                record[name] = content.get(column)
            if whom:
                record["annotator"] = whom[index]
            yield record

    last = ["annotator", "label"] if whom else ["label"]
    header = ["id", *names.values(), *last]
    return write_export(path, records(), "csv", header, bom=True)


def positions_of_answers(store: Store, answers: Sequence[Answer], name: str) -> list[int]:
    """The position of the item of every row.

    A spreadsheet turns 007 into 7 and 1 into 1.0: such ids are understood if they are unambiguous.
    """
    ids = [answer.id for answer in answers]
    candidates = {id_: [position] for id_, position in store.known_positions(ids).items()}
    if len(candidates) < len(set(ids)):
        by_number: dict[str, list[int]] = {}
        for item in store.iter_items():
            by_number.setdefault(_as_number(item.id), []).append(item.position)
        for id_ in ids:
            candidates.setdefault(id_, by_number.get(_as_number(id_), []))
    for answer in answers:
        matches = candidates[answer.id]
        if len(matches) != 1:
            problem = "no item of this project"
            if matches:
                problem = "several items of this project, written differently"
            raise InputError(
                f"{name}, row {answer.row}: the id {answer.id!r} names {problem}; nothing was "
                "stored."
            )
    return [candidates[answer.id][0] for answer in answers]


def _as_number(text: str) -> str:
    """The text as a spreadsheet would write it back: without leading zeros and ``.0``.

    >>> _as_number("007"), _as_number("7.0"), _as_number("a7")
    ('7', '7', 'a7')
    """
    stripped = text.strip()
    integer = stripped.removesuffix(".0")
    if integer.isdigit():
        return integer.lstrip("0") or "0"
    return stripped
