"""Excel's .xlsx files, read with openpyxl a row at a time: the first sheet that holds something."""

import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.files import need

from parbals_label.readers.source import HEAD, Row, Source, broken, check_columns, head_of, short

__all__ = ["open_excel"]

_LARGEST = 1 << 31
"""Bytes that the unpacked parts of a file may have: more is a file made to fill the disk."""


def open_excel(path: Path) -> Source:
    """The cells as Excel shows them, formulas by their last result; the first row names columns.

    Rows and columns with nothing in them are left out; rows are numbered as Excel does.
    """
    book = _opened(path)
    try:
        filled = [name for name in book.sheetnames if any(_cells(book, name, path.name))]
    finally:
        book.close()
    if not filled:
        raise InputError(f"{path.name} is empty; the first row must name the columns.")

    def records() -> Iterator[tuple[int, list[Any]]]:
        book = _opened(path)
        try:
            yield from _cells(book, filled[0], path.name)
        finally:
            book.close()

    head = list(islice(records(), HEAD))
    (first, header), width = head[0], max(len(cells) for _, cells in head)
    named = {place: str(cell).strip() for place, cell in enumerate(header) if cell is not None}
    columns = check_columns(list(named.values()), path.name)

    def rows() -> Iterator[Row]:
        for number, cells in records():
            if number > first:
                yield Row(number, {name: _at(cells, place) for place, name in named.items()})

    notes = []
    if len(filled) > 1:
        others = ", ".join(map(short, filled[1:6]))
        notes.append(f"Of {path.name} the sheet {short(filled[0])} is read, not {others}.")
    for place in range(width):
        if place not in named and any(_at(cells, place) is not None for _, cells in head):
            notes.append(f"Column {place + 1} of {path.name} has no name and is left out.")
    return Source(columns, None, rows, "xlsx", path.name, notes=tuple(notes), head=head_of(rows))


def _at(cells: list[Any], place: int) -> Any:
    """A cell; rows may end early."""
    return cells[place] if place < len(cells) else None


def _opened(path: Path) -> Any:
    excel = need("openpyxl", "Reading Excel files", "parbals[excel]")
    try:
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
        if size > _LARGEST:
            raise InputError(f"{path.name} would unpack to {size:,} bytes; save the sheet as CSV.")
        return excel.load_workbook(path, read_only=True, data_only=True)
    except InputError:
        raise
    except Exception as error:  # openpyxl has no error of its own for what a damaged file may hold
        raise broken(path.name, error) from None


def _cells(book: Any, sheet: str, name: str) -> Iterator[tuple[int, list[Any]]]:
    """Each row of a sheet that is not empty, with its number."""
    if not hasattr(book[sheet], "iter_rows"):
        return  # a chart
    number = 0
    try:
        for number, cells in enumerate(book[sheet].iter_rows(values_only=True), start=1):
            values = [None if isinstance(c, str) and not c.strip() else c for c in cells]
            if any(value is not None for value in values):
                yield number, values
    except Exception as error:
        raise broken(name, error, number) from None
