"""The files of a project's folder: whose they are, how they are made and opened, what can go wrong.

A folder may come from anybody, so its files must be files of its own. A link, a pipe or a device in
the place of one would make a command that merely opens the project read or write elsewhere, or wait
for ever. They are looked for before anything is opened.
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

__all__ = ["BUSY_SECONDS", "FILE_NAME", "FOLDER_MODE", "JOURNAL_NAME", "check_folder", "connect"]
__all__ += ["create_file", "damaged", "explained", "file_mode", "is_project_file", "patiently"]
__all__ += ["primary_code"]

FILE_NAME, JOURNAL_NAME = "project.sqlite3", "project.journal"
FOLDER_MODE = 0o700
"""Of a new project: it is nobody else's."""
BUSY_SECONDS = 30.0
"""How long a call waits for another process: longer than a large import writes for."""

_OURS = re.compile(
    r"project\..*|page-.*|page\..*|machine-.*\.lock|(features|predictions|map|described|scores)-.*\.npy",
    re.DOTALL,
)


_IN_USE = f"is in use by another program that kept it for {BUSY_SECONDS:g} s"
_REASONS = {
    sqlite3.SQLITE_BUSY: f"{_IN_USE}; nothing was stored, try again",
    sqlite3.SQLITE_LOCKED: f"{_IN_USE}; nothing was stored, try again",
    sqlite3.SQLITE_FULL: "is on a disk that is full; nothing was stored, free some space",
    sqlite3.SQLITE_READONLY: "cannot be written; check the permissions of it and its folder",
    sqlite3.SQLITE_IOERR: "could not be read or written (disk error, or no space left); nothing "
    "was stored, check the disk and repeat the call",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that it exists, and its folder's permissions",
}
"""What SQLite's codes mean to people, after the name of the file."""


def is_project_file(name: str) -> bool:
    """Whether a name in the folder is one that parbals writes; some disks ignore capitals."""
    return _OURS.fullmatch(name.casefold()) is not None


def check_folder(folder: Path) -> None:
    """Refuse a folder in which a file of the project is a link, or no file at all.

    A second name of a file that is written in place counts as a link unless it lies in the folder
    too, as it does for a moment when a project is made. Matrices are replaced, never written.
    """
    try:
        with os.scandir(folder) as entries:
            found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    except OSError:
        return  # there is no folder; whoever opens the project says so
    names = Counter((state.st_dev, state.st_ino) for state in found.values())
    for name, state in sorted(found.items()):
        if not is_project_file(name):
            continue
        is_file = stat.S_ISREG(state.st_mode)
        has_more = state.st_nlink > max(names[state.st_dev, state.st_ino], 1)
        if not is_file or (has_more and not name.endswith(".npy")):
            what = "has another name elsewhere" if is_file else "is a link, or not a file"
            raise ProjectError(
                f"{folder / name} {what}, so using it could change something outside the project; "
                "put a plain copy in its place, or move it away."
            )


def file_mode(folder: Path) -> int:
    """Who may read and write the project's files: those who may the database, and nobody new."""
    try:
        return stat.S_IMODE((folder / FILE_NAME).lstat().st_mode) & 0o666
    except OSError:
        return 0o600


def create_file(folder: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a whole project under another name, then put it in place: never half a project."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # a folder that is there already stays as open as it is
            folder.mkdir(mode=FOLDER_MODE)
    except OSError as error:
        raise ProjectError(f"The folder {folder} cannot be made ({error.strerror}).") from None
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
            os.link(draft, file)  # unlike a rename, never replaces one that was made meanwhile
        except FileExistsError:
            raise ProjectError(f"{file} is already there; open that project instead.") from None
        except OSError:  # a file system without links
            os.rename(draft, file)
        sync_folder(folder)
    except sqlite3.Error as error:
        raise explained(error, file) from error
    except OSError as error:
        raise ProjectError(f"{file} cannot be written ({error.strerror}).") from error
    finally:
        for path in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _configure(connection: sqlite3.Connection) -> None:
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
        _configure(connection)
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


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's code without its details; None for an error of Python's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def explained(error: sqlite3.Error, file: Path) -> ParbalsError:
    """The error to raise in place of one of SQLite's."""
    primary = primary_code(error)
    if primary in _REASONS:
        return ProjectError(f"{file} {_REASONS[primary]}.")
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
        f"take out the readable answers: `parbals backup salvage {file.parent} --out answers.csv`."
    )
