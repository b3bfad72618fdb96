"""The store's database connection: opening, transactions, errors, and the journal."""

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
    damage_message,
    explain,
    primary_code,
    retry_while_busy,
)
from parbals_label.store.integrity import compare, find_problems, read_meta
from parbals_label.store.journal import Journal, entry, verified_id
from parbals_label.store.rows import checksum, utc_now
from parbals_label.store.schema import COLUMNS, check_version

__all__ = ["Database"]


class Database:
    """One connection to the project in a folder, which is checked on opening.

    A connection is opened for writing only after a read-only one has found the project sound, so
    that opening a damaged project changes nothing. Files that were moved or replaced are detected
    at the next call, which opens them again.
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
        """Yield a connection to read from; inside ``transaction`` use its connection."""
        with self._errors():
            yield self._connected()

    def rows(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Return the rows of a query, outside of a transaction."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit everything in the block when it ends, or nothing of it."""
        if self.read_only:
            raise ProjectError(f"{self.folder} was opened for reading only; open it for writing.")
        if self._lines is not None:
            with self._errors(), self._savepoint(self._lines) as connection:
                yield connection
            return
        with self._errors():
            connection = self._connected()
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
            lines: list[bytes] = []
            self._lines = lines
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
            if self._files != self._file_ids():
                raise ProjectError(
                    f"{self.file} was moved or removed while it was open, so this call is not "
                    "confirmed; put the file back and repeat the call."
                )
            self.journal.append(lines)

    @contextmanager
    def _savepoint(self, lines: list[bytes]) -> Iterator[sqlite3.Connection]:
        """Run one of several calls that share a commit; an error rolls back only this call."""
        connection = self._connection
        n_lines = len(lines)
        assert connection is not None
        connection.execute("SAVEPOINT part")
        try:
            yield connection
        except BaseException:
            del lines[n_lines:]
            if connection.in_transaction:  # on a full disk, SQLite rolls back everything
                connection.execute("ROLLBACK TO part")
                connection.execute("RELEASE part")
            raise
        connection.execute("RELEASE part")

    def insert(self, table: str, *values: int | str | None) -> int:
        """Append a row to one of the tables of ``COLUMNS``, inside a transaction.

        ``values`` are the columns between the number and the time; the first is the item's
        position. Returns the number of the row.
        """
        connection = self._connection
        lines = self._lines
        assert connection is not None
        assert lines is not None
        (last,) = connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()
        row = (last + 1, *values, utc_now())
        row_checksum = checksum(self.project, table, row)
        placeholders = ", ".join("?" * (len(row) + 1))
        connection.execute(
            f"INSERT INTO {table} ({COLUMNS[table]}, checksum) VALUES ({placeholders})",
            (*row, row_checksum),
        )
        item_id = verified_id(connection, self.project, row[1])
        lines.append(entry(self.project, table, row, row_checksum, item_id))
        return int(row[0])

    def answered(self, connection: sqlite3.Connection) -> Answered:
        """Return who has labelled and which items have a label, also inside a transaction."""
        return self._answered.read(connection, is_committed=not self._lines)

    def checkpoint(self) -> None:
        """Move the contents of the -wal file to the project's file, as far as others allow."""
        with self.reading() as connection, suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection; the last one to close removes the -wal file."""
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _connected(self) -> sqlite3.Connection:
        """Return the connection, which is opened again if the files were replaced."""
        if self._closed:
            raise ProjectError("The project is closed; open it again.")
        if self._connection is None or self._files != self._file_ids():
            self._disconnect()
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
            reader = self._open_reader()
        except UnicodeDecodeError:  # SQLite quotes damaged text, which Python cannot decode
            problem = "its tables are not those of a project"
            raise ProjectDamagedError(damage_message(self.file, problem)) from None
        if self.read_only:
            self._connection = reader
        else:
            with closing(reader):
                connection = connect(self.file, "mode=rw")
                self._connection = connection
                retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
                # A restored copy has no -wal file before the first read.
                retry_while_busy(
                    lambda: connection.execute("SELECT 1 FROM sqlite_master").fetchone()
                )
        self._files = self._file_ids()
        self.index_checked = False
        self._answered = Answered()  # it may be another file now

    def _open_reader(self) -> sqlite3.Connection:
        """Open a read-only connection to a project and check that it is sound."""
        size = self.journal.size()
        try:
            connection = connect(self.file, "mode=ro")
        except sqlite3.OperationalError as error:
            # SQLite cannot create its shared memory in a read-only folder; without a -wal file it
            # is not needed.
            wal = Path(f"{self.file}-wal")
            codes = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            has_wal = wal.exists() and wal.stat().st_size > 0
            if primary_code(error) not in codes or has_wal:
                raise
            connection = connect(self.file, "immutable=1")
        try:
            retry_while_busy(lambda: connection.execute("BEGIN"))
            try:
                check_version(connection)
            except ProjectError as error:
                raise ProjectError(f"{self.file} cannot be opened. {error}") from None
            problem = next(find_problems(connection), None)
            if problem is None:
                self.project = read_meta(connection)[0]["project"]
                lines = self.journal.lines(size)
                problem, missing = compare(connection, self.project, lines)
            if problem is not None:
                raise ProjectDamagedError(damage_message(self.file, problem))
            if not self.read_only:
                self.journal.complete(connection, self.project, missing)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _file_ids(self) -> tuple[object, ...]:
        """Return the files on disk: SQLite would continue to write to a file that was removed."""
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
        """Turn errors of SQLite into errors of parbals."""
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.file) from error
