"""Stored values against the annotations of dataclasses: what is allowed, and what is refused."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from parbals_label.store.fields import FieldError, at_least, plain, read_fields, real_number


@dataclass(frozen=True)
class Inner:
    file: str
    size: Annotated[int, at_least(1, 1_000)] = 1


@dataclass(frozen=True)
class Outer:
    flag: bool = False
    count: int = 0
    number: float = 0.0
    share: Annotated[float, real_number("be below 1", lambda value: value < 1.0)] = 0.5
    kind: Literal["a", "b"] = "a"
    scale: float | Literal["auto"] = "auto"
    pairs: tuple[tuple[str, int | None], ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, Outer()),
        ({"number": 2}, Outer(number=2.0)),
        ({"scale": 3}, Outer(scale=3.0)),
        ({"pairs": [["x", 1], ["y", None]]}, Outer(pairs=(("x", 1), ("y", None)))),
        ({"inner": {"file": "f", "other": 1}}, Outer(inner=Inner("f"))),
        ({"inner": None, "unknown": []}, Outer()),
        ({"names": {"ham": "a greeting"}}, Outer(names={"ham": "a greeting"})),
    ],
)
def test_values_of_the_right_kind_are_read(values, expected):
    outer = read_fields(Outer, values)
    assert outer == expected
    assert read_fields(Outer, plain(outer)) == outer


@pytest.mark.parametrize(
    ("name", "value", "requirement"),
    [
        ("flag", 1, "be true or false"),
        ("count", True, "be a whole number"),
        ("count", 1.0, "be a whole number"),
        ("number", "1", "be a number"),
        ("number", 10**400, "be at most 2**63 - 1"),
        ("count", 2**63, "be at most 2**63 - 1"),
        ("share", float("nan"), "be below 1"),
        ("share", float("inf"), "be below 1"),
        ("kind", "c", "be 'a' or 'b'"),
        ("kind", ["a"], "be 'a' or 'b'"),
        ("scale", "other", "be a number or be 'auto'"),
        ("pairs", [["x"]], "have 2 values in each entry"),
        ("pairs", "xy", "be a list"),
        ("names", [], "be a table"),
        ("names", {"ham": 1}, "be text"),
        ("inner", {}, "have file"),
        ("inner", {"file": "f", "size": 0}, "size must be at least 1"),
        ("inner", {"file": "f", "size": 1_001}, "size must be at most 1,000"),
    ],
)
def test_others_are_refused_with_the_name_and_what_is_required(name, value, requirement):
    with pytest.raises(FieldError, match=name) as error:
        read_fields(Outer, {name: value})
    assert error.value.name == name
    assert error.value.requirement == requirement
