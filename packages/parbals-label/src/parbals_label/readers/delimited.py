"""Delimited text tables (CSV, TSV), read as a stream, in whatever encoding they were saved.

One look at a file, :func:`_look`, finds out all that is to be known about it (encoding, delimiter,
header, what quotes mean, the first rows); every walk over its rows follows that :class:`Layout`.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

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
from parbals_label.readers.source import HEAD, Row, Source, check_columns, short, where

__all__ = ["Layout", "open_delimited"]

_SEP_LINE = re.compile(r'"?sep=([,;|\t])"?[\r\n]*', re.IGNORECASE)
_LINES = 50
"""Lines by which the delimiter is guessed."""
_NUMBER = re.compile(r"[-+\d.,\s%]*")


@dataclass(frozen=True)
class Layout:
    """How a delimited file is read.

    Attributes:
        errors: what becomes of bytes that are not in the encoding, strict or replace.
        has_sep_line: the first line only names the delimiter, as ``sep=;``.
        forgiving: a spreadsheet has saved it.
        raw: quotes are ordinary characters.
        header: the columns' names, those of the file or given ones.
        records: the first ones, without the header.
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
        """A walk over the file."""
        with open_text(self.path, self.encoding, self.errors) as file:
            if self.has_sep_line:
                file.readline(LIMIT)
            records = _records(
                lines_of(file), self.path.name, self.encoding, self.delimiter, self.raw
            )
            if self.has_header:
                next(records, None)
            for row, record in records:
                yield self._row(row, record)

    def head(self) -> tuple[Row, ...]:
        """The first rows, up to one that the walk refuses."""
        rows: list[Row] = []
        with suppress(InputError):
            for row, record in self.records:
                rows.append(self._row(row, record))
        return tuple(rows)

    def _row(self, row: int, record: list[str]) -> Row:
        width = len(self.header)
        if len(record) != width and self.forgiving and not any(record[width:]):
            # Missing last cells are empty; superfluous ones may go if nothing is in them.
            record = record[:width] + [""] * (width - len(record))
        if len(record) != width:
            raise InputError(self._ragged(row, record))
        pairs = zip(self.header, record, strict=True)
        return Row(row, {name: cell for name, cell in pairs if name.strip()})

    def _ragged(self, row: int, record: list[str]) -> str:
        fault = f"more after column {self.header[-1]!r}"
        if len(record) < len(self.header):
            fault = f"nothing for column {self.header[len(record)]!r}"
        whole = "header" if self.has_header else "first row"
        return (
            f"{where(self.path.name, row)} has {len(record)} cells and the {whole} "
            f"{len(self.header)}, so there is {fault}; put quotes around cells that contain "
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
    """A CSV or TSV file; of the kind "txt" only where all its lines have the same number of tabs.

    ``names`` are those of the columns of a file that has no header row; where the first row is
    plainly data, its columns are called "column 1", "column 2", ... A column without a name is
    called likewise. ``forgiving`` reads what spreadsheets make of a file: unnamed columns are left
    out, and rows that end early are filled up, because Excel leaves off the last delimiters of a
    block of rows whose last column is empty.
    """
    layout = decoding(
        path,
        encoding,
        errors,
        lambda known, errors: _look(path, kind, known, errors, forgiving, names),
    )
    return Source(
        check_columns([name for name in layout.header if name.strip()], path.name),
        None,
        layout.rows,
        "csv" if kind == "csv" else "tsv",
        path.name,
        encoding=layout.encoding,
        notes=tuple(layout.notes),
        head=layout.head(),
    )


def _look(
    path: Path, kind: str, encoding: str | None, errors: str, forgiving: bool, names: Sequence[str]
) -> Layout:
    csv.field_size_limit(LIMIT)
    error: InputError | None = None
    records: list[tuple[int, list[str]]] = []
    n_records = 0
    with open_text(path, encoding, errors) as file:
        found = encoding or file.encoding
        lines = lines_of(file)
        try:
            sample = list(islice(lines, _LINES))
        except UnicodeError:
            raise UndecodableError(where(path.name, 1), found) from None
        except csv.Error as too_long:
            raise InputError(f"{where(path.name, 1)} {_explain(str(too_long), ',')}.") from None
        named = _SEP_LINE.fullmatch(sample[0]) if sample else None
        delimiter = named[1] if named else _likeliest(sample) if kind == "csv" else "\t"
        tabs = _Tabs()
        counted = tabs.count(chain(sample[1:] if named else sample, lines))
        try:
            for row, record in _records(counted, path.name, found, delimiter, raw=False):
                n_records += 1
                if n_records <= HEAD:
                    records.append((row, record))
                elif delimiter != "\t" or forgiving:
                    break
        except InputError as fault:
            error = fault
        if isinstance(error, UndecodableError):
            raise error
        # To the end: is all of it what it seems to be?
        if encoding in (None, GUESS) or delimiter == "\t":
            try:
                with suppress(csv.Error):  # the walk reports a line that is too long
                    for _ in counted:
                        pass
            except UnicodeError:
                raise UndecodableError(where(path.name, n_records + 1), found) from None
    if kind == "txt" and not tabs.alike:
        raise error or InputError(
            f"{path.name} cannot be read: its lines have no tabs, or not all the same number; "
            "give it the ending .csv or .tsv."
        )
    # Quotes mean nothing where read as quotes they break or join the rows of a file with tabs: only
    # where every line has the same number of tabs, which a quoted cell of several lines would not.
    raw = delimiter == "\t" and not forgiving and tabs.alike
    raw = raw and (error is not None or n_records != tabs.n_lines)
    notes = [*replaced(path.name, found, errors)]
    if raw:
        records = list(_records(iter(tabs.first), path.name, found, delimiter, raw=True))
        notes.append(f"The quotation marks in {path.name} are part of its cells.")
    elif error is not None:
        raise error
    if not records:
        raise InputError(f"{path.name} is empty; the first row must name the columns.")
    header, has_header, more = _header(records, path.name, forgiving, names)
    return Layout(
        path,
        found,
        errors,
        delimiter,
        named is not None,
        forgiving,
        raw,
        has_header,
        header,
        records[has_header:],
        notes + more,
    )


def _header(
    records: list[tuple[int, list[str]]], name: str, forgiving: bool, names: Sequence[str]
) -> tuple[list[str], bool, list[str]]:
    """The columns' names, whether the first record holds them, and what there is to say of that."""
    first = records[0][1]
    numbered = [f"column {place}" for place in range(1, len(first) + 1)]
    if forgiving:
        return first, True, []
    if names or _is_headless([record for _, record in records]):
        named = list(names or numbered)
        if len(named) != len(first):
            raise InputError(
                f"{len(named)} names were given for the columns of {name}, and its first row has "
                f"{len(first)} cells."
            )
        note = f"{name} has no header row: its columns are {_listed(named)}."
        return named, False, [] if names else [note]
    named = [given if given.strip() else new for given, new in zip(first, numbered, strict=True)]
    unnamed = [new for new in named if new not in first]
    note = f"A column without a name is called {_listed(unnamed)}."
    return named, True, [note] if unnamed else []


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(short, names[:5]))
    return f"{shown}, …" if len(names) > 5 else shown


def _likeliest(sample: list[str]) -> str:
    """The delimiter among , ; and tab by which most lines have as many cells as the first."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths: list[int] = []
        with suppress(csv.Error):  # the full reading reports what is wrong
            widths.extend(
                len(record) for record in csv.reader(sample, delimiter=delimiter) if record
            )
        if not widths or widths[0] == 1:
            return 0.0, 1
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    return max(",;\t", key=fit)


class _Tabs:
    """Counts tabs while lines go by, and keeps the first lines."""

    def __init__(self) -> None:
        self.n_lines, self.n_tabs, self.first = 0, 0, list[str]()
        self._alike = True

    @property
    def alike(self) -> bool:
        return self._alike and self.n_tabs > 0

    def count(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line.strip("\r\n"):
                n_tabs = line.count("\t")
                if self.n_lines == 0:
                    self.n_tabs = n_tabs
                self._alike = self._alike and n_tabs == self.n_tabs
                self.n_lines += 1
            if len(self.first) < HEAD:
                self.first.append(line)
            yield line


def _is_headless(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some records is data: one of its words stands below it again.

    A word such as a label; not one that is the only entry of its column, as in exports of boxes
    that were ticked, nor a header that is repeated as a whole.
    """
    header, *below = records
    if header in below:
        return False
    for place, name in enumerate(header):
        if not name.strip() or _NUMBER.fullmatch(name):
            continue
        entries = {record[place] for record in below if len(record) > place and record[place]}
        if name in entries and len(entries) > 1:
            return True
    return False


def _records(
    lines: Iterator[str], name: str, encoding: str, delimiter: str, raw: bool
) -> Iterator[tuple[int, list[str]]]:
    """Each record with its row; blank lines are counted, as spreadsheets do, and left out."""
    csv.field_size_limit(LIMIT)
    row, nul = 0, False

    def watched() -> Iterator[str]:
        nonlocal nul
        for line in lines:
            nul = nul or "\0" in line
            yield line

    reader = csv.reader(
        watched(),
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_NONE if raw else csv.QUOTE_MINIMAL,
    )
    try:
        for row, record in enumerate(reader, start=1):
            if nul:
                cells = enumerate(record, start=1)
                column = next((place for place, cell in cells if "\0" in cell), 1)
                raise InputError(f"{where(name, row)}, column {column} {NUL}.")
            if record:
                yield row, record
    except csv.Error as error:
        raise InputError(f"{where(name, row + 1)} {_explain(str(error), delimiter)}.") from None
    except UnicodeError:
        raise UndecodableError(where(name, row + 1), encoding) from None


def _explain(error: str, delimiter: str) -> str:
    if "unexpected end" in error:
        return "opens a quote that is never closed; close it, or write a quote inside a cell twice"
    if "field limit" in error:
        return f"has a cell of more than {LIMIT:,} characters; is a quote left open"
    if "expected after" in error:
        place = f"between a closing quote and the next {short(delimiter)}"
        return f"has text {place}; write a quote inside a cell twice"
    return f"is not valid CSV ({error})"
