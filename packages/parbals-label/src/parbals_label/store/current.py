"""The current answers, as SQL: the latest revision of every item and annotator.

Also derived from them: which items have a label, who has labelled, and what a renamed class means.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from parbals.errors import ProjectDamagedError

from parbals_label.answer_form import MANY, names_text
from parbals_label.store.rows import UNREADABLE, from_json

__all__ = [
    "CURRENT",
    "CURRENT_OF",
    "CURRENT_PASSES",
    "NOT_BY_PEOPLE",
    "PASSED",
    "PASS_UNDONE",
    "RENAMES",
    "SINCE",
    "UNOPENED",
    "Answered",
    "Renames",
    "count_labels",
    "has_label",
    "has_passed",
    "labels_of",
]

RENAMES = "renames"
"""The setting that lists the renamed classes."""
NOT_BY_PEOPLE = ("machine", "import")
"""Sources of answers that do not end a person's task."""
PASS_UNDONE = "taken back"
"""The kind of a pass that undoes the annotator's earlier one."""
PASSED = f"kind <> '{PASS_UNDONE}'"
"""A condition on a current pass: it was not undone."""


def _answers(where: str = "") -> str:
    # SQLite takes the other columns from the row with the maximum.
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
CURRENT_OF = _answers("position IN (SELECT value FROM json_each(:positions))")
"""The same of some items: :positions is a JSON list."""
CURRENT_PASSES = _passes()
"""The latest pass of every item and annotator."""
SINCE = (
    "CASE WHEN c.revision = 1 THEN c.answer ELSE (SELECT min(a.answer) FROM answers AS a WHERE "
    "a.position = c.position AND a.annotator = c.annotator AND a.revision > coalesce((SELECT "
    "max(b.revision) FROM answers AS b WHERE b.position = c.position AND b.annotator = c.annotator "
    "AND b.label IS NOT c.label), 0)) END"
)
"""For a row c of ``CURRENT``: the number of the answer since which its label is unchanged."""

UNOPENED = (
    "SELECT position, batch, strategy FROM leases JOIN batches USING (batch) WHERE queued AND "
    "annotator IS NULL AND strategy <> 'certify' AND NOT EXISTS (SELECT 1 FROM answers AS a WHERE "
    "a.position = leases.position) AND NOT EXISTS (SELECT 1 FROM passes AS p WHERE p.position = "
    "leases.position)"
)
"""Unopened items in the queue, with batch and strategy: nobody holds, labelled or skipped them.

Items of a certificate's sample are excluded: the sample would no longer be random if other items
replaced them."""


class Answered:
    """A cache of the items that have a label and of everybody who has ever labelled.

    It reads only answers that are newer than the last call. Callers must not change the sets.

    Attributes:
        labelled: positions of the items.
        names: everybody who has ever labelled.
        page_names: those of them who have labelled on the page, one item at a time. Answers of the
            page have a request id, those from files have none.
    """

    def __init__(self) -> None:
        self.labelled: set[int] = set()
        self.names: set[str] = set()
        self.page_names: set[str] = set()
        self._last = 0

    def read(self, connection: sqlite3.Connection, *, is_committed: bool) -> "Answered":
        """Return the cache, brought up to date.

        Answers of an open transaction count, but are not cached: they may be rolled back.
        """
        (last,) = connection.execute("SELECT coalesce(max(answer), 0) FROM answers").fetchone()
        if last == self._last:
            return self
        updated = self
        if not is_committed:
            updated = Answered()
            updated.labelled = set(self.labelled)
            updated.names = set(self.names)
            updated.page_names = set(self.page_names)
        newer = _answers("position IN (SELECT position FROM answers WHERE answer > ?)")
        for position, annotator, n_labels in connection.execute(
            "SELECT position, annotator, sum(label IS NOT NULL) OVER (PARTITION BY position) FROM "
            f"({newer})",
            (self._last,),
        ):
            if n_labels:
                updated.labelled.add(position)
            else:
                updated.labelled.discard(position)
            updated.names.add(annotator)
        on_page = connection.execute(
            "SELECT DISTINCT annotator FROM answers WHERE answer > ? AND source IN ('person', "
            "'decision') AND request IS NOT NULL",
            (self._last,),
        )
        updated.page_names.update(annotator for (annotator,) in on_page)
        updated._last = last
        return updated


class Renames:
    """Translates the class names in answers, which are stored as they were at the time.

    The setting ``renames`` lists [old name, new name, number of the last answer before]. A later
    class may reuse the old name: only answers up to that number mean the renamed class. In a
    multi-label project (``many``), an answer names several classes.

    >>> renames = Renames([["junk", "spam", 10]])
    >>> renames.current_name("junk", 7), renames.current_name("junk", 11)
    ('spam', 'junk')
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

    def current_name(self, label: str | None, answer: int) -> str | None:
        """Return the current name of the class, or classes, of the label of an answer."""
        if self.many and self.steps and label is not None:
            return names_text(
                self._current_name(str(name), answer) for name in from_json(label, list)
            )
        return label if label is None else self._current_name(label, answer)

    def _current_name(self, label: str, answer: int) -> str:
        for old, new, last in self.steps:
            if label == old and answer <= last:
                label = new
        return label

    def former(self, classes: Collection[str]) -> dict[str, str]:
        """Return former names that no class has any more → the class that they meant."""
        names = {old for old, _, _ in self.steps} - set(classes)
        return {name: str(self.resolve(name, classes)) for name in names}

    def resolve(self, label: Any, classes: Collection[str]) -> Any:
        """Return the class of a new label, which may be a former name from an old page or file."""
        if label in classes:
            return label
        for index in reversed(range(len(self.steps))):
            if self.steps[index][0] == label:
                return Renames(self.steps[index:]).current_name(label, 0)
        return label


def has_label(position: str, annotator: str) -> str:
    """Return a condition: the annotator has a current label for the item (SQL expressions)."""
    own_rows = f"answers.position = {position} AND answers.annotator = {annotator}"
    return f"EXISTS (SELECT 1 FROM ({_answers(own_rows)}) WHERE label IS NOT NULL)"


def has_passed(position: str, annotator: str) -> str:
    """Return a condition: the annotator currently skips the item (SQL expressions)."""
    own_rows = f"passes.position = {position} AND passes.annotator = {annotator}"
    return f"EXISTS (SELECT 1 FROM ({_passes(own_rows)}) WHERE {PASSED})"


def labels_of(connection: sqlite3.Connection, position: int) -> list[tuple[str, str, str]]:
    """Return annotator, label and source of every current label of an item."""
    return connection.execute(
        f"SELECT annotator, label, source FROM ({_answers('position = ?')}) WHERE label IS NOT "
        "NULL",
        (position,),
    ).fetchall()


def count_labels(connection: sqlite3.Connection, position: int) -> int:
    """Count the people who have a current label for an item: not programs, nor imports."""
    return sum(source not in NOT_BY_PEOPLE for _, _, source in labels_of(connection, position))
