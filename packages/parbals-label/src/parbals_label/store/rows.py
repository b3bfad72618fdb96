"""Conversion of values and times for rows of the database, and the checksum of a row."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from operator import index
from typing import Any

from parbals.errors import InputError, ProjectDamagedError

__all__ = [
    "UNREADABLE",
    "check_position",
    "check_text",
    "checksum",
    "from_json",
    "lease_clock",
    "to_json",
    "utc_now",
]

UNREADABLE = (
    "A stored value cannot be read, so the project is damaged; put back a copy, or take out the "
    "readable answers with `parbals backup salvage`."
)
_MAX_DEPTH = 100
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def checksum(project: str, table: str, fields: Sequence[object]) -> str:
    """Return the 8-byte Blake2b hash of a row, keyed by its project.

    A row of another project or table, or with a field of another type, has another checksum.
    """
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
    """Return a value as standard JSON; NaN, objects and invalid Unicode are refused."""
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
    """Parse what ``to_json`` wrote; another ``kind``, or a value that it refuses, is damage."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        _check_depth(value, text)
        if "\\u" in text:  # an escape may be half of a surrogate pair, which no file can hold
            to_json(value, "value")
    except (TypeError, ValueError, RecursionError, InputError):
        raise ProjectDamagedError(UNREADABLE) from None
    if not isinstance(value, kind):
        raise ProjectDamagedError(UNREADABLE)
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_depth(value: Any, text: str) -> None:
    """Refuse deeply nested values: only an attacker writes them, and they crash parsers."""
    level = [value]
    depth = 0
    is_suspect = text.count("[") + text.count("{") > _MAX_DEPTH
    while level and is_suspect:
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} lists or tables inside each other")
        children: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                children += container.values()
            elif isinstance(container, list):
                children += container
        level = children


def check_text(value: Any, name: str) -> str:
    """Return text, or refuse it if it is blank or cannot be stored in a file."""
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
    """Return the position of an item as an int, or refuse one outside of the project."""
    try:
        position = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        position = -1
    if not 0 <= position < n_items:
        raise InputError(
            f"{name} is {value!r}, but the positions of the {n_items} items are 0 to {n_items - 1}."
        )
    return position


def utc_now() -> str:
    """Return the time in UTC in ISO 8601 format."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _monotonic_seconds() -> float:
    """Return a monotonic time in seconds, which includes suspended time where available."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@cache
def _monotonic_origin() -> float:
    return time.time() - _monotonic_seconds()


def lease_clock() -> float:
    """Return the time in seconds since 1970 by which leases expire.

    It is the system time at the start of the process plus monotonic time. Changes of the system
    time therefore neither end nor prolong leases within a process; a new page server restarts all
    leases (``Queue.restart_leases``).
    """
    return _monotonic_origin() + _monotonic_seconds()
