"""The files of a project's folder: creation, connections, and errors.

A folder may come from anybody, so its files must be regular files. If one were a link, a pipe or a
device, opening the project could read or write elsewhere, or block for ever. This is checked before
anything is opened.
"""

import os
import re
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from parbals.errors import ParbalsError, ProjectDamagedError, ProjectError
from parbals.files import sync_folder

from parbals_label.store.schema import make_tables

__all__ = [
    "BUSY_SECONDS",
    "FILE_NAME",
    "FOLDER_MODE",
    "JOURNAL_NAME",
    "check_folder",
    "connect",
    "create_file",
    "damage_message",
    "explain",
    "file_mode",
    "is_project_file",
    "primary_code",
    "retry_while_busy",
]

FILE_NAME = "project.sqlite3"
JOURNAL_NAME = "project.journal"
FOLDER_MODE = 0o700
"""Permissions of a new project: only its owner has access."""
BUSY_SECONDS = 30.0
"""How long a call waits for another process: longer than a large import takes."""

_PROJECT_FILES = re.compile(
    r"project\..*|llm\..*|page-.*|page\..*|machine-.*\.lock"
    r"|(features|predictions|map|described|scores|target)-.*\.npy"
    r"|target-.*\.jsonl",
    re.DOTALL,
)


_IN_USE = f"was locked by another program for {BUSY_SECONDS:g} s"
_REASONS = {
    sqlite3.SQLITE_BUSY: f"{_IN_USE}; nothing was stored, try again",
    sqlite3.SQLITE_LOCKED: f"{_IN_USE}; nothing was stored, try again",
    sqlite3.SQLITE_FULL: "is on a disk that is full; nothing was stored, free some space",
    sqlite3.SQLITE_READONLY: "cannot be written; check the permissions of it and its folder",
    sqlite3.SQLITE_IOERR: "could not be read or written (disk error, or no space left); nothing "
    "was stored, check the disk and repeat the call",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; you need permission to read it and to write to its "
    "folder, or copy the folder to a place of your own",
}
"""Explanations of SQLite's error codes, to follow the name of the file."""


def is_project_file(name: str) -> bool:
    """Whether parbals writes files of this name; some file systems ignore case."""
    return _PROJECT_FILES.fullmatch(name.casefold()) is not None


def check_folder(folder: Path) -> None:
    """Refuse a folder in which a file of the project is a link or not a regular file.

    A hard link counts as a link unless both names are in the folder, which happens while a project
    is created. Matrices may be hard links, because they are replaced and never written in place.
    """
    try:
        with os.scandir(folder) as entries:
            files = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    except OSError:
        return  # there is no folder; opening the project reports it
    n_names = Counter((status.st_dev, status.st_ino) for status in files.values())
    for name, status in sorted(files.items()):
        if not is_project_file(name):
            continue
        is_file = stat.S_ISREG(status.st_mode)
        is_linked = status.st_nlink > max(n_names[status.st_dev, status.st_ino], 1)
        if not is_file or (is_linked and not name.endswith(".npy")):
            fault = "has another name elsewhere" if is_file else "is a link, or not a file"
            raise ProjectError(
                f"{folder / name} {fault}, so using it could change something outside the project; "
                "put a plain copy in its place, or move it away."
            )


def file_mode(folder: Path) -> int:
    """Return the permissions of new files: those of the database."""
    try:
        return stat.S_IMODE((folder / FILE_NAME).lstat().st_mode) & 0o666
    except OSError:
        return 0o600


def create_file(folder: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a project in a temporary file and move it in place, so that it is never partial."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # an existing folder keeps its permissions
            folder.mkdir(mode=FOLDER_MODE)
    except OSError as error:
        raise ProjectError(f"The folder {folder} cannot be created ({error.strerror}).") from None
    file = folder / FILE_NAME
    for path in (file, Path(f"{file}-wal"), folder / JOURNAL_NAME):
        if path.exists():
            raise ProjectError(
                f"{path} is already there; open that project, create this one in another folder, "
                "or move the old files away."
            )
    draft = folder / f".{FILE_NAME}-{os.getpid()}-{time.monotonic_ns()}"
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, file_mode(folder)))
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            _configure(connection)
            connection.execute("BEGIN")
            make_tables(connection)
            fill(connection)
            connection.execute("COMMIT")
        try:
            os.link(draft, file)  # unlike a rename, it never replaces a new file
        except FileExistsError:
            raise ProjectError(f"{file} is already there; open that project instead.") from None
        except OSError:  # a file system without hard links
            os.rename(draft, file)
        sync_folder(folder)
    except sqlite3.Error as error:
        raise explain(error, file) from error
    except OSError as error:
        raise ProjectError(f"{file} cannot be written ({error.strerror}).") from error
    finally:
        for path in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _configure(connection: sqlite3.Connection) -> None:
    """Set the options of every connection."""
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
    """Open a connection to a project's file and read its first page."""
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?{mode}", uri=True, isolation_level=None
    )
    try:
        _configure(connection)
        # The first read opens the -wal file, which the last closing process may have locked.
        retry_while_busy(
            lambda: connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        )
    except BaseException:
        connection.close()
        raise
    return connection


def retry_while_busy(action: Callable[[], object]) -> None:
    """Retry while another process recovers or closes the project: SQLite does not wait then."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            action()
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary error code; None for an error of Python's module."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def explain(error: sqlite3.Error, file: Path) -> ParbalsError:
    """Return the error to raise in place of one of SQLite's."""
    code = primary_code(error)
    if code in _REASONS:
        return ProjectError(f"{file} {_REASONS[code]}.")
    # SQLITE_ERROR: a table or column is missing; None: text that is not UTF-8.
    damage_codes = (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_FORMAT,
        None,
    )
    if code in damage_codes and not isinstance(error, sqlite3.ProgrammingError):
        return ProjectDamagedError(damage_message(file, str(error)))
    return ProjectError(f"{file} cannot be used ({error}).")


def damage_message(file: Path, problem: str) -> str:
    """Return the error message of a damaged project."""
    return (
        f"{file} is damaged: {' '.join(problem.split())}. Nothing was changed; put back a copy, or "
        f"take out the readable answers: `parbals backup salvage {file.parent} --out answers.csv`."
    )
