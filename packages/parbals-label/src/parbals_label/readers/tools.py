"""Records of other labelling tools, seen as rows: an id, the item's columns, its labels.

Each tool is a file of its own with the functions ``is_record`` and ``read``; which one wrote a file
is told by its first record.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parbals_label.readers import argilla, label_studio, prodigy
from parbals_label.readers.annotated import Annotated

__all__ = ["TOOLS", "Tool", "flat", "tool_of"]


@dataclass(frozen=True)
class Tool:
    """A labelling tool's way to write a record."""

    title: str
    is_record: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any]], Annotated]


TOOLS = (
    Tool("Label Studio", label_studio.is_record, label_studio.read),
    Tool("Argilla", argilla.is_record, argilla.read),
    Tool("Prodigy", prodigy.is_record, prodigy.read),
)


def tool_of(record: Mapping[str, Any]) -> Tool | None:
    """The tool that wrote a record; None where it is a plain one."""
    return next((tool for tool in TOOLS if tool.is_record(record)), None)


def flat(
    name: str | None, content: Mapping[str, Any], labels: Sequence[tuple[str | None, str]]
) -> dict[str, Any]:
    """Columns: ``id``, the item's own, and ``label``, which most annotators give.

    Of two equally frequent ones, the first. The item's own ``id`` and ``label`` are called
    ``item.id`` and ``item.label``.
    """
    own = {f"item.{k}" if k in ("id", "label") else k: v for k, v in content.items()}
    counts = Counter(label for _, label in labels)
    label = counts.most_common(1)[0][0] if counts else None
    named = {} if name is None else {"id": name}
    return {**named, **own, "label": label}
