"""JSONL: one JSON object a line, read as a stream."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.readers.encoding import LIMIT, NUL, encoding_of, lines_of, open_text, undecodable
from parbals.readers.source import MAX_COLUMNS, Row, Source, check_columns, short, where

__all__ = ["open_jsonl"]


def open_jsonl(path: Path, encoding: str | None = None) -> Source:
    """One JSON object a line; it is walked once for the keys, and one that a line lacks is None."""
    encoding = encoding_of(path, encoding)
    columns: dict[str, None] = {}
    n_rows = 0
    for row, values in _objects(path, encoding):
        n_rows += 1
        for key in values.keys() - columns.keys():
            if not key.strip() or len(columns) == MAX_COLUMNS:
                many = f"brings more than {MAX_COLUMNS} different keys"
                fault = many if key.strip() else "has a key without a name"
                raise InputError(f"{where(path.name, row)} {fault}.")
        columns.update(dict.fromkeys(values))
    if not columns:
        raise InputError(f"{path.name} is empty; each line must be a JSON object.")
    names = check_columns(list(columns), path.name)

    def rows() -> Iterator[Row]:
        for row, values in _objects(path, encoding):
            yield Row(row, {name: values.get(name) for name in names})

    return Source(names, n_rows, rows, "jsonl", path.name, encoding=encoding)


def _objects(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    row = 0
    with open_text(path, encoding) as file:
        try:
            for row, line in enumerate(lines_of(file), start=1):
                if line.strip():
                    yield row, _one_object(line, where(path.name, row))
        except csv.Error:
            place = where(path.name, row + 1)
            raise InputError(f"{place} has more than {LIMIT:,} characters.") from None
        except UnicodeError:
            raise InputError(undecodable(path.name, row + 1, encoding)) from None


def _one_object(line: str, place: str) -> dict[str, Any]:
    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(values := dict(pairs)) != len(pairs):
            repeated = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
            raise InputError(f"{place} has the key {short(repeated)} twice; remove one.")
        return values

    if "\0" in line:
        raise InputError(f"{place} {NUL}.")
    try:
        values = json.loads(line, object_pairs_hook=without_repeats)
    except RecursionError:
        raise InputError(f"{place} is nested too deeply to be read.") from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"{place} is not valid JSON ({getattr(error, 'msg', error)}); each line must be one "
            "object."
        ) from None
    if not isinstance(values, dict):
        raise InputError(
            f'{place} is not a JSON object; each line must look like {{"text": "..."}}.'
        )
    return values
