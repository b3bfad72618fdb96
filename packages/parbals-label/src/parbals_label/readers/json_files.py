"""JSON objects: one per line (JSONL), read as a stream, or in one list (JSON)."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from parbals.errors import InputError

from parbals_label.readers.encoding import (
    LIMIT,
    NUL,
    UndecodableError,
    decoding,
    lines_of,
    open_text,
    replaced,
)
from parbals_label.readers.source import HEAD, MAX_COLUMNS, Row, Source, check_columns, short, where

__all__ = ["open_json", "without_repeats"]

_MAX_LIST_CHARACTERS = 1 << 28
"""Characters of a file with one list, which is read into memory."""
_BLANK = " \t\r\n"
_Numbered = tuple[int, dict[str, Any]]


def open_json(path: Path, encoding: str | None = None, errors: str = "strict") -> Source:
    """Open JSON objects; all are read once for their keys. Missing keys are None."""
    return decoding(path, encoding, errors, lambda encoding, errors: _open(path, encoding, errors))


def _open(path: Path, encoding: str | None, errors: str) -> Source:
    columns: dict[str, None] = {}
    head: list[_Numbered] = []
    n_rows = 0
    objects = _Objects(path, encoding, errors)
    for row, values in objects:
        n_rows += 1
        if n_rows <= HEAD:
            head.append((row, values))
        for key in values.keys() - columns.keys():
            if not key.strip() or len(columns) == MAX_COLUMNS:
                fault = "has a key without a name"
                if key.strip():
                    fault = f"brings more than {MAX_COLUMNS} different keys"
                raise InputError(f"{where(path.name, row)} {fault}.")
        columns.update(dict.fromkeys(values))
    if not columns:
        raise InputError(f"{path.name} is empty; each line must be a JSON object.")
    names = check_columns(list(columns), path.name)

    def complete(row: int, values: dict[str, Any]) -> Row:
        return Row(row, {name: values.get(name) for name in names})

    def rows() -> Iterator[Row]:
        return (complete(row, values) for row, values in objects)

    return Source(
        columns=names,
        n_rows=n_rows,
        rows=rows,
        kind="jsonl",
        name=path.name,
        encoding=objects.encoding,
        notes=replaced(path.name, str(objects.encoding), errors),
        head=tuple(complete(row, values) for row, values in head),
    )


class _Objects:
    """The objects of a file with their rows; each iteration opens it.

    The encoding None stands for that of the byte order mark, or UTF-8; the first iteration sets it.
    """

    def __init__(self, path: Path, encoding: str | None, errors: str) -> None:
        self.name = path.name
        self.encoding = encoding
        self._path = path
        self._errors = errors
        self._is_list = Path(path.name.removesuffix(".gz")).suffix.lower() == ".json"

    def __iter__(self) -> Iterator[_Numbered]:
        row = 0
        with open_text(self._path, self.encoding, self._errors) as file:
            self.encoding = self.encoding or file.encoding
            read = _elements if self._is_list else _lines
            try:
                for row, values in read(file, self.name):
                    yield row, values
            except csv.Error:
                location = where(self.name, row + 1)
                raise InputError(f"{location} has more than {LIMIT:,} characters.") from None
            except UnicodeError:
                raise UndecodableError(where(self.name, row + 1), self.encoding) from None


class _RepeatedKeyError(ValueError):
    """An object has the same key twice."""


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of key-value pairs, as ``object_pairs_hook``; repeated keys are errors."""
    values = dict[str, Any]()
    for key, value in pairs:
        if key in values:
            raise _RepeatedKeyError(key)
        values[key] = value
    return values


def _parse(text: str, location: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_repeats)
    except RecursionError:
        raise InputError(f"{location} is nested too deeply to be read.") from None
    except _RepeatedKeyError as error:
        raise InputError(
            f"{location} has the key {short(error.args[0])} twice; remove one."
        ) from None
    except ValueError as error:
        raise InputError(f"{location} cannot be read: it is not valid JSON ({error}).") from None


def _check_object(values: Any, location: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InputError(
            f'{location} is not a JSON object; each row must look like {{"text": "..."}}.'
        )
    return values


def _lines(file: TextIO, name: str) -> Iterator[_Numbered]:
    for row, line in enumerate(lines_of(file), start=1):
        if text := line.strip(_BLANK):
            location = where(name, row)
            if "\0" in text:
                raise InputError(f"{location} {NUL}.")
            yield row, _check_object(_parse(text, location), location)


def _elements(file: TextIO, name: str) -> Iterator[_Numbered]:
    """Iterate over the objects of one list, which is read into memory."""
    text = file.read(_MAX_LIST_CHARACTERS)
    if len(text) == _MAX_LIST_CHARACTERS:
        raise InputError(
            f"{name} has more than {_MAX_LIST_CHARACTERS:,} characters; write one object per line "
            "(.jsonl)."
        )
    if "\0" in text:
        raise InputError(f"{name} {NUL}.")
    objects = _parse(text, name)
    if not isinstance(objects, list):
        raise InputError(
            f"{name} cannot be read: it is not a list of objects, such as "
            '[{"text": "..."}, ...]; or write one object per line and give it the extension .jsonl.'
        )
    for row, values in enumerate(objects, start=1):
        yield row, _check_object(values, where(name, row))
