"""What every reader hands over: columns, and rows that can be walked more than once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from parbals.errors import InputError, first_line

from parbals_label.readers.cells import plain_text

__all__ = ["HEAD", "Row", "Source", "broken", "check_column", "check_columns", "head_of"]
__all__ += ["short", "where"]

MAX_COLUMNS = 20_000
HEAD = 1_000
"""Rows by which the contents of columns are guessed."""


class Row(NamedTuple):
    """One record. ``number`` is what a person would look for in the file, counted from 1.

    In CSV and TSV it is the row a spreadsheet shows, so the header is row 1 and the first record
    row 2. Formats without a header start at 1: the line of a JSONL file, the record of a Parquet
    file, the row of an array.
    """

    number: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A user's data, opened but not loaded: what one look at the file found out.

    ``rows()`` starts a new walk each time. ``n_rows`` is None where only a walk would tell.
    ``features`` is an (N, D) array, memory-mapped where the format allows it. ``encoding`` is what
    a text file was read as. ``notes`` are sentences about how it was read. ``head`` are the first
    rows, by which everything else about the columns is guessed.
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
    """The first rows of a walk, up to one that it refuses."""
    head: list[Row] = []
    with suppress(InputError):
        for row in islice(rows(), HEAD):
            head.append(row)
    return tuple(head)


def where(name: str, row: int, column: str | None = None) -> str:
    """The place of a fault, as every message writes it."""
    place = f"{name}, row {row}"
    return place if column is None else f"{place}, column {column!r}"


def broken(name: str, error: BaseException, after: int | None = None) -> InputError:
    """A file that cannot be read on, ``after`` a row that could be."""
    place = "" if after is None else f" (after row {after})"
    what = f"is damaged or not what its name says ({first_line(error)}); save it again"
    return InputError(f"{name} {what}{place}.")


def short(value: Any, limit: int = 60) -> str:
    """A value as it may stand in a message: quoted, without control characters, not too long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def check_columns(columns: list[str], name: str) -> list[str]:
    """Column names that can be used as keys: each is there, and there once."""
    if len(columns) > MAX_COLUMNS:
        raise InputError(f"{name} has {len(columns)} columns; at most {MAX_COLUMNS} can be read.")
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
    """The column, if the source has it."""
    if column not in source.columns:
        known = ", ".join(short(name) for name in source.columns[:20]) or "none"
        raise InputError(f"{source.name} has no column {short(column)}; its columns are: {known}.")
    return column
