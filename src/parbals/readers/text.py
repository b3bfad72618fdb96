"""Text tables (CSV, TSV, JSONL), read as a stream, in whatever encoding they were saved."""

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from parbals.errors import InputError
from parbals.readers.source import MAX_COLUMNS, Row, Source, check_columns, read_start, short, where

__all__ = ["detect_encoding", "open_delimited", "open_jsonl"]

# The longest line or cell: a book fits, and a quote left open does not fill the memory.
LIMIT = 1 << 26
_CHUNK = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_SEP_LINE = re.compile(r'"?sep=([,;|\t])"?[\r\n]*', re.IGNORECASE)
_NUL = "contains a NUL character; it is damaged, or UTF-16 without a mark: save the file as UTF-8"


def detect_encoding(path: Path) -> str:
    """The mark at the start decides; else UTF-8 if all bytes agree; else cp1252; else latin-1."""
    start = read_start(path, 4)
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    is_utf8 = is_cp1252 = True
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            is_cp1252 = is_cp1252 and not any(byte in chunk for byte in _NOT_IN_CP1252)
            is_utf8 = is_utf8 and _decodes(decoder, chunk)
    if is_utf8 and _decodes(decoder, b"", final=True):
        return "utf-8"
    return "cp1252" if is_cp1252 else "latin-1"


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True


def _open_text(path: Path, encoding: str) -> TextIO:
    try:
        return path.open("r", encoding=encoding, newline="")
    except LookupError:
        raise InputError(
            f"{short(encoding)} is not a text encoding; try utf-8, utf-16 or cp1252."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _encoding_of(path: Path, asked: str | None) -> str:
    if asked is None:
        return detect_encoding(path)
    try:
        asked = codecs.lookup(asked).name
    except LookupError:
        raise InputError(
            f"{short(asked)} is not a text encoding; try utf-8, utf-16 or cp1252."
        ) from None
    start = read_start(path, 4)
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "")
    # utf-16-le read as such would leave the mark in the first column's name
    return marked if marked and asked.startswith(marked.removesuffix("-sig")) else asked


def _lines(file: TextIO) -> Iterator[str]:
    """Lines of the file, none longer than the limit."""
    while line := file.readline(LIMIT):
        if len(line) >= LIMIT:
            raise csv.Error("field larger than field limit")
        yield line


@dataclass(frozen=True)
class _Layout:
    """How a delimited file is read; ``forgiving`` is for one that a spreadsheet has saved."""

    path: Path
    encoding: str
    delimiter: str
    has_sep_line: bool = False
    forgiving: bool = False

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Each record with its row; blank lines are counted, as spreadsheets do, and left out."""
        csv.field_size_limit(LIMIT)
        name, row, nul = self.path.name, 0, False

        def watched(lines: Iterable[str]) -> Iterator[str]:
            nonlocal nul
            for line in lines:
                nul = nul or "\0" in line
                yield line

        with _open_text(self.path, self.encoding) as file:
            try:
                if self.has_sep_line:
                    file.readline(LIMIT)
                for row, record in enumerate(
                    csv.reader(watched(_lines(file)), delimiter=self.delimiter, strict=True),
                    start=1,
                ):
                    if nul:
                        cells = enumerate(record, start=1)
                        column = next((place for place, cell in cells if "\0" in cell), 1)
                        raise InputError(f"{where(name, row)}, column {column} {_NUL}.")
                    if record:
                        yield row, record
            except csv.Error as error:
                raise InputError(
                    f"{where(name, row + 1)} {_explain(str(error), self.delimiter)}."
                ) from None
            except UnicodeError:
                raise InputError(_undecodable(name, row + 1, self.encoding)) from None


def _explain(error: str, delimiter: str) -> str:
    if "unexpected end" in error:
        return "opens a quote that is never closed; close it, or write a quote inside a cell twice"
    if "field limit" in error:
        return f"has a cell of more than {LIMIT:,} characters; is a quote left open"
    if "expected after" in error:
        place = f"between a closing quote and the next {short(delimiter)}"
        return f"has text {place}; write a quote inside a cell twice"
    return f"is not valid CSV ({error})"


def _undecodable(name: str, row: int, encoding: str) -> str:
    return (
        f"{name} holds bytes that are not {encoding}, at or after row {row}; save it as UTF-8, or "
        "name its encoding."
    )


def _sniff(path: Path, encoding: str) -> tuple[str, bool]:
    """The delimiter among , ; and tab, and whether a first line such as ``sep=;`` names it."""
    with _open_text(path, encoding) as file:
        try:
            sample = list(islice(iter(lambda: file.readline(_CHUNK), ""), 50))
        except UnicodeError:
            raise InputError(_undecodable(path.name, 1, encoding)) from None
    if sample and (named := _SEP_LINE.fullmatch(sample[0])):
        return named[1], True

    def fit(delimiter: str) -> tuple[float, int]:
        widths: list[int] = []
        with suppress(csv.Error):  # the full reading reports what is wrong
            widths.extend(
                len(record) for record in csv.reader(sample, delimiter=delimiter) if record
            )
        if not widths or widths[0] == 1:
            return 0.0, 1
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    csv.field_size_limit(LIMIT)
    return max(",;\t", key=fit), False


def open_delimited(
    path: Path, kind: str, encoding: str | None = None, forgiving: bool = False
) -> Source:
    """A CSV or TSV file.

    ``forgiving`` reads what spreadsheets make of a file: unnamed columns are left out, and rows
    that end early are filled up, because Excel leaves off the last delimiters of a block of rows
    whose last column is empty.
    """
    encoding = _encoding_of(path, encoding)
    delimiter, has_sep_line = _sniff(path, encoding)
    if kind == "tsv" and not has_sep_line:
        delimiter = "\t"
    layout = _Layout(path, encoding, delimiter, has_sep_line, forgiving)
    header = next(layout.records(), None)
    if header is None:
        raise InputError(f"{path.name} is empty; the first row must name the columns.")
    named = [column for column in header[1] if column.strip()] if forgiving else header[1]
    columns = check_columns(named, path.name)
    rows = partial(_delimited_rows, layout, header[1])
    return Source(columns, None, rows, kind, path.name, encoding=encoding)


def _delimited_rows(layout: _Layout, header: list[str]) -> Iterator[Row]:
    records = layout.records()
    next(records, None)
    width, unnamed = len(header), [column for column in header if not column.strip()]
    for row, record in records:
        if len(record) != width:
            record = _mended(record, width) if layout.forgiving else record
            if len(record) != width:
                raise InputError(_ragged(layout, header, row, record))
        values = dict(zip(header, record, strict=True))
        for column in unnamed:
            values.pop(column, None)
        yield Row(row, values)


def _mended(record: list[str], width: int) -> list[str]:
    """Missing last cells are empty; superfluous ones may go if nothing is in them."""
    return record[:width] + [""] * (width - len(record)) if not any(record[width:]) else record


def _ragged(layout: _Layout, header: list[str], row: int, record: list[str]) -> str:
    fault = f"more after column {header[-1]!r}"
    if len(record) < len(header):
        fault = f"nothing for column {header[len(record)]!r}"
    return (
        f"{where(layout.path.name, row)} has {len(record)} cells and the header {len(header)}, so "
        f"there is {fault}; put quotes around cells that contain {short(layout.delimiter)}."
    )


def open_jsonl(path: Path, encoding: str | None = None) -> Source:
    """One JSON object a line; it is walked once for the keys, and one that a line lacks is None."""
    encoding = _encoding_of(path, encoding)
    columns: dict[str, None] = {}
    n_rows = 0
    for row, values in _objects(path, encoding):
        n_rows += 1
        for key in values.keys() - columns.keys():
            if not key.strip() or len(columns) == MAX_COLUMNS:
                many = f"brings more than {MAX_COLUMNS} different keys"
                fault = many if key.strip() else "has a key without a name"
                raise InputError(f"{where(path.name, row)} {fault}.")
        columns.update(dict.fromkeys(values))
    if not columns:
        raise InputError(f"{path.name} is empty; each line must be a JSON object.")
    names = check_columns(list(columns), path.name)

    def rows() -> Iterator[Row]:
        for row, values in _objects(path, encoding):
            yield Row(row, {name: values.get(name) for name in names})

    return Source(names, n_rows, rows, "jsonl", path.name, encoding=encoding)


def _objects(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    row = 0
    with _open_text(path, encoding) as file:
        try:
            for row, line in enumerate(_lines(file), start=1):
                if line.strip():
                    yield row, _one_object(line, where(path.name, row))
        except csv.Error:
            place = where(path.name, row + 1)
            raise InputError(f"{place} has more than {LIMIT:,} characters.") from None
        except UnicodeError:
            raise InputError(_undecodable(path.name, row + 1, encoding)) from None


def _one_object(line: str, place: str) -> dict[str, Any]:
    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(values := dict(pairs)) != len(pairs):
            repeated = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
            raise InputError(f"{place} has the key {short(repeated)} twice; remove one.")
        return values

    if "\0" in line:
        raise InputError(f"{place} {_NUL}.")
    try:
        values = json.loads(line, object_pairs_hook=without_repeats)
    except RecursionError:
        raise InputError(f"{place} is nested too deeply to be read.") from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"{place} is not valid JSON ({getattr(error, 'msg', error)}); each line must be one "
            "object."
        ) from None
    if not isinstance(values, dict):
        raise InputError(
            f'{place} is not a JSON object; each line must look like {{"text": "..."}}.'
        )
    return values
