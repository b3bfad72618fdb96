"""Publishers' files: found, opened (also inside their archive), and checked by column name and by
number of rows."""

import csv
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from parbals.datasets.base import MissingData
from parbals.errors import InputError, LabelError

__all__ = [
    "class_numbers",
    "column_numbers",
    "count_note",
    "find",
    "open_member",
    "read_csv",
    "read_matrix",
    "read_parquet",
    "read_vector",
]

DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError)


def find(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


@contextmanager
def open_member(
    folder: Path, names: Sequence[str], source: MissingData, archives: Sequence[str] = ()
) -> Iterator[tuple[IO[bytes], str]]:
    """The bytes of a file, unpacked if it ends in .gz, or of the same file inside an archive that
    was not unpacked.

    ``names`` are tried in order, relative to the folder. Inside an archive the last part of a name
    decides.
    """
    path = find(folder, names)
    try:
        if path is not None:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                yield cast("IO[bytes]", file), path.name
            return
        archive = find(folder, archives)
        if archive is None:
            raise source.error(folder, names[0])
        wanted = {Path(name).name for name in names}
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and Path(member.name).name in wanted:
                    inside = tar.extractfile(member)
                    if inside is not None:
                        yield inside, f"{archive.name}/{Path(member.name).name}"
                        return
        raise InputError(
            f"{archive.name} holds no file {names[0]}; download it again from {source.page}."
        )
    except DAMAGED as error:
        shown = path or find(folder, archives)
        raise InputError(
            f"{shown} is damaged or cut short ({error}); delete it and download it again."
        ) from None


def read_csv(
    file: IO[bytes],
    name: str,
    columns: Sequence[str],
    *,
    wanted: Sequence[str] | None = None,
    header: bool = True,
) -> dict[str, list[str]]:
    """Cells by column.

    ``columns`` are those the publisher writes: each must be there, and no other.

    ``wanted`` limits the check, and what is kept, to some of them; then further columns do not
    matter. Without a header the columns are known by their order.
    """
    kept = list(columns if wanted is None else wanted)
    cells: dict[str, list[str]] = {column: [] for column in kept}
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    row = 0
    try:
        found = next(reader, None) if header else list(columns)
        if found is None:
            raise InputError(f"{name} is empty; its first row must name the columns.")
        _check_header(found, kept, None if wanted is None else (), name)
        places = [(cells[column], found.index(column)) for column in kept]
        for row, record in enumerate(reader, start=2 if header else 1):
            if not record:
                continue
            if len(record) != len(found):
                raise InputError(
                    f"{name}, row {row} has {len(record)} cells instead of {len(found)}; download "
                    "it again."
                )
            for column, place in places:
                column.append(record[place])
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8 text after row {row}; download it again.") from None
    except csv.Error as error:
        raise InputError(
            f"{name}, row {row + 1} is not valid CSV ({error}); download it again."
        ) from None
    finally:
        with suppress(ValueError, *DAMAGED):
            text.detach()  # whoever opened the file closes it
    if not cells[kept[0]]:
        raise InputError(f"{name} has no rows.")
    return cells


def _check_header(
    found: Sequence[str], needed: Sequence[str], optional: Sequence[str] | None, name: str
) -> None:
    """``optional`` None: nothing else may be there."""
    for column in needed:
        if column not in found:
            shown = ", ".join(repr(other) for other in found[:30])
            raise InputError(f"{name} has no column {column!r}; its columns are: {shown}.")
    if optional is None:
        for column in found:
            if column not in needed:
                raise InputError(
                    f"{name} has a column {column!r} that the published file does not have; remove "
                    "it."
                )


def read_parquet(path: Path, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Some columns of a Parquet file."""
    from parbals.readers.open import open_source

    source = open_source(path)
    _check_header(source.columns, columns, (), path.name)
    cells: dict[str, list[Any]] = {column: [] for column in columns}
    for _, values in source.rows():
        for column, kept in cells.items():
            kept.append(values[column])
    if not cells[columns[0]]:
        raise InputError(f"{path.name} has no rows.")
    return cells


def count_note(name: str, found: int, published: int) -> tuple[str, ...]:
    """A note where rows are fewer than published; more of them cannot be the published file."""
    if found > published:
        raise InputError(
            f"{name} has {found:,} rows, more than the {published:,} published; is it another file?"
        )
    return (
        () if found == published else (f"{name} has {found:,} of the {published:,} published rows",)
    )


def class_numbers(
    labels: Sequence[Any], table: dict[Any, int], name: str, column: str, first_row: int
) -> np.ndarray:
    """Class numbers of labels as the publisher writes them."""
    numbers = np.array([table.get(label, -1) for label in labels], np.int64)
    if len(wrong := np.flatnonzero(numbers < 0)):
        row = int(wrong[0])
        known = ", ".join(repr(label) for label in list(table)[:10])
        raise LabelError(
            f"{name}, row {row + first_row}, column {column!r} is {labels[row]!r}; it must be one "
            f"of: {known}."
        )
    return numbers


def column_numbers(
    cells: Sequence[Any], name: str, column: str, first_row: int, *, allow_missing: bool = False
) -> np.ndarray:
    """A column as finite numbers, or one sentence about the first that is none; empty is NaN if
    that is allowed."""
    given = [cell if cell != "" else "nan" for cell in cells] if allow_missing else cells
    try:
        numbers = np.array(given).astype(np.float64)
    except (ValueError, TypeError):
        numbers = np.array([_number(cell) for cell in given])
    wrong = np.flatnonzero(np.isinf(numbers) if allow_missing else ~np.isfinite(numbers))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{name}, row {row + first_row}, column {column!r} is {cells[row]!r}, which is no "
            "usable number."
        )
    return numbers


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
