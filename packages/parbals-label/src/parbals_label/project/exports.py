"""Results on their way out: labels and predictions as CSV, JSONL or Parquet."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import IO, Any

from parbals.errors import InputError
from parbals.files import need, whole_file

from parbals_label.readers.cells import cell_text, plain_value, safe_cell
from parbals_label.readers.source import check_columns, short
from parbals_label.store.folder import is_project_file

__all__ = ["FORMATS", "check_destination", "write_export"]

FORMATS = ("csv", "jsonl", "parquet")
_SLICE = 4_096
_INT64 = 1 << 63


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
    JSONL: missing is null. Parquet: a column is boolean, integer, number or text, whichever fits
    all its values.
    """
    if fmt not in FORMATS:
        raise InputError(
            f"{short(fmt)} is not a known format; choose one of: {', '.join(FORMATS)}."
        )
    if not columns:
        raise InputError("An export needs at least one column.")
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


def _safe_text(value: Any) -> str:
    return safe_cell(cell_text(value))


def _first_text(value: Any) -> str:
    return safe_cell(cell_text(value), is_first=True)


def _write_csv(
    file: IO[bytes], records: Iterable[Mapping[str, Any]], columns: Sequence[str], bom: bool
) -> int:
    count = 0
    text = io.TextIOWrapper(file, encoding="utf-8-sig" if bom else "utf-8", newline="")
    try:
        # With this line end a lone \r in a cell is quoted, too.
        writer = csv.writer(text, lineterminator="\r\n")
        cells = [(_safe_text if place else _first_text, name) for place, name in enumerate(columns)]
        writer.writerow([convert(name) for convert, name in cells])
        for count, record in enumerate(records, start=1):
            writer.writerow([_value(convert, record, name, count) for convert, name in cells])
        text.flush()
    finally:
        text.detach()
    return count


def _lines(
    records: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> Iterator[tuple[dict[str, Any], bytes]]:
    for number, record in enumerate(records, start=1):
        values = {column: _value(plain_value, record, column, number) for column in columns}
        yield values, json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _write_jsonl(
    file: IO[bytes], records: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> int:
    count = 0
    for _, line in _lines(records, columns):
        file.write(line)
        count += 1
    return count


def _write_parquet(
    pa: Any, file: IO[bytes], records: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> int:
    """Two passes over a spool on disk: one learns the type of each column, one writes slices."""
    parquet = need("pyarrow.parquet", "Writing Parquet files", "parbals[parquet]")
    kinds: dict[str, str] = dict.fromkeys(columns, "null")
    count = 0
    with tempfile.TemporaryFile() as spool:
        for values, line in _lines(records, columns):
            spool.write(line)
            count += 1
            for column, value in values.items():
                kinds[column] = _wider(kinds[column], value)
        spool.seek(0)
        types = {
            "null": pa.string(),
            "bool": pa.bool_(),
            "int": pa.int64(),
            "float": pa.float64(),
            "text": pa.string(),
        }
        schema = pa.schema([(column, types[kinds[column]]) for column in columns])
        with parquet.ParquetWriter(file, schema) as writer:
            while lines := list(islice(spool, _SLICE)):
                part = [json.loads(line) for line in lines]
                data = {
                    column: [_as_kind(row[column], kinds[column]) for row in part]
                    for column in columns
                }
                writer.write_table(pa.table(data, schema=schema))
    return count


def _wider(kind: str, value: Any) -> str:
    """The narrowest kind that holds what the column had so far and this value."""
    if value is None or kind == "text":
        return kind
    if isinstance(value, bool):
        own = "bool"
    elif isinstance(value, int):
        own = "int" if -_INT64 <= value < _INT64 else "text"
    else:
        own = "float" if isinstance(value, float) else "text"
    if kind in ("null", own):
        return own
    return "float" if {kind, own} == {"int", "float"} else "text"


def _as_kind(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "text":
        return cell_text(value)
    return float(value) if kind == "float" else value
