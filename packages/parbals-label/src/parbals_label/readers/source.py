"""The result of every reader: columns, and rows that can be iterated more than once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from parbals.errors import InputError, first_line

from parbals_label.readers.cells import plain_text

__all__ = [
    "HEAD",
    "MAX_COLUMNS",
    "Row",
    "Source",
    "broken",
    "check_column",
    "check_columns",
    "check_growth",
    "check_n_columns",
    "head_of",
    "short",
    "where",
]

MAX_COLUMNS = 20_000
HEAD = 1_000
"""Number of first rows from which the kinds of columns are inferred."""


_BOMB_RATIO = 100
"""A larger compression ratio looks like a bomb; features reach 10, one-hot columns 50."""
_BOMB_BYTES = 1 << 28
"""Less unpacked data is never called a bomb."""


class Row(NamedTuple):
    """One record. ``number`` is how people count it in the file, from 1.

    In CSV and TSV it is the row in a spreadsheet, so the header is row 1 and the first record
    row 2. Formats without a header start at 1: the line of a JSONL file, the record of a Parquet
    file, the row of an array.
    """

    number: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A user's data, opened but not loaded.

    Attributes:
        columns: the names of the columns.
        n_rows: None if it is known only after reading all rows.
        rows: starts a new iteration over the rows.
        kind: the format.
        name: the name of the file, for messages.
        features: an array (N, D), memory-mapped where the format allows it.
        encoding: the encoding of a text file.
        notes: sentences about how it was read.
        head: the first rows, from which everything else about the columns is inferred.
    """

    columns: list[str]
    n_rows: int | None
    rows: Callable[[], Iterator[Row]]
    kind: str
    name: str
    features: np.ndarray | None = None
    encoding: str | None = None
    notes: tuple[str, ...] = ()
    head: tuple[Row, ...] = ()


def head_of(rows: Callable[[], Iterator[Row]]) -> tuple[Row, ...]:
    """Return the first rows, up to one that is refused."""
    head: list[Row] = []
    with suppress(InputError):
        for row in islice(rows(), HEAD):
            head.append(row)
    return tuple(head)


def where(name: str, row: int, column: str | None = None) -> str:
    """Return the location of a fault, as every message writes it.

    >>> where("mail.csv", 7, "text")
    "mail.csv, row 7, column 'text'"
    """
    location = f"{name}, row {row}"
    if column is None:
        return location
    return f"{location}, column {column!r}"


def broken(name: str, error: BaseException, after: int | None = None) -> InputError:
    """Return the error for a file that cannot be read, or not beyond the row ``after``."""
    location = "" if after is None else f" (after row {after})"
    fault = f"is damaged or not what its name says ({first_line(error)}); save it again"
    return InputError(f"{name} {fault}{location}.")


def short(value: Any, limit: int = 60) -> str:
    """Return a value for a message: quoted, without control characters, not too long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def check_growth(packed_size: int, unpacked_size: int, name: str, instead: str) -> None:
    """Refuse data that unpacking enlarges like a bomb; ``instead`` is how to save real data."""
    if unpacked_size > max(_BOMB_BYTES, packed_size * _BOMB_RATIO):
        raise InputError(
            f"{name} would grow from {packed_size:,} to {unpacked_size:,} bytes or more, which "
            f"looks like a bomb; if the data is real, {instead}."
        )


def check_n_columns(n_columns: int, name: str) -> None:
    """Refuse more columns than a table of people has."""
    if n_columns > MAX_COLUMNS:
        raise InputError(f"{name} has {n_columns:,} columns; at most {MAX_COLUMNS:,} can be read.")


def check_columns(columns: list[str], name: str) -> list[str]:
    """Return column names, or refuse blank and repeated ones."""
    check_n_columns(len(columns), name)
    first: dict[str, int] = {}
    for position, column in enumerate(columns, start=1):
        if not column.strip():
            raise InputError(
                f"{name}, row 1: column {position} has no name; give it one, or delete the column."
            )
        try:
            plain_text(column)
        except ValueError as error:
            raise InputError(
                f"{name}, row 1: the name of column {position} {error}; rename it."
            ) from None
        if column in first:
            raise InputError(
                f"{name}, row 1: the name {short(column)} is used by columns {first[column]} and "
                f"{position}; rename one of them."
            )
        first[column] = position
    return columns


def check_column(source: Source, column: str) -> str:
    """Return the column, or refuse one that the source does not have."""
    if column not in source.columns:
        known = ", ".join(short(name) for name in source.columns[:20]) or "none"
        raise InputError(f"{source.name} has no column {short(column)}; its columns are: {known}.")
    return column
