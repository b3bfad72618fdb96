"""The journal: every answer and pass as a line of JSON in ``project.journal``, beside the database.

So is every request that only repeated what was there. The journal is witness, back-up and rescue in
one. SQLite cannot tell that its -wal file was lost, cut short or swapped: it opens the project as
it was some answers ago. The journal knows what was confirmed, so that is noticed on opening; and
any editor can read it when SQLite cannot read the database.

A line is appended, and flushed to disk, after SQLite has committed its row and before the call
returns: the journal never holds what was not stored. A process that dies in between leaves it
behind, and so does a full disk; the next one that opens the project for writing appends what is
missing. Meanwhile it is logged, and ``behind`` says how many lines wait. Lines are never changed,
may come in any order and more than once, and each proves itself: its last field
is a keyed hash of everything before. What does not pass is left out.
"""

import json
import logging
import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from parbals.errors import ProjectError
from parbals.files import sync_folder

from parbals_label.store.folder import JOURNAL_NAME, file_mode
from parbals_label.store.rows import checksum
from parbals_label.store.schema import COLUMNS

__all__ = ["Journal", "Start", "entry", "proved_id", "proved_start"]

_log = logging.getLogger("parbals.store")

_START = re.compile(
    rb'\{"(answer|pass|repeat)":([1-9]\d{0,14}),"checksum":"([0-9a-f]{16})","project":"([0-9a-f]{32})",'
)
_TABLES = {names.partition(",")[0].encode(): table for table, names in COLUMNS.items()}
_PROOF = len('"proof":"0123456789abcdef"}')


class Start(NamedTuple):
    """How a line begins: which row it is, and the checksum that the database has for it."""

    table: str
    number: int
    checksum: int
    project: str


class Journal:
    """The file; what cannot be written waits for the next time, for the answers are in SQLite."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / JOURNAL_NAME
        self._behind: list[bytes] = []

    @property
    def behind(self) -> int:
        """Lines that could not be written yet; their rows are in the database alone."""
        return len(self._behind)

    def size(self) -> int:
        """Bytes; ask before the database is read, so that later answers cannot seem lost."""
        try:
            return self.file.lstat().st_size
        except OSError:
            return 0

    def lines(self, size: int | None = None) -> Iterator[bytes]:
        """Its lines, or those in its first ``size`` bytes, without their ends."""
        try:
            number = self._open(os.O_RDONLY)
        except OSError:
            return
        with open(number, "rb") as file:
            left = self.size() if size is None else size
            while left > 0 and (line := file.readline(left)):
                left -= len(line)
                yield line.rstrip(b"\n")

    def append(self, lines: Sequence[bytes], *, must: bool = False) -> None:
        """Write lines and flush them to disk; an error only where they ``must`` be written now."""
        self._behind += lines
        if not self._behind:
            return
        try:
            number = self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with open(number, "r+b", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(end - 1, 0))
                torn = end > 0 and file.read(1) != b"\n"  # by a full disk or a power cut
                data = b"\n" * torn + b"".join(line + b"\n" for line in self._behind)
                while data:
                    data = data[file.write(data) :]
                getattr(os, "fdatasync", os.fsync)(file.fileno())
            if end == 0:  # it may be new, and then so is its name in the folder
                sync_folder(self.file.parent)
            self._behind.clear()
        except (OSError, ProjectError) as error:
            reason = getattr(error, "strerror", None) or error
            _log.warning(
                "%s cannot be written (%s); labels are stored in the database alone",
                self.file,
                reason,
            )
            if must:
                raise ProjectError(
                    f"{self.file} cannot be written ({reason}); check the disk, and the "
                    "permissions of the file and its folder."
                ) from None

    def complete(
        self, connection: sqlite3.Connection, project: str, missing: dict[str, list[int]]
    ) -> None:
        """Append the rows that it lacks."""
        rows = [(table, number) for table, numbers in missing.items() for number in numbers]
        for start in range(0, len(rows), 1000):
            lines = []
            for table, number in rows[start : start + 1000]:
                *fields, proof = connection.execute(
                    f"SELECT {COLUMNS[table]}, checksum FROM {table} WHERE rowid = ?", (number,)
                ).fetchone()
                name = proved_id(connection, project, fields[1])
                lines.append(entry(project, table, fields, proof, name))
            self.append(lines, must=True)

    def _open(self, flags: int) -> int:
        """A plain file, never a link: what is written must not land anywhere else."""
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        refusal = ProjectError(f"{self.file} is not a plain file; move it away.")
        try:
            number = os.open(self.file, flags, file_mode(self.file.parent))
        except OSError:
            if self.file.is_symlink() or self.file.is_dir():
                raise refusal from None
            raise
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise refusal
        return number


def entry(
    project: str, table: str, fields: Sequence[Any], row_checksum: str, item_id: str | None
) -> bytes:
    """The line of a row of one of the tables of ``COLUMNS``."""
    number, position, *names = COLUMNS[table].split(", ")
    record = {number: fields[0], "checksum": row_checksum, "project": project}
    record |= {position: fields[1], "id": item_id}
    record |= dict(zip(names, fields[2:], strict=True))
    head = json.dumps(record, ensure_ascii=False, separators=(",", ":"))[:-1].encode() + b","
    return head + _proof(project, head)


def _proof(project: str, head: bytes) -> bytes:
    proof = blake2b(head, digest_size=8, key=project.encode(), person=b"journal").hexdigest()
    return b'"proof":"%b"}' % proof.encode()


def proved_start(line: bytes) -> Start | None:
    """How a line begins; None if it does not pass its proof."""
    match = _START.match(line)
    if match is None or line[-_PROOF:] != _proof(match[4].decode(), line[:-_PROOF]):
        return None
    return Start(_TABLES[match[1]], int(match[2]), int(match[3], 16), match[4].decode())


def proved_id(connection: sqlite3.Connection, project: str, position: int) -> str | None:
    """The id of an item; None where the item does not pass its checksum."""
    row = connection.execute(
        "SELECT position, id, content, checksum FROM items WHERE position = ?", (position,)
    ).fetchone()
    passes = row is not None and checksum(project, "items", row[:3]) == row[3]
    return str(row[1]) if passes else None
