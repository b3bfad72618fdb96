"""JSON objects, one a line (JSONL) or in one list (JSON), read as a stream.

Those of another labelling tool (:mod:`parbals_label.readers.tools`) are read as it meant them.
"""

import csv
import json
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from parbals.errors import InputError

from parbals_label.readers.annotated import Annotated
from parbals_label.readers.encoding import LIMIT, NUL, encoding_of, lines_of, open_text, undecodable
from parbals_label.readers.json_list import list_items
from parbals_label.readers.source import MAX_COLUMNS, Row, Source, check_columns, short, where
from parbals_label.readers.tools import Tool, flat, tool_of

__all__ = ["open_jsonl", "tool_records"]

_Numbered = tuple[int, dict[str, Any]]


def open_jsonl(path: Path, encoding: str | None = None) -> Source:
    """JSON objects; they are walked once for the keys, and one that an object lacks is None."""
    encoding = encoding_of(path, encoding)
    columns: dict[str, None] = {}
    n_rows = 0
    tool, objects = _tool(path, encoding)
    for row, values in objects():
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
        for row, values in objects():
            yield Row(row, {name: values.get(name) for name in names})

    notes = () if tool is None else (f"{path.name} is read as records of {tool.title}.",)
    return Source(names, n_rows, rows, "jsonl", path.name, encoding=encoding, notes=notes)


def tool_records(path: Path) -> Iterator[tuple[int, Annotated]] | None:
    """The records of another labelling tool with their rows; None where the file is a plain one."""
    encoding = encoding_of(path, None)
    tool, _ = _tool(path, encoding)
    if tool is None:
        return None
    read = tool.read
    return ((row, read(record)) for row, record in _objects(path, encoding))


def _tool(path: Path, encoding: str) -> tuple[Tool | None, Callable[[], Iterator[_Numbered]]]:
    """Which tool wrote the file, by its first object, and its objects as plain ones."""
    first = next(_objects(path, encoding), None)
    tool = None if first is None else tool_of(first[1])
    if tool is None:
        return None, lambda: _objects(path, encoding)
    return tool, lambda: _flat_objects(tool, path, encoding)


def _flat_objects(tool: Tool, path: Path, encoding: str) -> Iterator[_Numbered]:
    """Each item once, with everybody's labels: some tools write a record for each annotator."""
    labels: dict[str, list[tuple[str | None, str]]] = {}
    first: dict[str, tuple[int, bytes]] = {}
    for row, record in _objects(path, encoding):
        if not tool.is_record(record):
            raise InputError(
                f"{where(path.name, row)} is not a record of {tool.title} as the first one is."
            )
        name, content, given = tool.read(record)
        if name is None:
            continue
        labels.setdefault(name, []).extend(given)
        earlier, mark = first.setdefault(name, (row, digest := _digest(content)))
        if mark != digest:
            raise InputError(
                f"{where(path.name, row)}: the id {short(name)} is also that of row {earlier}, "
                "which is about something else; give every item its own id."
            )
    for row, record in _objects(path, encoding):
        name, content, given = tool.read(record)
        if name is None:
            yield row, flat(name, content, given)
        elif first[name][0] == row:
            yield row, flat(name, content, labels[name])


def _digest(content: dict[str, Any]) -> bytes:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).digest()


def _objects(path: Path, encoding: str) -> Iterator[_Numbered]:
    if Path(path.name.removesuffix(".gz")).suffix.lower() == ".json":
        for row, text in list_items(path, encoding):
            yield row, _one_object(text, where(path.name, row))
        return
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
            f"{place} is not valid JSON ({getattr(error, 'msg', error)}); each row must be one "
            "object."
        ) from None
    if not isinstance(values, dict):
        raise InputError(
            f'{place} is not a JSON object; each line must look like {{"text": "..."}}.'
        )
    return values
