"""Filters that select items by their columns, such as ``region = north and age >= 58``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parbals.errors import InputError

__all__ = ["RowFilter", "is_filter"]

_CONDITION = re.compile(r"\s*(?P<column>.+?)\s*(?P<operator>!=|<=|>=|==|=|<|>)\s*(?P<value>.+?)\s*")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_EXAMPLE = 'write it as "region = north" or "age >= 58 and region != south"'


def is_filter(text: str) -> bool:
    """Whether a text looks like a filter, with a column, an operator and a value.

    >>> is_filter("region = north"), is_filter("new.csv")
    (True, False)
    """
    return _CONDITION.fullmatch(text) is not None


@dataclass(frozen=True)
class _Condition:
    """A comparison of one column with a value: as numbers where both are, otherwise as texts."""

    column: str
    operator: str
    value: str

    def holds(self, content: Mapping[str, Any]) -> bool:
        """Whether a row fulfils it; an empty cell only differs from every value."""
        cell = content.get(self.column)
        if cell is None or cell == "":
            return self.operator == "!="
        cell_value: Any = _number(cell)
        value: Any = _number(self.value)
        if cell_value is None or value is None:
            cell_value = str(cell).strip().lower() if isinstance(cell, bool) else str(cell).strip()
            value = self.value.lower() if isinstance(cell, bool) else self.value
        comparisons = {
            "=": cell_value == value,
            "!=": cell_value != value,
            "<": cell_value < value,
            "<=": cell_value <= value,
            ">": cell_value > value,
            ">=": cell_value >= value,
        }
        return comparisons[self.operator]


@dataclass(frozen=True)
class RowFilter:
    """Conditions that a row must fulfil, all of them.

    >>> older = RowFilter.parse("age >= 58 and region = north", ["age", "region"])
    >>> older.matches({"age": "60", "region": "north"}), older.matches({"age": 30, "region": "x"})
    (True, False)
    """

    conditions: tuple[_Condition, ...]

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> "RowFilter":
        """Parse a filter; one that names no column of ``columns`` is refused."""
        texts = _AND.split(text)
        if not all(map(is_filter, texts)):  # a value may have the word "and" in it
            texts = [text]
        return cls(tuple(_parse_condition(condition, columns) for condition in texts))

    def matches(self, content: Mapping[str, Any]) -> bool:
        """Whether a row fulfils all conditions."""
        return all(condition.holds(content) for condition in self.conditions)


def _parse_condition(text: str, columns: Sequence[str]) -> _Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no filter; {_EXAMPLE}.")
    column = _unquoted(match["column"])
    if column not in columns:
        raise InputError(
            f"The filter {text!r} names the column {column!r}; the items have "
            f"{', '.join(columns) or 'no columns'}."
        )
    operator = "=" if match["operator"] == "==" else match["operator"]
    return _Condition(column, operator, _unquoted(match["value"]))


def _unquoted(text: str) -> str:
    """The text without quotes around it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _number(value: Any) -> float | None:
    """A cell as a number; None where it is none."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
