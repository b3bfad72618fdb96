"""Rows in the user's cache: private to their owner, and verified whenever they are read.

Rows of texts tell what the texts say, and rows of another user's making would become features. So
only the owner has access to the folder, files of other users are not used, and each file ends with
a digest of its name and its rows.
"""

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from parbals.errors import InputError
from parbals.files import replacing

from parbals_label.files import cache_folder

__all__ = ["damaged_files", "private_folder", "read_rows", "write_rows"]

_DIGEST_BYTES = 16
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_FILES = ("embeddings/*.npy", "adapted/*/*.npy")
"""Where rows are stored in the cache."""


def private_folder(name: str) -> Path:
    """A folder of the cache to which only this user has access; created if it is missing."""
    folder = cache_folder() / name
    try:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        status = folder.stat()
        if _is_own(status) and stat.S_IMODE(status.st_mode) != _FOLDER_MODE:
            folder.chmod(_FOLDER_MODE)
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error}).") from None
    if not _is_own(status):
        raise InputError(
            f"{folder} belongs to another user, whose files could change the features; set "
            "PARBALS_CACHE_DIR to a folder of your own."
        )
    return folder


def write_rows(file: Path, rows: np.ndarray) -> None:
    """Write rows (n, D), completely or not at all."""
    stored = io.BytesIO()
    np.save(stored, rows)
    content = stored.getvalue()
    try:
        with replacing(file, mode=_FILE_MODE) as out:
            out.write(content + _digest(file, content))
    except OSError as error:
        raise InputError(
            f"{file} cannot be written ({error.strerror or error}); finished items are kept."
        ) from error


def read_rows(file: Path, n_rows: int) -> np.ndarray | None:
    """The rows (n_rows, D) of a file; None where there is none, or not what was written."""
    content = _verified_content(file)
    if content is None:
        return None
    with suppress(ValueError, EOFError):
        rows: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
        if rows.ndim == 2 and len(rows) == n_rows and rows.dtype.kind == "f":
            return rows
    return None


def damaged_files() -> Iterator[Path]:
    """Files of rows in the cache that are not what was written; they would be computed again."""
    for pattern in _FILES:
        for file in sorted(cache_folder().glob(pattern)):
            if _verified_content(file) is None:
                yield file


def _verified_content(file: Path) -> bytes | None:
    """The bytes of an array in a file of this user; None where they do not have their digest."""
    # A pipe would block for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(file, flags), "rb") as source:
            status = os.fstat(source.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_own(status):
                return None
            content = source.read()
    except OSError:
        return None
    array = content[:-_DIGEST_BYTES]
    return array if content[-_DIGEST_BYTES:] == _digest(file, array) else None


def _digest(file: Path, content: bytes) -> bytes:
    """The digest of a file's content, which is not that of another file."""
    name = f"{file.parent.name}/{file.name}\0".encode()
    return hashlib.blake2b(name + content, digest_size=_DIGEST_BYTES).digest()


def _is_own(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user; Windows has no such numbers."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
