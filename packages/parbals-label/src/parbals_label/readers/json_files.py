"""JSON objects, one a line (JSONL), read as a stream, or in one list (JSON)."""

import csv
import json
import re
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
)
from parbals_label.readers.source import (
    HEAD,
    MAX_COLUMNS,
    Row,
    Source,
    check_columns,
    short,
    where,
)

__all__ = ["open_json"]

_LARGEST = 1 << 29
"""Characters of a file that is one list: more of it would fill the memory."""
_BLANK = " \t\r\n"
_AFTER_BLANK = re.compile(f"[{_BLANK}]*")
_Numbered = tuple[int, dict[str, Any]]


def open_json(path: Path, encoding: str | None = None) -> Source:
    """JSON objects; they are walked once for the keys, and one that an object lacks is None."""
    return decoding(path, encoding, lambda known: _open(path, known))


def _open(path: Path, encoding: str | None) -> Source:
    columns: dict[str, None] = {}
    head: list[_Numbered] = []
    n_rows, objects = 0, _Objects(path, encoding)
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
        head=tuple(complete(row, values) for row, values in head),
    )


class _Objects:
    """The objects of a file with their rows; each walk opens it, and the first tells its encoding.

    ``encoding``: None is what the file's mark says, or UTF-8.
    """

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.name, self.encoding, self._path = path.name, encoding, path
        self._is_list = Path(path.name.removesuffix(".gz")).suffix.lower() == ".json"

    def __iter__(self) -> Iterator[_Numbered]:
        row = 0
        with open_text(self._path, self.encoding) as file:
            self.encoding = self.encoding or file.encoding
            try:
                for row, values in (_elements if self._is_list else _lines)(file, self.name):
                    yield row, values
            except csv.Error:
                place = where(self.name, row + 1)
                raise InputError(f"{place} has more than {LIMIT:,} characters.") from None
            except UnicodeError:
                raise UndecodableError(self.name, row + 1, self.encoding) from None


class _RepeatedKeyError(ValueError):
    pass


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict[str, Any]()
    for key, value in pairs:
        if key in values:
            raise _RepeatedKeyError(key)
        values[key] = value
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)


def _object_at(text: str, start: int, place: str) -> tuple[dict[str, Any], int]:
    """The object that begins there, and where it ends."""
    try:
        values, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise InputError(f"{place} is nested too deeply to be read.") from None
    except _RepeatedKeyError as error:
        raise InputError(f"{place} has the key {short(error.args[0])} twice; remove one.") from None
    except ValueError as error:
        raise InputError(
            f"{place} is not valid JSON ({getattr(error, 'msg', error)}); each row must be one "
            "object."
        ) from None
    if not isinstance(values, dict):
        raise InputError(
            f'{place} is not a JSON object; each line must look like {{"text": "..."}}.'
        )
    return values, end


def _lines(file: TextIO, name: str) -> Iterator[_Numbered]:
    for row, line in enumerate(lines_of(file), start=1):
        if text := line.strip(_BLANK):
            place = where(name, row)
            if "\0" in text:
                raise InputError(f"{place} {NUL}.")
            values, end = _object_at(text, 0, place)
            if end < len(text):
                raise InputError(f"{place} is not valid JSON: it goes on after its object.")
            yield row, values


def _elements(file: TextIO, name: str) -> Iterator[_Numbered]:
    """The objects of one list, which is held in memory as text."""
    text = file.read(_LARGEST)
    if len(text) == _LARGEST or "\0" in text:
        many = f"has more than {_LARGEST:,} characters; write one object a line (.jsonl)"
        raise InputError(f"{name} {many if len(text) == _LARGEST else NUL}.")

    def sign(at: int) -> tuple[str, int]:
        """What stands next that is not blank, and where."""
        place = _AFTER_BLANK.match(text, at).end()  # type: ignore[union-attr]
        return text[place : place + 1], place

    first, at = sign(0)
    if first != "[":
        raise InputError(
            f"{name} cannot be read: it is not a list of objects, such as "
            '[{"text": "..."}, ...]; or write one object a line and give it the ending .jsonl.'
        )
    row, (found, at) = 0, sign(at + 1)
    while found not in ("]", ""):
        if row and found != ",":
            break
        row += 1
        values, at = _object_at(text, sign(at + 1)[1] if found == "," else at, where(name, row))
        yield row, values
        found, at = sign(at)
    if found != "]":
        raise InputError(f"{name} is cut short or damaged: its list does not end after row {row}.")
    if sign(at + 1)[0]:
        raise InputError(f"{name} goes on after the end of its list; save it again.")
