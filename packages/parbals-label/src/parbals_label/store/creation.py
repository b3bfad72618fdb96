"""A new project's file."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from parbals.errors import ProjectError
from parbals.files import sync_folder

from parbals_label.store.database import FILE_NAME
from parbals_label.store.folder import FOLDER_MODE, file_mode
from parbals_label.store.journal import Journal
from parbals_label.store.schema import make_tables
from parbals_label.store.sqlite import configure, explained

__all__ = ["create_file"]


def create_file(folder: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a whole project under another name, then put it in place: never half a project."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # a folder that is there already stays as open as it is
            folder.mkdir(mode=FOLDER_MODE)
    except OSError as error:
        raise ProjectError(f"The folder {folder} cannot be made ({error.strerror}).") from None
    file = folder / FILE_NAME
    for path in (file, Path(f"{file}-wal"), Journal(folder).file):
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
            configure(connection)
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
