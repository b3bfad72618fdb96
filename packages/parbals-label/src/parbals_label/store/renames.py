"""Classes that were renamed: an answer keeps the name it was given, and means the class of today.

The setting ``renames`` lists [old name, new name, number of the last answer before]. A name that is
free again may be given to another class: only answers up to that number mean the renamed one.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from parbals.errors import ProjectDamagedError

from parbals_label.store.rows import UNREADABLE, from_json

__all__ = ["KEY", "Renames"]

KEY = "renames"


class Renames:
    """What the names in answers mean now."""

    def __init__(self, steps: Sequence[Sequence[Any]] = ()) -> None:
        try:
            self.steps = tuple((str(old), str(new), int(last)) for old, new, last in steps)
        except (TypeError, ValueError, OverflowError):
            raise ProjectDamagedError(UNREADABLE) from None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Self:
        return cls(meta.get(KEY) or ())

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> Self:
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (KEY,)).fetchone()
        return cls(() if row is None else from_json(row[0], list))

    def __bool__(self) -> bool:
        return bool(self.steps)

    def now(self, label: str | None, answer: int) -> str | None:
        """Today's name of the class that an answer of this number named."""
        for old, new, last in self.steps:
            if label == old and answer <= last:
                label = new
        return label

    def former(self, classes: Collection[str]) -> dict[str, str]:
        """Names that no class has now → the class they once meant."""
        names = {old for old, _, _ in self.steps} - set(classes)
        return {name: str(self.understood(name, classes)) for name in names}

    def understood(self, label: Any, classes: Collection[str]) -> Any:
        """A label on its way in: a former name, from a page or file of yesterday, is understood."""
        if label in classes:
            return label
        for place in reversed(range(len(self.steps))):
            if self.steps[place][0] == label:
                return Renames(self.steps[place:]).now(label, 0)
        return label
