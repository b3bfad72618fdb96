"""What SQLite says, turned into one sentence that a user can act on."""

import sqlite3
from pathlib import Path

from parbals.errors import ParbalsError, ProjectDamagedError, ProjectError

__all__ = ["BUSY_SECONDS", "damaged", "explained", "primary_code"]

BUSY_SECONDS = 30.0
"""How long a call waits for another process before it gives up."""


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's code without its details; None for an error of Python's own, such as text that is
    not UTF-8."""
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


def damaged(file: Path, found: str) -> str:
    """The sentence for a damaged project."""
    return (
        f"{file} is damaged: {' '.join(found.split())}. Nothing was changed; put back a copy, or "
        f"take out the readable answers: `parbals salvage {file.parent} --out answers.csv`."
    )
