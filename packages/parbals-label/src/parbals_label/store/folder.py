"""A project's folder may come from anybody, so its files must be files of its own.

A link, a pipe or a device in the place of one would make a command that merely opens the project
read or write elsewhere, or wait for ever. They are looked for before anything is opened.
"""

import os
import re
import stat
from collections import Counter
from pathlib import Path

from parbals.errors import ProjectError

__all__ = ["FOLDER_MODE", "check_folder", "file_mode", "is_project_file"]

FOLDER_MODE = 0o700
"""Of a new project: it is nobody else's."""

_OURS = re.compile(
    r"project\..*|page-.*|page\..*|machine-.*\.lock|(features|predictions|map)-.*\.npy", re.DOTALL
)


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
        return stat.S_IMODE((folder / "project.sqlite3").lstat().st_mode) & 0o666
    except OSError:
        return 0o600
