"""Publishers' files: opened, also inside their archive, and checked by columns and rows."""

import csv
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from parbals.errors import InputError, LabelError
from parbals_label.readers.open import open_source

from parbals_bench.datasets.base import Origin

__all__ = [
    "class_numbers",
    "column_numbers",
    "count_note",
    "find",
    "find_parquet",
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
    folder: Path, names: Sequence[str], origin: Origin, archives: Sequence[str] = ()
) -> Iterator[tuple[IO[bytes], str]]:
    """The bytes of a file, unpacked if it ends in .gz, or of the same file inside a packed archive.

    ``names`` are tried in order, relative to the folder; inside an archive their last part counts.
    """
    path = find(folder, names)
    try:
        if path is not None:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                yield cast("IO[bytes]", file), path.name
            return
        archive = find(folder, archives)
        if archive is None:
            raise origin.error(folder, names[0])
        wanted = {Path(name).name for name in names}
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and Path(member.name).name in wanted:
                    inside = tar.extractfile(member)
                    if inside is not None:
                        yield inside, f"{archive.name}/{Path(member.name).name}"
                        return
        raise InputError(
            f"{archive.name} has no file {names[0]}; download it again from {origin.page}."
        )
    except DAMAGED as error:
        shown = path or find(folder, archives)
        raise InputError(
            f"{shown} is damaged or cut short ({error}); delete it and download it again."
        ) from None


def find_parquet(folder: Path, stem: str, csv_names: Iterable[str]) -> Path | None:
    """The first Parquet file whose name begins with ``stem``; None where there is a CSV."""
    parquet = sorted(folder.glob(f"{stem}*.parquet")) if folder.is_dir() else []
    return parquet[0] if parquet and find(folder, csv_names) is None else None


def read_csv(
    file: IO[bytes],
    name: str,
    columns: Sequence[str],
    *,
    extra: bool = False,
    header: bool = True,
) -> dict[str, list[str]]:
    """Cells by column. Each of these columns must be there, and no other unless ``extra``.

    Without a header the columns are known by their order.
    """
    cells: dict[str, list[str]] = {column: [] for column in columns}
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    row = 0
    try:
        names = next(reader, None) if header else list(columns)
        if names is None:
            raise InputError(f"{name} is empty; its first row must name the columns.")
        _check_header(names, columns, name, extra)
        places = [(cells[column], names.index(column)) for column in columns]
        for row, record in enumerate(reader, start=2 if header else 1):
            if not record:
                continue
            if len(record) != len(names):
                raise InputError(
                    f"{name}, row {row} has {len(record)} cells instead of {len(names)}; download "
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
            text.detach()  # the caller closes the file
    if not cells[columns[0]]:
        raise InputError(f"{name} has no rows.")
    return cells


def _check_header(names: Sequence[str], needed: Sequence[str], file: str, extra: bool) -> None:
    for column in needed:
        if column not in names:
            shown = ", ".join(repr(other) for other in names[:30])
            raise InputError(f"{file} has no column {column!r}; its columns are: {shown}.")
    for column in () if extra else names:
        if column not in needed:
            raise InputError(
                f"{file} has a column {column!r} that the published file does not have; remove it."
            )


def read_parquet(path: Path, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Some columns of a Parquet file."""
    source = open_source(path)
    _check_header(source.columns, columns, path.name, extra=True)
    cells: dict[str, list[Any]] = {column: [] for column in columns}
    for _, values in source.rows():
        for column, kept in cells.items():
            kept.append(values[column])
    if not cells[columns[0]]:
        raise InputError(f"{path.name} has no rows.")
    return cells


def count_note(name: str, n_rows: int, published: int) -> tuple[str, ...]:
    """A note where rows are fewer than published; more of them cannot be the published file."""
    if n_rows > published:
        raise InputError(
            f"{name} has {n_rows:,} rows, more than the {published:,} published: is it another one?"
        )
    note = f"{name} has {n_rows:,} of the {published:,} published rows"
    return () if n_rows == published else (note,)


def class_numbers(
    labels: Sequence[Any], numbers: Mapping[Any, int], name: str, column: str, first_row: int
) -> np.ndarray:
    """Class numbers of labels as the publisher writes them."""
    y = np.array([numbers.get(label, -1) for label in labels], np.int64)
    if len(wrong := np.flatnonzero(y < 0)):
        row = int(wrong[0])
        known = ", ".join(repr(label) for label in list(numbers)[:10])
        known += ", …" if len(numbers) > 10 else ""
        raise LabelError(
            f"{name}, row {row + first_row}, column {column!r} is {labels[row]!r}; it must be one "
            f"of: {known}."
        )
    return y


def column_numbers(
    cells: Sequence[Any], name: str, column: str, first_row: int, *, allow_missing: bool = False
) -> np.ndarray:
    """A column as finite numbers; empty cells are NaN if they may be missing."""
    filled = [cell if cell != "" else "nan" for cell in cells] if allow_missing else cells
    try:
        numbers = np.array(filled).astype(np.float64)
    except (ValueError, TypeError):
        numbers = np.array([_number(cell) for cell in filled])
    wrong = np.flatnonzero(np.isinf(numbers) if allow_missing else ~np.isfinite(numbers))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{name}, row {row + first_row}, column {column!r} is {cells[row]!r}, which is not "
            "a usable number."
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
