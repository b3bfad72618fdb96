"""Delimited text tables (CSV, TSV), read as a stream, in any encoding.

The file is inspected once, by :func:`_detect_layout`: encoding, delimiter, header, meaning of
quotes and the first rows. Every iteration over its rows follows that :class:`Layout`.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from parbals.errors import InputError

from parbals_label.readers.encoding import (
    GUESS,
    LIMIT,
    NUL,
    UndecodableError,
    decoding,
    lines_of,
    open_text,
    replaced,
)
from parbals_label.readers.source import (
    HEAD,
    Row,
    Source,
    check_columns,
    check_n_columns,
    short,
    where,
)

__all__ = ["Layout", "open_delimited"]

_SEP_LINE = re.compile(r'"?sep=([,;|\t])"?[\r\n]*', re.IGNORECASE)
_SAMPLE_LINES = 50
"""Lines from which the delimiter is detected."""
_NUMBER = re.compile(r"[-+\d.,\s%]*")


@dataclass(frozen=True)
class Layout:
    """How a delimited file is read.

    Attributes:
        path: the file.
        encoding: its encoding.
        errors: how bytes that cannot be decoded are treated: "strict" or "replace".
        delimiter: the character between cells.
        has_sep_line: whether the first line only names the delimiter, such as ``sep=;``.
        forgiving: whether a spreadsheet may have changed it.
        raw: whether quotes are ordinary characters.
        has_header: whether the first record names the columns.
        header: the names of the columns.
        records: the first records, without the header: row number and cells.
        notes: sentences about how it is read.
    """

    path: Path
    encoding: str
    errors: str
    delimiter: str
    has_sep_line: bool
    forgiving: bool
    raw: bool
    has_header: bool
    header: list[str]
    records: list[tuple[int, list[str]]]
    notes: list[str]

    def rows(self) -> Iterator[Row]:
        """Iterate over the rows of the file."""
        with open_text(self.path, self.encoding, self.errors) as file:
            if self.has_sep_line:
                file.readline(LIMIT)
            records = _records(
                lines_of(file), self.path.name, self.encoding, self.delimiter, self.raw
            )
            if self.has_header:
                next(records, None)
            for row_number, record in records:
                yield self._row(row_number, record)

    def head(self) -> tuple[Row, ...]:
        """Return the first rows, up to the first one that is refused."""
        rows: list[Row] = []
        with suppress(InputError):
            for row_number, record in self.records:
                rows.append(self._row(row_number, record))
        return tuple(rows)

    def _row(self, row_number: int, record: list[str]) -> Row:
        width = len(self.header)
        if len(record) != width and self.forgiving and not any(record[width:]):
            # Missing last cells are empty; superfluous empty cells are dropped.
            record = record[:width] + [""] * (width - len(record))
        if len(record) != width:
            raise InputError(self._ragged_message(row_number, record))
        pairs = zip(self.header, record, strict=True)
        return Row(row_number, {name: cell for name, cell in pairs if name.strip()})

    def _ragged_message(self, row_number: int, record: list[str]) -> str:
        """Return the error message for a row with too few or too many cells."""
        n_cells = f"{len(record)} cells"
        fault = f"one too many after column {self.header[-1]!r}"
        if len(record) > len(self.header) + 1:
            fault = f"too many after column {self.header[-1]!r}"
        elif len(record) < len(self.header):
            fault = f"and column {self.header[len(record)]!r} is missing"
        reference = "header" if self.has_header else "first row"
        return (
            f"{where(self.path.name, row_number)} has {n_cells}, where the {reference} has "
            f"{len(self.header)}: {fault}; put quotes around cells that contain "
            f"{short(self.delimiter)}."
        )


def open_delimited(
    path: Path,
    kind: str,
    encoding: str | None = None,
    forgiving: bool = False,
    names: Sequence[str] = (),
    errors: str = "strict",
) -> Source:
    """Open a CSV or TSV file.

    Args:
        path: the file.
        kind: "csv"; "tsv"; or "txt", which is read like "tsv" if all lines have the same number of
            tabs, and otherwise refused.
        encoding: the encoding; by default it is detected.
        forgiving: accept changes by spreadsheets: columns without a name are left out, and short
            rows are filled up, because Excel omits the last delimiters of rows whose last columns
            are empty.
        names: names of the columns of a file without a header row. By default, the first row is the
            header, unless it is clearly data. Columns without a name are called "column 1",
            "column 2", ... by their place.
        errors: how bytes that cannot be decoded are treated: "strict" or "replace".
    """
    layout = decoding(
        path,
        encoding,
        errors,
        lambda encoding, errors: _detect_layout(path, kind, encoding, errors, forgiving, names),
    )
    return Source(
        columns=check_columns([name for name in layout.header if name.strip()], path.name),
        n_rows=None,
        rows=layout.rows,
        kind="csv" if kind == "csv" else "tsv",
        name=path.name,
        encoding=layout.encoding,
        notes=tuple(layout.notes),
        head=layout.head(),
    )


class _Scan(NamedTuple):
    """The result of one pass over a file, with quotes read as quotes.

    Attributes:
        encoding: the encoding that was used.
        delimiter: the character between cells.
        has_sep_line: whether the first line only names the delimiter.
        records: the first records: row number and cells.
        n_records: how many records were read.
        tabs: counts the tabs of all lines.
        error: the first error in the records, None if there was none.
    """

    encoding: str
    delimiter: str
    has_sep_line: bool
    records: list[tuple[int, list[str]]]
    n_records: int
    tabs: "_TabCounter"
    error: InputError | None


def _detect_layout(
    path: Path, kind: str, encoding: str | None, errors: str, forgiving: bool, names: Sequence[str]
) -> Layout:
    """Inspect a file and return how it is read."""
    scan = _scan(path, kind, encoding, errors, forgiving)
    if kind == "txt" and not scan.tabs.is_table:
        raise scan.error or InputError(
            f"{path.name} cannot be read: its lines have no tabs, or not all the same number; "
            "give it the extension .csv or .tsv."
        )
    # Quotes are ordinary characters if, read as quotes, they break or join rows of a tab-separated
    # file. That is certain only if every line has the same number of tabs: lines of a quoted cell
    # with line breaks would differ.
    is_tab_table = scan.delimiter == "\t" and not forgiving and scan.tabs.is_table
    raw = is_tab_table and (scan.error is not None or scan.n_records != scan.tabs.n_lines)
    notes = [*replaced(path.name, scan.encoding, errors)]
    records = scan.records
    if raw:
        lines = iter(scan.tabs.first_lines)
        records = list(_records(lines, path.name, scan.encoding, scan.delimiter, raw=True))
        notes.append(f"The quotation marks in {path.name} are part of its cells.")
    elif scan.error is not None:
        raise scan.error
    if not records:
        raise InputError(f"{path.name} is empty; the first row must name the columns.")
    header, has_header, header_notes = _header(records, path.name, forgiving, names)
    return Layout(
        path=path,
        encoding=scan.encoding,
        errors=errors,
        delimiter=scan.delimiter,
        has_sep_line=scan.has_sep_line,
        forgiving=forgiving,
        raw=raw,
        has_header=has_header,
        header=header,
        records=records[1:] if has_header else records,
        notes=notes + header_notes,
    )


def _scan(path: Path, kind: str, encoding: str | None, errors: str, forgiving: bool) -> _Scan:
    """Detect the delimiter and read the first records.

    The rest of the file is read, too, where the encoding or the meaning of quotes depends on it.
    """
    csv.field_size_limit(LIMIT)
    error: InputError | None = None
    records: list[tuple[int, list[str]]] = []
    n_records = 0
    with open_text(path, encoding, errors) as file:
        used_encoding = encoding or file.encoding
        lines = lines_of(file)
        try:
            sample = list(islice(lines, _SAMPLE_LINES))
        except UnicodeError:
            raise UndecodableError(where(path.name, 1), used_encoding) from None
        except csv.Error as too_long:
            raise InputError(f"{where(path.name, 1)} {_explain(str(too_long), ',')}.") from None
        sep_line = _SEP_LINE.fullmatch(sample[0]) if sample else None
        if sep_line is not None:
            delimiter = sep_line[1]
            sample = sample[1:]
        elif kind == "csv":
            delimiter = _detect_delimiter(sample)
        else:
            delimiter = "\t"
        tabs = _TabCounter()
        counted_lines = tabs.count(chain(sample, lines))
        try:
            for row_number, record in _records(
                counted_lines, path.name, used_encoding, delimiter, raw=False
            ):
                n_records += 1
                if n_records <= HEAD:
                    records.append((row_number, record))
                elif delimiter != "\t" or forgiving:
                    break
        except UndecodableError:
            raise
        except InputError as fault:
            error = fault
        # The encoding and the number of tabs are certain only at the end of the file.
        if encoding in (None, GUESS) or delimiter == "\t":
            try:
                with suppress(csv.Error):  # iteration over the rows reports a line that is too long
                    for _ in counted_lines:
                        pass
            except UnicodeError:
                location = where(path.name, n_records + 1)
                raise UndecodableError(location, used_encoding) from None
    return _Scan(
        encoding=used_encoding,
        delimiter=delimiter,
        has_sep_line=sep_line is not None,
        records=records,
        n_records=n_records,
        tabs=tabs,
        error=error,
    )


def _header(
    records: list[tuple[int, list[str]]], file_name: str, forgiving: bool, names: Sequence[str]
) -> tuple[list[str], bool, list[str]]:
    """Return the names of the columns, whether the first record names them, and notes."""
    first = list(records[0][1])
    check_n_columns(len(first), file_name)
    # A program that quotes all cells may have moved the byte order mark into the first name.
    first[0] = first[0].removeprefix("\ufeff")
    numbered_names = [f"column {number}" for number in range(1, len(first) + 1)]
    if forgiving:
        return first, True, []
    if names or _is_headless([record for _, record in records]):
        columns = list(names or numbered_names)
        if len(columns) != len(first):
            raise InputError(
                f"{len(columns)} names were given for the columns of {file_name}, and its first "
                f"row has {len(first)} cells."
            )
        note = f"{file_name} has no header row: its columns are {_first_names(columns)}."
        notes = [] if names else [note]
        return columns, False, notes
    columns = [
        cell if cell.strip() else numbered_name
        for cell, numbered_name in zip(first, numbered_names, strict=True)
    ]
    unnamed = [name for cell, name in zip(first, columns, strict=True) if cell != name]
    note = f"A column without a name is called {_first_names(unnamed)}."
    notes = [note] if unnamed else []
    return columns, True, notes


def _first_names(names: Sequence[str]) -> str:
    shown = ", ".join(map(short, names[:5]))
    return f"{shown}, …" if len(names) > 5 else shown


def _detect_delimiter(sample: list[str]) -> str:
    """Return the delimiter (, ; or tab) with which most lines have as many cells as the first."""

    def fit(delimiter: str) -> tuple[float, int]:
        """Return the share of lines with as many cells as the first, and how many these are."""
        widths: list[int] = []
        with suppress(csv.Error):  # reading the whole file reports the error
            widths.extend(
                len(record) for record in csv.reader(sample, delimiter=delimiter) if record
            )
        if not widths or widths[0] == 1:
            return 0.0, 1
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    return max(",;\t", key=fit)


class _TabCounter:
    """Counts the tabs of lines during iteration, and keeps the first lines."""

    def __init__(self) -> None:
        self.n_lines = 0
        self.n_tabs = 0
        self.first_lines: list[str] = []
        self._is_constant = True

    @property
    def is_table(self) -> bool:
        """Whether all lines have the same number of tabs, at least one."""
        return self._is_constant and self.n_tabs > 0

    def count(self, lines: Iterable[str]) -> Iterator[str]:
        """Pass lines through and count their tabs."""
        for line in lines:
            if line.strip("\r\n"):
                n_tabs = line.count("\t")
                if self.n_lines == 0:
                    self.n_tabs = n_tabs
                self._is_constant = self._is_constant and n_tabs == self.n_tabs
                self.n_lines += 1
            if len(self.first_lines) < HEAD:
                self.first_lines.append(line)
            yield line


def _is_headless(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first record is data: one of its words, such as a label, is also below it.

    The name of a column does not count if it is also the only value there, as in exports of
    checkboxes; nor does a header that is repeated as a whole.
    """
    header, *others = records
    if header in others:
        return False
    for index, name in enumerate(header):
        if not name.strip() or _NUMBER.fullmatch(name):
            continue
        entries = {record[index] for record in others if len(record) > index and record[index]}
        if name in entries and len(entries) > 1:
            return True
    return False


def _records(
    lines: Iterator[str], file_name: str, encoding: str, delimiter: str, raw: bool
) -> Iterator[tuple[int, list[str]]]:
    """Iterate over (row number, cells); blank lines are counted, but left out."""
    csv.field_size_limit(LIMIT)
    row_number = 0
    has_nul = False

    def checked_lines() -> Iterator[str]:
        nonlocal has_nul
        for line in lines:
            has_nul = has_nul or "\0" in line
            yield line

    reader = csv.reader(
        checked_lines(),
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_NONE if raw else csv.QUOTE_MINIMAL,
    )
    try:
        for row_number, record in enumerate(reader, start=1):
            if has_nul:
                cells = enumerate(record, start=1)
                column = next((number for number, cell in cells if "\0" in cell), 1)
                raise InputError(f"{where(file_name, row_number)}, column {column} {NUL}.")
            if record:
                yield row_number, record
    except csv.Error as error:
        location = where(file_name, row_number + 1)
        raise InputError(f"{location} {_explain(str(error), delimiter)}.") from None
    except UnicodeError:
        raise UndecodableError(where(file_name, row_number + 1), encoding) from None


def _explain(error: str, delimiter: str) -> str:
    """Explain an error message of the csv module."""
    if "unexpected end" in error:
        return "opens a quote that is never closed; close it, or write a quote inside a cell twice"
    if "field limit" in error:
        return (
            f"has a cell of more than {LIMIT:,} characters; a quotation mark before it may not be "
            "closed"
        )
    if "expected after" in error:
        between = f"between a closing quote and the next {short(delimiter)}"
        return f"has text {between}; write a quote inside a cell twice"
    return f"is not valid CSV ({error})"
