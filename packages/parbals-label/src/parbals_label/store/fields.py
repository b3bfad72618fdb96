"""Values of JSON compared with the annotations of dataclasses.

A project may come from anybody, so every stored value is checked when it is read. A general library
for this would take half of the time of a short command to load.

An annotation is a type of JSON, a ``Literal``, a union, ``tuple``, ``dict`` or a dataclass of such
annotations. The metadata of ``Annotated`` are functions that return the checked value or raise a
``ValueError`` which says what it must do: "be at least 1".
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

__all__ = ["FieldError", "at_least", "field_names", "plain", "read_fields", "real_number"]

_T = TypeVar("_T")
_Reader = Callable[[Any], Any]
_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "be true or false"),
    int: ((int,), "be a whole number"),
    float: ((float, int), "be a number"),
    str: ((str,), "be text"),
    NoneType: ((NoneType,), "be null"),
}

_MAX_INTEGER = 2**63 - 1
"""What arrays can hold."""


class FieldError(ValueError):
    """A field has a value that its annotation does not allow.

    Attributes:
        name: of the field.
        requirement: what it must do, to follow "it must".
    """

    def __init__(self, name: str, requirement: str) -> None:
        super().__init__(f"{name} must {requirement}")
        self.name = name
        self.requirement = requirement


def at_least(least: int, most: float = math.inf) -> _Reader:
    """A check that a number is not smaller, nor larger than ``most``."""

    def check(value: int) -> int:
        if value < least:
            raise ValueError(f"be at least {least}")
        if value > most:
            raise ValueError(f"be at most {most:,}")
        return value

    return check


def real_number(requirement: str, is_allowed: Callable[[float], bool]) -> _Reader:
    """A check that a number is finite and allowed; ``requirement`` says which numbers are."""

    def check(value: float) -> float:
        if not math.isfinite(value) or not is_allowed(value):
            raise ValueError(requirement)
        return value

    return check


def read_fields(cls: type[_T], values: Mapping[str, Any]) -> _T:
    """A dataclass from JSON values of its fields; other names are ignored.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     at: tuple[float, float] = (0.0, 0.0)
    >>> read_fields(Point, {"at": [1, 2.5], "colour": "red"})
    Point(at=(1.0, 2.5))
    """
    checked = {}
    for name, reader in _readers(cls).items():  # type: ignore[arg-type]
        if name in values:
            try:
                checked[name] = reader(values[name])
            except ValueError as error:
                raise FieldError(name, str(error)) from None
    return cls(**checked)


def field_names(cls: type) -> tuple[str, ...]:
    """The names of a dataclass' fields."""
    return tuple(_readers(cls))


def plain(value: Any) -> Any:
    """A value in JSON form: dataclasses are dictionaries."""
    if is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    return value


@cache
def _readers(cls: Any) -> dict[str, _Reader]:
    return {entry.name: _reader(entry.type) for entry in fields(cls)}  # type: ignore[arg-type]


@cache
def _reader(annotation: Any) -> _Reader:
    """A function that checks and converts a value of this annotation."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if annotation in _KINDS:
        return _value_reader(annotation)
    if origin is Annotated:
        return _constrained_reader(_reader(arguments[0]), arguments[1:])
    if origin is Literal:
        return _literal_reader(arguments)
    if origin in (Union, UnionType):
        return _union_reader(
            [_reader(argument) for argument in arguments if argument != NoneType],
            allows_none=NoneType in arguments,
        )
    if origin is tuple and arguments[-1] is Ellipsis:
        return _sequence_reader(_reader(arguments[0]))
    if origin is tuple:
        return _tuple_reader([_reader(argument) for argument in arguments])
    if origin is dict:
        return _mapping_reader(_reader(arguments[0]), _reader(arguments[1]))
    return _dataclass_reader(annotation)


def _value_reader(kind: Any) -> _Reader:
    types, requirement = _KINDS[kind]

    def read(value: Any) -> Any:
        is_flag = isinstance(value, bool) and kind is not bool
        is_right: bool = isinstance(value, types) and not is_flag
        if not is_right:
            raise ValueError(requirement)
        if isinstance(value, int) and abs(value) > _MAX_INTEGER:
            raise ValueError("be at most 2**63 - 1")
        return float(value) if kind is float else value

    return read


def _constrained_reader(base: _Reader, checks: tuple[_Reader, ...]) -> _Reader:
    def read(value: Any) -> Any:
        value = base(value)
        for check in checks:
            value = check(value)
        return value

    return read


def _literal_reader(allowed: tuple[Any, ...]) -> _Reader:
    listed = " or ".join(map(repr, allowed))

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"be {listed}")
        return value

    return read


def _union_reader(readers: list[_Reader], *, allows_none: bool) -> _Reader:
    def read(value: Any) -> Any:
        if value is None and allows_none:
            return None
        requirements = []
        for reader in readers:
            try:
                return reader(value)
            except ValueError as error:
                requirements.append(str(error))
        raise ValueError(" or ".join(dict.fromkeys(requirements)))

    return read


def _sequence_reader(reader: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        return tuple(map(reader, _listed(value)))

    return read


def _tuple_reader(readers: list[_Reader]) -> _Reader:
    def read(value: Any) -> Any:
        values = _listed(value)
        if len(values) != len(readers):
            raise ValueError(f"have {len(readers)} values in each entry")
        return tuple([reader(entry) for reader, entry in zip(readers, values, strict=True)])

    return read


def _listed(value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("be a list")
    return value


def _mapping_reader(key_reader: _Reader, value_reader: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("be a table")
        return {key_reader(key): value_reader(entry) for key, entry in value.items()}

    return read


def _dataclass_reader(cls: type) -> _Reader:
    required = [entry.name for entry in fields(cls) if entry.default is MISSING]

    def read(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping) or not all(name in value for name in required):
            raise ValueError(f"have {', '.join(required)}")
        return read_fields(cls, value)

    return read
