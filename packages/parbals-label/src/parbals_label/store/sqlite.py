"""SQLite as the store uses it: settings, patience, and errors as sentences to act on."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from parbals.errors import ParbalsError, ProjectDamagedError, ProjectError

__all__ = [
    "BUSY_SECONDS",
    "configure",
    "connect",
    "damaged",
    "explained",
    "patiently",
    "primary_code",
]

BUSY_SECONDS = 30.0
"""How long a call waits for another process before it gives up."""


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's code without its details; None for an error of Python's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def explained(error: sqlite3.Error, file: Path) -> ParbalsError:
    """The error to raise in place of one of SQLite's."""
    primary = primary_code(error)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ProjectError(
            f"{file} is in use by another program that kept it for {BUSY_SECONDS:g} s; nothing was "
            "stored, try again."
        )
    if primary == sqlite3.SQLITE_FULL:
        return ProjectError(
            f"The disk of {file} is full; nothing was stored, free some space and repeat the call."
        )
    if primary == sqlite3.SQLITE_READONLY:
        return ProjectError(
            f"{file} cannot be written; check the permissions of the file and its folder."
        )
    if primary == sqlite3.SQLITE_IOERR:
        return ProjectError(
            f"{file} could not be read or written (disk error, or no space left); nothing was "
            "stored, check the disk and repeat the call."
        )
    if primary == sqlite3.SQLITE_CANTOPEN:
        return ProjectError(
            f"{file} cannot be opened; check that it exists and the permissions of its folder."
        )
    # SQLITE_ERROR: a table or column that should be there is not; no code: text that is not UTF-8.
    damage = (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_FORMAT,
        None,
    )
    if primary in damage and not isinstance(error, sqlite3.ProgrammingError):
        return ProjectDamagedError(damaged(file, str(error)))
    return ProjectError(f"{file} cannot be used ({error}).")


def damaged(file: Path, problem: str) -> str:
    """The sentence for a damaged project."""
    return (
        f"{file} is damaged: {' '.join(problem.split())}. Nothing was changed; put back a copy, or "
        f"take out the readable answers: `parbals salvage {file.parent} --out answers.csv`."
    )


def configure(connection: sqlite3.Connection) -> None:
    """What every connection of the store has."""
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    connection.execute("PRAGMA synchronous = FULL")
    # macOS: a plain fsync leaves data in the drive's cache.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA foreign_keys = ON")
    # A file from elsewhere cannot call functions from its schema.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cache_size = -32768")
    # A large import leaves a large -wal file otherwise.
    connection.execute("PRAGMA journal_size_limit = 16777216")


def connect(file: Path, mode: str) -> sqlite3.Connection:
    """A connection to a project's file that has read its first page."""
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?{mode}", uri=True, isolation_level=None
    )
    try:
        configure(connection)
        # The first read opens the -wal file; the last process to close may hold everything for a
        # moment.
        patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_master").fetchone())
    except BaseException:
        connection.close()
        raise
    return connection


def patiently(action: Callable[[], object]) -> None:
    """SQLite does not wait by itself while another process recovers or closes the project."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            action()
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
