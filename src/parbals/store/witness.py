"""A second file that knows how many answers were confirmed.

SQLite cannot tell that its -wal file was lost, cut short or swapped: it opens the project as it was
some answers ago. ``project.witness`` holds the project's number and one byte for every confirmed
answer, written at the place of its number after the answer is on disk. One byte cannot be torn and
the file only grows, so processes need no lock for it. It is not flushed: it guards against lost
files, and SQLite guards against power loss. Deleting it is safe; it is written anew.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Testimony", "Witness", "mark"]

_PROJECT = 32
"""Characters of a project's number."""


@dataclass(frozen=True, slots=True)
class Testimony:
    """What the file says: whose answers, and a byte for each (0 where a process died before writing
    it)."""

    project: str
    marks: bytes


def mark(checksum: str) -> int:
    """The byte that stands for an answer: never 0."""
    return int(checksum[:2], 16) or 1


class Witness:
    """The file beside the database; what it cannot write it leaves out, because the answers
    themselves are safe."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "project.witness"

    def read(self) -> Testimony | None:
        """Read it before the database, so that answers of other processes cannot seem lost."""
        try:
            data = self.file.read_bytes()
        except OSError:
            return None
        if len(data) < _PROJECT:
            return None
        return Testimony(data[:_PROJECT].decode("ascii", "replace"), data[_PROJECT:])

    def write(self, project: str, first: int, marks: bytes) -> None:
        """Note the answers ``first``, ``first`` + 1, ... as confirmed."""
        with suppress(OSError):
            number = os.open(self.file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            with open(number, "r+b", buffering=0) as file:
                if file.seek(0, os.SEEK_END) < _PROJECT:
                    file.seek(0)
                    if (
                        file.write(project.encode()) < _PROJECT
                    ):  # a full disk: half a name must not get a tail
                        return
                file.seek(_PROJECT + first - 1)
                file.write(marks)
