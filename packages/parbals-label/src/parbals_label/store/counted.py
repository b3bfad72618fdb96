"""Whose answers count in a measurement of the error: people's, given to one item at a time."""

import sqlite3
from collections.abc import Iterable
from typing import Self

from parbals.wording import PROGRAM_PREFIX

from parbals_label.store.current import Answered
from parbals_label.store.names import UNNAMED, is_reserved, name_key

__all__ = ["CountedAnnotators"]

_COUNTED_SOURCES = ("person", "decision")
"""Sources of answers that count: not imports, programs, and labels for many items at once."""


class CountedAnnotators:
    """Tells whether an answer counts in a measurement.

    Answers count of the people of the project: who were invited, or label on the page. A file may
    name anybody, so labels that it gives under another name do not count, except under the name of
    whoever types the command (:data:`~parbals_label.store.names.UNNAMED`). Nor do imported labels,
    labels in bulk, and labels under a name that is reserved for programs, or that a program of the
    project has.

    >>> counted = CountedAnnotators({"ada", "carol", "machine:gpt"}, people={"ada"})
    >>> counted("ada", "person"), counted("carol", "person"), counted("me", "person")
    (True, False, True)
    >>> counted("ada", "import"), counted("gpt", "person")
    (False, False)

    Args:
        names: everybody who has ever labelled, programs among them.
        people: everybody who was ever invited, or has labelled on the page.
    """

    def __init__(self, names: Iterable[str], people: Iterable[str]) -> None:
        self._programs = {
            name_key(name.removeprefix(PROGRAM_PREFIX))
            for name in names
            if name.startswith(PROGRAM_PREFIX)
        }
        self._people = {name_key(name) for name in (*people, UNNAMED)}

    @classmethod
    def read(cls, connection: sqlite3.Connection, answered: Answered) -> Self:
        """Read the people of the project."""
        invited = [name for (name,) in connection.execute("SELECT name FROM people")]
        return cls(answered.names, people=[*invited, *answered.page_names])

    def __call__(self, annotator: str, source: str) -> bool:
        """Whether an answer of this annotator from this source counts."""
        if source not in _COUNTED_SOURCES or is_reserved(annotator):
            return False
        key = name_key(annotator)
        return key in self._people and key not in self._programs
