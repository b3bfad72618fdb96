"""Excel files (.xlsx), read with openpyxl row by row: the first sheet that is not empty."""

import zipfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from parbals.errors import InputError
from parbals.files import need

from parbals_label.readers.source import (
    HEAD,
    Row,
    Source,
    broken,
    check_columns,
    check_growth,
    head_of,
    short,
)

__all__ = ["open_excel"]


def open_excel(path: Path) -> Source:
    """Open a sheet: cells as Excel shows them, formulas by their last result.

    The first row names the columns. Empty rows and columns are left out; rows are numbered as in
    Excel.
    """
    with _open_workbook(path) as book:
        sheets = [name for name in book.sheetnames if any(_cells(book, name, path.name))]
    if not sheets:
        raise InputError(f"{path.name} is empty; the first row must name the columns.")

    def records() -> Generator[tuple[int, list[Any]]]:
        with _open_workbook(path) as book:
            yield from _cells(book, sheets[0], path.name)

    with closing(records()) as first_records:  # closes the file now, not when it is collected
        head = list(islice(first_records, HEAD))
    header_row, header = head[0]
    width = max(len(cells) for _, cells in head)
    names = {index: str(cell).strip() for index, cell in enumerate(header) if cell is not None}
    columns = check_columns(list(names.values()), path.name)

    def rows() -> Iterator[Row]:
        for number, cells in records():
            if number > header_row:
                yield Row(number, {name: _cell_at(cells, index) for index, name in names.items()})

    notes = []
    if len(sheets) > 1:
        others = ", ".join(map(short, sheets[1:6]))
        notes.append(f"Only the sheet {short(sheets[0])} of {path.name} is read, not {others}.")
    for index in range(width):
        if index not in names and any(_cell_at(cells, index) is not None for _, cells in head):
            notes.append(f"Column {index + 1} of {path.name} has no name and is left out.")
    return Source(columns, None, rows, "xlsx", path.name, notes=tuple(notes), head=head_of(rows))


def _cell_at(cells: list[Any], index: int) -> Any:
    """Return a cell; None beyond the end of a short row."""
    return cells[index] if index < len(cells) else None


@contextmanager
def _open_workbook(path: Path) -> Iterator[Any]:
    """Open a file, and close it at the end.

    openpyxl gets an open file, because closing the book leaves a file of its own open as long as
    a sheet was read in part.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise broken(path.name, error) from None
    with file:
        book = _load_workbook(file, path)
        try:
            yield book
        finally:
            book.close()


def _load_workbook(file: BinaryIO, path: Path) -> Any:
    excel = need("openpyxl", "Reading Excel files", "parbals[excel]")
    try:
        with zipfile.ZipFile(file) as parts:
            size = sum(part.file_size for part in parts.infolist())
        check_growth(path.stat().st_size, size, path.name, "save the sheet as CSV")
        return excel.load_workbook(file, read_only=True, data_only=True)
    except InputError:
        raise
    except Exception as error:  # openpyxl raises many kinds of errors for damaged files
        raise broken(path.name, error) from None


def _cells(book: Any, sheet: str, name: str) -> Iterator[tuple[int, list[Any]]]:
    """Iterate over the rows of a sheet that are not empty, with their numbers."""
    if not hasattr(book[sheet], "iter_rows"):
        return  # a chart sheet
    number = 0
    try:
        for number, cells in enumerate(book[sheet].iter_rows(values_only=True), start=1):
            values = [None if isinstance(c, str) and not c.strip() else c for c in cells]
            if any(value is not None for value in values):
                yield number, values
    except Exception as error:
        raise broken(name, error, number) from None
