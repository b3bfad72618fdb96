"""The journal: every answer, pass and repeated request as a line of JSON in ``project.journal``.

The journal detects losses and is a second copy. SQLite cannot detect that its -wal file was lost,
truncated or replaced: it opens the project as it was some answers ago. The journal contains every
confirmed row, so the loss is detected on opening; and any editor can read it when SQLite cannot
read the database.

A line is appended and flushed to disk after SQLite has committed its row and before the call
returns, so the journal never contains a row that was not stored. If the process is killed in
between, or the disk is full, lines are missing; the next process that opens the project for writing
appends them. Until then a warning is logged, and ``behind`` is the number of missing lines. Lines
are never changed, may come in any order and more than once, and each is verified by its last field,
a keyed hash of everything before it. Lines that fail are ignored.
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

__all__ = ["Journal", "Start", "entry", "verified_id", "verified_start"]

_log = logging.getLogger("parbals.store")

_START = re.compile(
    rb'\{"(answer|pass|repeat)":([1-9]\d{0,14}),"checksum":"([0-9a-f]{16})","project":"([0-9a-f]{32})",'
)
_TABLES = {names.partition(",")[0].encode(): table for table, names in COLUMNS.items()}
_PROOF = len('"proof":"0123456789abcdef"}')


class Start(NamedTuple):
    """The beginning of a line: which row it is, and the row's checksum in the database."""

    table: str
    number: int
    checksum: int
    project: str


class Journal:
    """The journal file; lines that cannot be written are kept for the next attempt."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / JOURNAL_NAME
        self._behind: list[bytes] = []

    @property
    def behind(self) -> int:
        """The number of lines that could not be written yet; the database has their rows."""
        return len(self._behind)

    def size(self) -> int:
        """Return the size in bytes; read it before the database, which may then be newer."""
        try:
            return self.file.lstat().st_size
        except OSError:
            return 0

    def lines(self, size: int | None = None) -> Iterator[bytes]:
        """Iterate over the lines, or those in the first ``size`` bytes, without line ends."""
        try:
            descriptor = self._open(os.O_RDONLY)
        except OSError:
            return
        with open(descriptor, "rb") as file:
            n_left = self.size() if size is None else size
            while n_left > 0 and (line := file.readline(n_left)):
                n_left -= len(line)
                yield line.rstrip(b"\n")

    def append(self, lines: Sequence[bytes], *, must: bool = False) -> None:
        """Write lines and flush them to disk; raise an error only if they ``must`` be written."""
        self._behind += lines
        if not self._behind:
            return
        try:
            descriptor = self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with open(descriptor, "r+b", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(end - 1, 0))
                is_torn = end > 0 and file.read(1) != b"\n"  # after a full disk or power loss
                data = b"\n" * is_torn + b"".join(line + b"\n" for line in self._behind)
                while data:
                    data = data[file.write(data) :]
                getattr(os, "fdatasync", os.fsync)(file.fileno())
            if end == 0:  # the file may be new: flush its name in the folder
                sync_folder(self.file.parent)
            self._behind.clear()
        except (OSError, ProjectError) as error:
            reason = getattr(error, "strerror", None) or error
            _log.warning(
                "%s cannot be written (%s); labels are stored in the database only",
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
        """Append the missing rows."""
        rows = [(table, number) for table, numbers in missing.items() for number in numbers]
        for start in range(0, len(rows), 1000):
            lines = []
            for table, number in rows[start : start + 1000]:
                *fields, row_checksum = connection.execute(
                    f"SELECT {COLUMNS[table]}, checksum FROM {table} WHERE rowid = ?", (number,)
                ).fetchone()
                item_id = verified_id(connection, project, fields[1])
                lines.append(entry(project, table, fields, row_checksum, item_id))
            self.append(lines, must=True)

    def _open(self, flags: int) -> int:
        """Open the file without following a link, so that nothing is written elsewhere."""
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        refusal = ProjectError(f"{self.file} is not a plain file; move it away.")
        try:
            descriptor = os.open(self.file, flags, file_mode(self.file.parent))
        except OSError:
            if self.file.is_symlink() or self.file.is_dir():
                raise refusal from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise refusal
        return descriptor


def entry(
    project: str, table: str, fields: Sequence[Any], row_checksum: str, item_id: str | None
) -> bytes:
    """Return the line of a row of one of the tables of ``COLUMNS``."""
    number, position, *names = COLUMNS[table].split(", ")
    record = {number: fields[0], "checksum": row_checksum, "project": project}
    record |= {position: fields[1], "id": item_id}
    record |= dict(zip(names, fields[2:], strict=True))
    head = json.dumps(record, ensure_ascii=False, separators=(",", ":"))[:-1].encode() + b","
    return head + _proof(project, head)


def _proof(project: str, head: bytes) -> bytes:
    proof = blake2b(head, digest_size=8, key=project.encode(), person=b"journal").hexdigest()
    return b'"proof":"%b"}' % proof.encode()


def verified_start(line: bytes) -> Start | None:
    """Return the beginning of a line; None if its hash is wrong."""
    match = _START.match(line)
    if match is None or line[-_PROOF:] != _proof(match[4].decode(), line[:-_PROOF]):
        return None
    return Start(_TABLES[match[1]], int(match[2]), int(match[3], 16), match[4].decode())


def verified_id(connection: sqlite3.Connection, project: str, position: int) -> str | None:
    """Return the id of an item; None if its checksum is wrong."""
    row = connection.execute(
        "SELECT position, id, content, checksum FROM items WHERE position = ?", (position,)
    ).fetchone()
    if row is None or checksum(project, "items", row[:3]) != row[3]:
        return None
    return str(row[1])
