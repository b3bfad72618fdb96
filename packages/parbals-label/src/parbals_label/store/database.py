"""The connection under the store: opening, transactions, clear errors, and the journal."""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from parbals.errors import ProjectDamagedError, ProjectError

from parbals_label.store.current import Answered
from parbals_label.store.folder import (
    FILE_NAME,
    check_folder,
    connect,
    damaged,
    explained,
    patiently,
    primary_code,
)
from parbals_label.store.integrity import compare, problems, read_meta
from parbals_label.store.journal import Journal, entry, proved_id
from parbals_label.store.rows import checksum, utc_now
from parbals_label.store.schema import COLUMNS, check_version

__all__ = ["Database"]


class Database:
    """One checked connection to the project in a folder.

    A connection is opened for writing only after a read-only one has found the project sound, so
    that looking at a damaged project changes nothing. Files that were moved away or replaced are
    noticed at the next call, which opens them again.
    """

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self.folder = folder
        self.file = folder / FILE_NAME
        self.journal = Journal(folder)
        self.read_only = read_only
        self.project = ""
        self.index_checked = False
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self._lines: list[bytes] | None = None
        self._files: tuple[object, ...] = ()
        check_folder(folder)
        with self._errors():
            self._open()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read from; inside ``transaction`` use the one it gives."""
        with self._errors():
            yield self._ready()

    def rows(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """What a query finds, outside of a transaction."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything in the block is on disk when it ends, or nothing of it."""
        if self.read_only:
            raise ProjectError(f"{self.folder} was opened for reading only; open it for writing.")
        if self._lines is not None:
            with self._errors(), self._part(self._lines) as connection:
                yield connection
            return
        with self._errors():
            connection = self._ready()
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
            self._lines = lines = list[bytes]()
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise
            finally:
                self._lines = None
            if self._files != self._identity():
                raise ProjectError(
                    f"{self.file} was moved or removed while it was open, so this call is not "
                    "confirmed; put the file back and repeat the call."
                )
            self.journal.append(lines)

    @contextmanager
    def _part(self, lines: list[bytes]) -> Iterator[sqlite3.Connection]:
        """One call of several that share a commit."""
        connection, before = self._connection, len(lines)
        assert connection is not None
        connection.execute("SAVEPOINT part")
        try:
            yield connection
        except BaseException:
            del lines[before:]
            if connection.in_transaction:  # a full disk makes SQLite undo everything by itself
                connection.execute("ROLLBACK TO part")
                connection.execute("RELEASE part")
            raise
        connection.execute("RELEASE part")

    def insert(self, table: str, *values: int | str | None) -> int:
        """Append a row to one of the tables of ``COLUMNS``, inside a transaction; its number.

        ``values`` are those between its number and its time: the position of an item is the first.
        """
        connection, lines = self._connection, self._lines
        assert connection is not None
        assert lines is not None
        (last,) = connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()
        row = (last + 1, *values, utc_now())
        proof, marks = checksum(self.project, table, row), ", ?" * len(row)
        connection.execute(
            f"INSERT INTO {table} ({COLUMNS[table]}, checksum) VALUES (?{marks})", (*row, proof)
        )
        name = proved_id(connection, self.project, row[1])
        lines.append(entry(self.project, table, row, proof, name))
        return int(row[0])

    def answered(self, connection: sqlite3.Connection) -> Answered:
        """Who has labelled, and which items have a label now; inside a transaction or outside."""
        return self._answered.read(connection, is_committed=not self._lines)

    def settle(self) -> None:
        """Fold what the -wal file holds into the project's file, as far as nobody is in the way."""
        with self.reading() as connection, suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection; the last to close folds the -wal file into the project's file."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(sqlite3.Error):
                connection.close()

    def _ready(self) -> sqlite3.Connection:
        if self._closed:
            raise ProjectError("The project is closed; open it again.")
        if self._connection is None or self._files != self._identity():
            self._drop()
            self._open()
        assert self._connection is not None
        return self._connection

    def _open(self) -> None:
        try:
            size = self.file.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise ProjectError(
                f"There is no project in {self.folder}; create one with `parbals init`."
            ) from None
        except OSError as error:
            raise ProjectError(f"{self.file} cannot be opened ({error.strerror}).") from None
        if size == 0:
            raise ProjectDamagedError(
                f"{self.file} is empty, so the project is lost; put back a copy of it."
            )
        try:
            reader = self._reader()
        except UnicodeDecodeError:  # SQLite quotes damaged text, which Python cannot read
            problem = "its tables are not those of a project"
            raise ProjectDamagedError(damaged(self.file, problem)) from None
        if self.read_only:
            self._connection = reader
        else:
            with closing(reader):
                self._connection = connection = connect(self.file, "mode=rw")
                patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
                # A copy that was put back has no -wal file before the first read.
                patiently(lambda: connection.execute("SELECT 1 FROM sqlite_master").fetchone())
        self._files = self._identity()
        self.index_checked = False
        self._answered = Answered()  # another file may lie there now

    def _reader(self) -> sqlite3.Connection:
        """A read-only connection to a sound project."""
        size = self.journal.size()
        try:
            connection = connect(self.file, "mode=ro")
        except sqlite3.OperationalError as error:
            # A folder that cannot be written has no room for SQLite's shared memory; without a -wal
            # none is needed.
            wal = Path(f"{self.file}-wal")
            refused = primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not refused or (wal.exists() and wal.stat().st_size):
                raise
            connection = connect(self.file, "immutable=1")
        try:
            patiently(lambda: connection.execute("BEGIN"))
            try:
                check_version(connection)
            except ProjectError as error:
                raise ProjectError(f"{self.file} cannot be opened. {error}") from None
            problem = next(problems(connection), None)
            if problem is None:
                self.project = read_meta(connection)[0]["project"]
                lines = self.journal.lines(size)
                problem, missing = compare(connection, self.project, lines)
            if problem is not None:
                raise ProjectDamagedError(damaged(self.file, problem))
            if not self.read_only:
                self.journal.complete(connection, self.project, missing)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _identity(self) -> tuple[object, ...]:
        """Which files the connection has: SQLite goes on writing to one that was removed."""
        files: list[object] = []
        for path in (str(self.file), f"{self.file}-wal"):
            try:
                status = os.stat(path)
                files.append((status.st_dev, status.st_ino))
            except OSError:
                files.append(None)
        return tuple(files)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explained(error, self.file) from error
