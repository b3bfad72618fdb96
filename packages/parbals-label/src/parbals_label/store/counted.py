"""Whose answers count in a measurement of the error: people's, given to one item at a time."""

from collections.abc import Iterable

from parbals.wording import PROGRAM_PREFIX

from parbals_label.store.names import is_reserved, name_key

__all__ = ["CountedAnnotators"]

_COUNTED_SOURCES = ("person", "decision")
"""Sources of answers that count: not imports, programs, and labels for many items at once."""


class CountedAnnotators:
    """Tells whether an answer counts in a measurement.

    Answers of people count that were given on the page, or read from a file under a person's name.
    Imported labels, labels in bulk, and labels under a name that is reserved for programs, or that
    a program of the project has, do not count.

    >>> counted = CountedAnnotators({"ada", "machine:gpt"})
    >>> counted("ada", "person"), counted("import", "person"), counted("gpt", "person")
    (True, False, False)

    Args:
        names: everybody who has ever labelled, programs among them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._programs = {
            name_key(name.removeprefix(PROGRAM_PREFIX))
            for name in names
            if name.startswith(PROGRAM_PREFIX)
        }

    def __call__(self, annotator: str, source: str) -> bool:
        """Whether an answer of this annotator from this source counts."""
        if source not in _COUNTED_SOURCES or is_reserved(annotator):
            return False
        return name_key(annotator) not in self._programs
