"""What every labelling tool's record comes to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Annotated", "mapping", "records"]


class Annotated(NamedTuple):
    """An item and its labels as (annotator, label); the annotator is None where nobody is named."""

    id: str | None
    content: dict[str, Any]
    labels: list[tuple[str | None, str]]


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def records(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; a value that is something else has none."""
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []
