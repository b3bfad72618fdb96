"""What holds now, among all that history keeps: everybody's latest word on an item, as SQL.

And what follows from it: which items have a label, who has labelled, what a renamed class means.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from parbals.errors import ProjectDamagedError

from parbals_label.answer_form import MANY, listed
from parbals_label.store.rows import UNREADABLE, from_json

__all__ = ["CURRENT", "CURRENT_PASSES", "PASSED", "PASS_TAKEN_BACK", "RENAMES", "SINCE", "UNSEEN"]
__all__ += ["Answered", "Renames", "by_machines", "count_labels", "has_label", "has_passed"]
__all__ += ["labels_of"]

RENAMES = "renames"
"""The setting that lists them."""
PASS_TAKEN_BACK = "taken back"
PASSED = f"kind <> '{PASS_TAKEN_BACK}'"
"""A condition on a current pass: it was not taken back."""


def _answers(where: str = "") -> str:
    # SQLite takes the other columns from the row that holds the maximum.
    return (
        "SELECT position, annotator, label, max(revision) AS revision, answer, source FROM answers "
        f"{where and f'WHERE {where} '}GROUP BY position, annotator"
    )


def _passes(where: str = "") -> str:
    return (
        "SELECT position, annotator, kind, max(pass) AS pass FROM passes "
        f"{where and f'WHERE {where} '}GROUP BY position, annotator"
    )


CURRENT = _answers()
"""The latest revision of every item and annotator."""
CURRENT_PASSES = _passes()
"""The latest pass of every item and annotator."""
SINCE = (
    "CASE WHEN c.revision = 1 THEN c.answer ELSE (SELECT min(a.answer) FROM answers AS a WHERE "
    "a.position = c.position AND a.annotator = c.annotator AND a.revision > coalesce((SELECT "
    "max(b.revision) FROM answers AS b WHERE b.position = c.position AND b.annotator = c.annotator "
    "AND b.label IS NOT c.label), 0)) END"
)
"""Of a row c of ``CURRENT``: the number of the answer that first gave its label."""

UNSEEN = (
    "SELECT position, batch, strategy FROM leases JOIN batches USING (batch) WHERE queued AND "
    "annotator IS NULL AND strategy <> 'certify' AND NOT EXISTS (SELECT 1 FROM answers AS a WHERE "
    "a.position = leases.position) AND NOT EXISTS (SELECT 1 FROM passes AS p WHERE p.position = "
    "leases.position)"
)
"""Items on the page that nobody has now and nobody has said anything about, and what chose them.

Not those of a random sample: it would no longer be one if others took their place."""


class Answered:
    """The items that have a label now, and everybody who has ever labelled something.

    Only what was answered since the last time is read. Neither set is to be changed by others.
    """

    def __init__(self) -> None:
        self.labelled: set[int] = set()
        self.names: set[str] = set()
        self._last = 0

    def read(self, connection: sqlite3.Connection, *, is_committed: bool) -> "Answered":
        """Both as they are now; answers that may be undone yet count, but are not remembered."""
        (last,) = connection.execute("SELECT coalesce(max(answer), 0) FROM answers").fetchone()
        if last == self._last:
            return self
        now = self
        if not is_committed:
            now = Answered()
            now.labelled, now.names = set(self.labelled), set(self.names)
        newer = _answers("position IN (SELECT position FROM answers WHERE answer > ?)")
        for position, annotator, n_labels in connection.execute(
            "SELECT position, annotator, sum(label IS NOT NULL) OVER (PARTITION BY position) FROM "
            f"({newer})",
            (self._last,),
        ):
            (now.labelled.add if n_labels else now.labelled.discard)(position)
            now.names.add(annotator)
        now._last = last
        return now


class Renames:
    """What the names in answers mean now: an answer keeps the name that its class had then.

    The setting ``renames`` lists [old name, new name, number of the last answer before]. A name
    that is free again may be given to another class: only answers up to that number mean the
    renamed one. Where an item has ``many`` labels, an answer names several.
    """

    def __init__(self, steps: Sequence[Sequence[Any]] = (), *, many: bool = False) -> None:
        self.many = many
        try:
            self.steps = tuple((str(old), str(new), int(last)) for old, new, last in steps)
        except (TypeError, ValueError, OverflowError):
            raise ProjectDamagedError(UNREADABLE) from None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Self:
        return cls(meta.get(RENAMES) or (), many=meta.get("task") == MANY)

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> Self:
        rows = connection.execute(
            "SELECT key, value FROM meta WHERE key IN (?, 'task')", (RENAMES,)
        )
        return cls.of({key: from_json(value) for key, value in rows})

    def __bool__(self) -> bool:
        return bool(self.steps)

    def now(self, label: str | None, answer: int) -> str | None:
        """Today's name of the class that an answer of this number named."""
        if self.many and self.steps and label is not None:
            return listed(self._now(str(name), answer) for name in from_json(label, list))
        return label if label is None else self._now(label, answer)

    def _now(self, label: str, answer: int) -> str:
        for old, new, last in self.steps:
            if label == old and answer <= last:
                label = new
        return label

    def former(self, classes: Collection[str]) -> dict[str, str]:
        """Names that no class has now → the class they once meant."""
        names = {old for old, _, _ in self.steps} - set(classes)
        return {name: str(self.understood(name, classes)) for name in names}

    def understood(self, label: Any, classes: Collection[str]) -> Any:
        """A class on its way in: a former name, from a page or file of yesterday, is understood."""
        if label in classes:
            return label
        for place in reversed(range(len(self.steps))):
            if self.steps[place][0] == label:
                return Renames(self.steps[place:]).now(label, 0)
        return label


def has_label(position: str, annotator: str) -> str:
    """A condition: the annotator has a label for the item now; both are SQL expressions."""
    mine = f"answers.position = {position} AND answers.annotator = {annotator}"
    return f"EXISTS (SELECT 1 FROM ({_answers(mine)}) WHERE label IS NOT NULL)"


def has_passed(position: str, annotator: str) -> str:
    """A condition: the annotator passes the item now; both are SQL expressions."""
    mine = f"passes.position = {position} AND passes.annotator = {annotator}"
    return f"EXISTS (SELECT 1 FROM ({_passes(mine)}) WHERE {PASSED})"


def labels_of(connection: sqlite3.Connection, position: int) -> list[tuple[str, str, str]]:
    """Annotator, label and source of every label an item has now."""
    return connection.execute(
        f"SELECT annotator, label, source FROM ({_answers('position = ?')}) WHERE label IS NOT "
        "NULL",
        (position,),
    ).fetchall()


def count_labels(connection: sqlite3.Connection, position: int) -> int:
    """How many people (not machines) have a label for an item now."""
    return sum(source != "machine" for _, _, source in labels_of(connection, position))


def by_machines(connection: sqlite3.Connection, position: int) -> bool:
    """Whether an item has labels now, and all of them are machines'."""
    sources = {source for _, _, source in labels_of(connection, position)}
    return sources == {"machine"}
