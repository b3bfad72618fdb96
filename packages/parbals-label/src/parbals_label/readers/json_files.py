"""JSON objects, one a line (JSONL), read as a stream, or in one list (JSON)."""

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

_LARGEST = 1 << 28
"""Characters of a file that is one list: more of it would fill the memory."""
_BLANK = " \t\r\n"
_Numbered = tuple[int, dict[str, Any]]


def open_json(path: Path, encoding: str | None = None, errors: str = "strict") -> Source:
    """JSON objects; they are walked once for the keys, and one that an object lacks is None."""
    return decoding(path, encoding, errors, lambda known, errors: _open(path, known, errors))


def _open(path: Path, encoding: str | None, errors: str) -> Source:
    columns: dict[str, None] = {}
    head: list[_Numbered] = []
    n_rows, objects = 0, _Objects(path, encoding, errors)
    for row, values in objects:
        n_rows += 1
        if n_rows <= HEAD:
            head.append((row, values))
        for key in values.keys() - columns.keys():
            if not key.strip() or len(columns) == MAX_COLUMNS:
                many = f"brings more than {MAX_COLUMNS} different keys"
                fault = many if key.strip() else "has a key without a name"
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
        names,
        n_rows,
        rows,
        "jsonl",
        path.name,
        encoding=objects.encoding,
        notes=replaced(path.name, str(objects.encoding), errors),
        head=tuple(complete(row, values) for row, values in head),
    )


class _Objects:
    """The objects of a file with their rows; each walk opens it, and the first tells its encoding.

    ``encoding``: None is what the file's mark says, or UTF-8.
    """

    def __init__(self, path: Path, encoding: str | None, errors: str) -> None:
        self.name, self.encoding, self._path, self._errors = path.name, encoding, path, errors
        self._is_list = Path(path.name.removesuffix(".gz")).suffix.lower() == ".json"

    def __iter__(self) -> Iterator[_Numbered]:
        row = 0
        with open_text(self._path, self.encoding, self._errors) as file:
            self.encoding = self.encoding or file.encoding
            try:
                for row, values in (_elements if self._is_list else _lines)(file, self.name):
                    yield row, values
            except csv.Error:
                place = where(self.name, row + 1)
                raise InputError(f"{place} has more than {LIMIT:,} characters.") from None
            except UnicodeError:
                raise UndecodableError(where(self.name, row + 1), self.encoding) from None


class _RepeatedKeyError(ValueError):
    pass


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's keys and values, as ``object_pairs_hook``; a key that comes twice is an error."""
    values = dict[str, Any]()
    for key, value in pairs:
        if key in values:
            raise _RepeatedKeyError(key)
        values[key] = value
    return values


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_repeats)
    except RecursionError:
        raise InputError(f"{place} is nested too deeply to be read.") from None
    except _RepeatedKeyError as error:
        raise InputError(f"{place} has the key {short(error.args[0])} twice; remove one.") from None
    except ValueError as error:
        raise InputError(f"{place} cannot be read: it is not valid JSON ({error}).") from None


def _object(values: Any, place: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InputError(
            f'{place} is not a JSON object; each row must look like {{"text": "..."}}.'
        )
    return values


def _lines(file: TextIO, name: str) -> Iterator[_Numbered]:
    for row, line in enumerate(lines_of(file), start=1):
        if text := line.strip(_BLANK):
            place = where(name, row)
            if "\0" in text:
                raise InputError(f"{place} {NUL}.")
            yield row, _object(_parsed(text, place), place)


def _elements(file: TextIO, name: str) -> Iterator[_Numbered]:
    """The objects of one list, which is held in memory."""
    text = file.read(_LARGEST)
    if len(text) == _LARGEST or "\0" in text:
        many = f"has more than {_LARGEST:,} characters; write one object a line (.jsonl)"
        raise InputError(f"{name} {many if len(text) == _LARGEST else NUL}.")
    listed = _parsed(text, name)
    if not isinstance(listed, list):
        raise InputError(
            f"{name} cannot be read: it is not a list of objects, such as "
            '[{"text": "..."}, ...]; or write one object a line and give it the ending .jsonl.'
        )
    for row, values in enumerate(listed, start=1):
        yield row, _object(values, where(name, row))
