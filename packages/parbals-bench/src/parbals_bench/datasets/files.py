"""Publishers' files, also inside their archive: tables checked by columns and rows, arrays."""

import lzma
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, LabelError
from parbals_label.readers.open import open_source
from parbals_label.readers.source import check_column, where

from parbals_bench.datasets.base import Origin

__all__ = [
    "Table",
    "count_note",
    "find",
    "find_parquet",
    "published_file",
    "read_matrix",
    "read_table",
    "read_vector",
]

DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError)


def find(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def find_parquet(folder: Path, stem: str, csv_names: Iterable[str]) -> Path | None:
    """The first Parquet file whose name begins with ``stem``; None where there is a CSV."""
    parquet = sorted(folder.glob(f"{stem}*.parquet")) if folder.is_dir() else []
    return parquet[0] if parquet and find(folder, csv_names) is None else None


@contextmanager
def published_file(
    folder: Path, names: Sequence[str], origin: Origin, archives: Sequence[str] = ()
) -> Iterator[Path]:
    """The first of these files that is there, or that is inside a packed archive, unpacked.

    Names are relative to the folder; inside an archive their last part counts.
    """
    path = find(folder, names)
    archive = find(folder, archives)
    try:
        if path is not None:
            yield path
            return
        if archive is None:
            raise origin.error(folder, names[0])
        with tarfile.open(archive) as tar, tempfile.TemporaryDirectory() as unpacked:
            base_names = {Path(name).name for name in names}
            files = (member for member in tar if member.isfile())
            member = next((file for file in files if Path(file.name).name in base_names), None)
            if member is None:
                raise InputError(
                    f"{archive.name} has no file {names[0]}; download it again from {origin.page}."
                )
            member.name = Path(member.name).name
            tar.extract(member, unpacked, filter="data")
            yield Path(unpacked) / member.name
    except DAMAGED as error:
        raise InputError(
            f"{path or archive} is damaged or cut short ({error}); delete it and download it again."
        ) from None


@dataclass(frozen=True)
class Table:
    """Cells by column, and what messages call the file and its first row."""

    name: str
    cells: Mapping[str, list[Any]]
    first_row: int

    def classes(self, column: str, numbers: Mapping[Any, int]) -> np.ndarray:
        """Class numbers of a column of labels as the publisher writes them."""
        y = np.array([numbers.get(label, -1) for label in self.cells[column]], np.int64)
        labels = ", ".join(repr(label) for label in list(numbers)[:10])
        labels += ", …" if len(numbers) > 10 else ""
        self._refuse(column, y < 0, f"it must be one of: {labels}", LabelError)
        return y

    def numbers(self, column: str, *, allow_missing: bool = False) -> np.ndarray:
        """A column as finite numbers; empty cells are NaN if they may be missing."""
        cells = self.cells[column]
        filled = [cell if cell != "" else "nan" for cell in cells] if allow_missing else cells
        try:
            numbers = np.array(filled).astype(np.float64)
        except (ValueError, TypeError):
            numbers = np.array([_number(cell) for cell in filled])
        wrong = np.isinf(numbers) if allow_missing else ~np.isfinite(numbers)
        self._refuse(column, wrong, "a usable number is needed")
        return numbers

    def shares(self, column: str) -> np.ndarray:
        """A column of numbers from 0 to 1."""
        numbers = self.numbers(column)
        self._refuse(column, (numbers < 0.0) | (numbers > 1.0), "a share from 0 to 1 is needed")
        return numbers

    def _refuse(
        self, column: str, wrong: np.ndarray, needed: str, error: type[InputError] = InputError
    ) -> None:
        for row in np.flatnonzero(wrong)[:1]:
            cell = where(self.name, row + self.first_row, column)
            raise error(f"{cell} is {self.cells[column][row]!r}; {needed}.")


def read_table(path: Path, columns: Sequence[str], *, header: bool = True) -> Table:
    """Some columns of a CSV or Parquet file; without a header those are all, in this order."""
    is_csv = path.suffix != ".parquet"
    names = () if header else columns
    source = open_source(path, encoding="utf-8" if is_csv else None, names=names)
    for column in columns:
        check_column(source, column)
    cells: dict[str, list[Any]] = {column: [] for column in columns}
    for _, values in source.rows():
        for column, column_cells in cells.items():
            column_cells.append(values[column])
    if not cells[columns[0]]:
        raise InputError(f"{path.name} has no rows.")
    return Table(path.name, cells, 2 if is_csv and header else 1)


def count_note(name: str, n_rows: int, published: int) -> tuple[str, ...]:
    """A note where rows are fewer than published; more of them cannot be the published file."""
    if n_rows > published:
        raise InputError(
            f"{name} has {n_rows:,} rows, more than the {published:,} published: is it another one?"
        )
    note = f"{name} has {n_rows:,} of the {published:,} published rows"
    return () if n_rows == published else (note,)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (ValueError, TypeError):
        return float("inf")


def read_matrix(path: Path, n_rows: int, what: str) -> np.ndarray:
    """A memory-mapped 2-D array of numbers with one row for each row of ``what``."""
    array = _read_npy(path, mapped=True)
    if array.ndim != 2 or array.dtype.kind != "f":
        raise InputError(
            f"{path.name} has shape {array.shape} and type {array.dtype}; rows of real numbers are "
            "needed."
        )
    if len(array) != n_rows:
        raise InputError(
            f"{path.name} has {len(array):,} rows but {what} has {n_rows:,}; make the features "
            "again."
        )
    return array


def read_vector(path: Path, n_classes: int) -> np.ndarray:
    """A 1-D array of class numbers."""
    array = _read_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError(
            f"{path.name} has shape {array.shape} and type {array.dtype}; class numbers are needed."
        )
    if len(wrong := np.flatnonzero((array < 0) | (array >= n_classes))):
        raise LabelError(
            f"{path.name}, row {wrong[0]} is {array[wrong[0]]}; classes are 0 to {n_classes - 1}."
        )
    return array.astype(np.int64)


def _read_npy(path: Path, mapped: bool = False) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{path} cannot be read as a NumPy array ({error}); make it again."
        ) from None
