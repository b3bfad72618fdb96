"""How values and times are written into rows, and the checksum that proves a row."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from operator import index
from typing import Any

from parbals.errors import InputError, ProjectDamagedError

__all__ = ["UNREADABLE", "check_position", "check_text", "checksum", "from_json", "moment", "now"]
__all__ += ["to_json"]

UNREADABLE = (
    "A stored value cannot be read, so the project is damaged; put back a copy, or take out the "
    "readable answers: `parbals backup salvage DIR --out answers.csv`."
)
_DEEPEST = 100
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def checksum(project: str, table: str, fields: Sequence[object]) -> str:
    """Blake2b-8 of a row, keyed by its project: one of another project, place or type fails."""
    parts = []
    for field in fields:
        if field is None:
            parts.append(b"n;")
        elif isinstance(field, int):
            parts.append(b"i%d;" % field)
        elif isinstance(field, str):
            data = field.encode()
            parts.append(b"s%d:%b;" % (len(data), data))
        else:
            parts.append(b"?;")  # SQLite returns bytes or floats where a column's type is damaged
    return blake2b(
        b"".join(parts), digest_size=8, key=project.encode(), person=table.encode()
    ).hexdigest()


def to_json(value: Any, name: str) -> str:
    """Standard JSON; NaN, objects and text that is not Unicode are refused."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
        _check_depth(value, text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name} cannot be stored as JSON ({error}); use text, finite numbers, true, false, "
            "null, lists and tables."
        ) from None
    return text


def from_json(text: str, kind: type = object) -> Any:
    """The value that ``to_json`` wrote; another ``kind``, or what it refuses, is damage."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        _check_depth(value, text)
        if "\\u" in text:  # an escape may stand for half a character, which no file can hold
            to_json(value, "value")
    except (TypeError, ValueError, RecursionError, InputError):
        raise ProjectDamagedError(UNREADABLE) from None
    if not isinstance(value, kind):
        raise ProjectDamagedError(UNREADABLE)
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _check_depth(value: Any, text: str) -> None:
    """Lists in lists without end are written by nobody who means well, and stop other programs."""
    level, depth = [value], 0
    is_suspect = text.count("[") + text.count("{") > _DEEPEST
    while level and is_suspect:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} lists or tables inside each other")
        level = [
            part
            for one in level
            if isinstance(one, (dict, list))
            for part in (one.values() if isinstance(one, dict) else one)
        ]


def check_text(value: Any, name: str) -> str:
    """Text that is not blank and that every file can hold."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name} is {value!r}; it must be text that is not blank.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} is {value!r}, which is not valid Unicode; read its file with the right "
            "encoding."
        ) from None
    if "\0" in value:
        raise InputError(f"{name} is {value!r}, which holds a NUL character; leave it out.")
    return value


def check_position(value: Any, n_items: int, name: str) -> int:
    """The position of an item of the project, as a plain int."""
    try:
        position = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        position = -1
    if not 0 <= position < n_items:
        raise InputError(
            f"{name} is {value!r}, but the positions of the {n_items} items are 0 to {n_items - 1}."
        )
    return position


def now() -> str:
    """The time in UTC, as ISO text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _seconds() -> float:
    """Seconds that nobody can set, those of a sleeping machine included where that is known."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@cache
def _start() -> float:
    return time.time() - _seconds()


def moment() -> float:
    """The clock that leases run by: seconds since 1970, as the machine knew when the process began.

    It goes on evenly when somebody sets the machine's clock, so within one process no lease ends
    early or lasts for years; between processes the page starts its leases again
    (``Queue.restart_leases``), whatever the clock says.
    """
    return _start() + _seconds()
