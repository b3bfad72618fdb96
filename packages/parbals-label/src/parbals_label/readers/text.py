"""Delimited text tables (CSV, TSV), read as a stream, in whatever encoding they were saved."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from parbals.errors import InputError

from parbals_label.readers.encoding import LIMIT, NUL, encoding_of, lines_of, open_text, undecodable
from parbals_label.readers.layout import counts_tabs_alike, is_headless, sniff_delimiter
from parbals_label.readers.source import Row, Source, check_columns, short, where

__all__ = ["open_delimited"]

_SEEN = 200


@dataclass(frozen=True)
class _Layout:
    """How a delimited file is read.

    ``forgiving`` is for one that a spreadsheet has saved. ``raw``: quotes are ordinary characters.
    """

    path: Path
    encoding: str
    delimiter: str
    has_sep_line: bool = False
    forgiving: bool = False
    raw: bool = False
    has_header: bool = True

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Each record with its row; blank lines are counted, as spreadsheets do, and left out."""
        csv.field_size_limit(LIMIT)
        name, row, nul = self.path.name, 0, False

        def watched(lines: Iterable[str]) -> Iterator[str]:
            nonlocal nul
            for line in lines:
                nul = nul or "\0" in line
                yield line

        with open_text(self.path, self.encoding) as file:
            try:
                if self.has_sep_line:
                    file.readline(LIMIT)
                for row, record in enumerate(
                    csv.reader(
                        watched(lines_of(file)),
                        delimiter=self.delimiter,
                        strict=True,
                        quoting=csv.QUOTE_NONE if self.raw else csv.QUOTE_MINIMAL,
                    ),
                    start=1,
                ):
                    if nul:
                        cells = enumerate(record, start=1)
                        column = next((place for place, cell in cells if "\0" in cell), 1)
                        raise InputError(f"{where(name, row)}, column {column} {NUL}.")
                    if record:
                        yield row, record
            except csv.Error as error:
                raise InputError(
                    f"{where(name, row + 1)} {_explain(str(error), self.delimiter)}."
                ) from None
            except UnicodeError:
                raise InputError(undecodable(name, row + 1, self.encoding)) from None


def _explain(error: str, delimiter: str) -> str:
    if "unexpected end" in error:
        return "opens a quote that is never closed; close it, or write a quote inside a cell twice"
    if "field limit" in error:
        return f"has a cell of more than {LIMIT:,} characters; is a quote left open"
    if "expected after" in error:
        place = f"between a closing quote and the next {short(delimiter)}"
        return f"has text {place}; write a quote inside a cell twice"
    return f"is not valid CSV ({error})"


def open_delimited(
    path: Path,
    kind: str,
    encoding: str | None = None,
    forgiving: bool = False,
    names: Sequence[str] | None = None,
) -> Source:
    """A CSV or TSV file.

    ``names`` are those of the columns of a file that has no header row; where the first row is
    plainly data, its columns are called "column 1", "column 2", ... A column without a name is
    called likewise. ``forgiving`` reads what spreadsheets make of a file: unnamed columns are left
    out, and rows that end early are filled up, because Excel leaves off the last delimiters of a
    block of rows whose last column is empty.
    """
    encoding = encoding_of(path, encoding)
    delimiter, has_sep_line = sniff_delimiter(path, encoding)
    if kind == "tsv" and not has_sep_line:
        delimiter = "\t"
    layout = _Layout(path, encoding, delimiter, has_sep_line, forgiving)
    notes: list[str] = []
    if delimiter == "\t" and not forgiving and _is_raw(layout):
        layout = replace(layout, raw=True)
        notes.append(f"The quotation marks in {path.name} are part of its cells.")
    first = list(islice((record for _, record in layout.records()), _SEEN))
    if not first:
        raise InputError(f"{path.name} is empty; the first row must name the columns.")
    header = first[0]
    numbered = [f"column {place}" for place in range(1, len(header) + 1)]
    if forgiving:
        named = [column for column in header if column.strip()]
    elif names is not None or is_headless(first):
        layout = replace(layout, has_header=False)
        header = named = list(names or numbered)
        if len(named) != len(first[0]):
            raise InputError(
                f"{len(named)} names were given for the columns of {path.name}, and its first row "
                f"has {len(first[0])} cells."
            )
        notes += (
            [] if names else [f"{path.name} has no header row: its columns are {_listed(named)}."]
        )
    else:
        named = [name if name.strip() else new for name, new in zip(header, numbered, strict=True)]
        if unnamed := [new for new in named if new not in header]:
            notes.append(f"A column without a name is called {_listed(unnamed)}.")
        header = named
    columns = check_columns(named, path.name)
    rows = partial(_delimited_rows, layout, header)
    return Source(columns, None, rows, kind, path.name, encoding=encoding, notes=tuple(notes))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(short, names[:5]))
    return f"{shown}, …" if len(names) > 5 else shown


def _is_raw(layout: _Layout) -> bool:
    """Whether quotes in a file with tabs mean nothing: read as quotes they break or join its rows.

    Only where every line has the same number of tabs: a quoted cell of several lines would not.
    """
    n_lines = counts_tabs_alike(layout.path, layout.encoding)
    if n_lines is None:
        return False
    try:
        return sum(1 for _ in layout.records()) != n_lines
    except InputError:
        return True


def _delimited_rows(layout: _Layout, header: list[str]) -> Iterator[Row]:
    records = layout.records()
    if layout.has_header:
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
    whole = "header" if layout.has_header else "first row"
    return (
        f"{where(layout.path.name, row)} has {len(record)} cells and the {whole} {len(header)}, so "
        f"there is {fault}; put quotes around cells that contain {short(layout.delimiter)}."
    )
