"""A JSON file that is one list of objects, read one object at a time."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from parbals.errors import InputError

from parbals_label.readers.encoding import LIMIT, open_text, undecodable
from parbals_label.readers.source import where

__all__ = ["list_items"]

_CHUNK = 1 << 18
_BLANK = " \t\r\n"
_SIGN = re.compile(r'["\\\[\]{},]')


def list_items(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """The text of each element with its number, counted from 1; none longer than the limit."""
    number = 0
    with open_text(path, encoding) as file:
        try:
            for number, text in enumerate(_elements(file, path.name), start=1):
                yield number, text
        except UnicodeError:
            raise InputError(undecodable(path.name, number + 1, encoding)) from None


def _elements(file: TextIO, name: str) -> Iterator[str]:
    """Cuts at the commas of the list: brackets are counted, and text in quotes is passed over."""
    if _first(file) != "[":
        raise InputError(
            f"{name} cannot be read: it is not a list of objects, such as "
            '[{"text": "..."}, ...]; or write one object a line and give it the ending .jsonl.'
        )
    parts: list[str] = []
    size, depth, number, quoted, skipped = 0, 0, 1, False, -1
    while chunk := file.read(_CHUNK):
        start = 0
        for sign in _SIGN.finditer(chunk):
            place, character = sign.start(), sign[0]
            if place == skipped:  # after a backslash
                continue
            if quoted:
                quoted = character != '"'
                skipped = place + 1 if character == "\\" else skipped
            elif character == '"':
                quoted = True
            elif character in "[{":
                depth += 1
            elif character in "]}" and depth:
                depth -= 1
            elif character in ",]" and not depth:
                text = "".join([*parts, chunk[start:place]]).strip(_BLANK)
                if text or character == "," or number > 1:
                    yield text
                parts, size, start, number = [], 0, place + 1, number + 1
                if character == "]":
                    if chunk[start:].strip(_BLANK) or file.read(_CHUNK).strip(_BLANK):
                        raise InputError(
                            f"{name} goes on after the end of its list; save it again."
                        )
                    return
        skipped -= len(chunk)
        parts.append(chunk[start:])
        size += len(chunk) - start
        if size > LIMIT:
            raise InputError(f"{where(name, number)} has more than {LIMIT:,} characters.")
    raise InputError(f"{name} is cut short: its list does not end.")


def _first(file: TextIO) -> str:
    while (character := file.read(1)) and character in _BLANK:
        pass
    return character
