"""Files and folders: atomic writes, locks, and removal of what interrupted runs left."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import IO

from parbals.errors import InputError, ParbalsError, ProjectError
from parbals.files import TEMPORARY_SUFFIX, replacing, sync_folder

__all__ = [
    "DAY",
    "cache_folder",
    "check_new_folder",
    "locked",
    "new_folder",
    "sole_run",
    "sweep",
    "whole_file",
]

DAY = 24 * 3600.0
"""Seconds of a day."""


@contextmanager
def whole_file(path: str | PathLike[str], *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Write a file completely or not at all; "-" is standard output.

    Like :func:`~parbals.files.replacing`, with errors for people.
    """
    if str(path) == "-":
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    destination = Path(os.path.realpath(path))  # a link stays a link, and its file is replaced
    # Moving a file over /dev/null would remove the device.
    if destination.exists() and not destination.is_file():
        raise InputError(
            f"{path} is not a file, so it cannot be replaced; give a file name, or - for standard "
            "output."
        )
    try:
        with replacing(destination, mode=mode) as file:
            yield file
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{path} could not be written ({reason}), and what was there before is unchanged."
        ) from error


def check_new_folder(folder: Path) -> None:
    """Refuse a path that exists, unless it is an empty folder, and one in a missing folder.

    A missing folder is probably misspelt.
    """
    if not folder.absolute().parent.is_dir():
        raise InputError(
            f"{folder} cannot be created: there is no folder {folder.parent}; correct the name, or "
            "make that folder first."
        )
    if os.path.lexists(folder) and (
        folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())
    ):
        raise InputError(f"{folder} exists and is not an empty folder; name a new one.")


@contextmanager
def new_folder(folder: Path, *, mode: int = 0o777) -> Iterator[Path]:
    """A folder to fill, which gets its name only when all of it is on disk."""
    draft = folder.with_name(f".{folder.name}{TEMPORARY_SUFFIX}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(mode)
        yield draft
        for path in draft.rglob("*"):
            if path.is_file():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
        if folder.is_dir():
            folder.rmdir()
        os.replace(draft, folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def sweep(folder: Path, pattern: str, seconds: float) -> None:
    """Remove files and folders of interrupted runs that are older than so many seconds."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > seconds:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


@contextmanager
def locked(path: Path, busy: ParbalsError) -> Iterator[IO[bytes]]:
    """Lock a file for this process, or raise ``busy`` at once if another process holds it.

    The file is created if necessary and stays; the operating system releases the lock when the
    process ends, however it ends. Other errors, such as a read-only folder, are raised unchanged.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    with open(descriptor, "r+b") as file:
        try:
            _lock(file)
        except OSError:
            raise busy from None
        yield file


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def sole_run(folder: Path, kind: str, name: str, busy: str) -> Iterator[None]:
    """Refuse a second run under the same name: both would ask, and pay for, the same items."""
    path = folder / f"{kind}-{blake2b(name.encode(), digest_size=6).hexdigest()}.lock"
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path, ProjectError(busy)))
        except OSError as error:
            raise ProjectError(f"{path} cannot be written ({error.strerror}).") from None
        yield


def cache_folder() -> Path:
    """The folder of files that parbals can compute again.

    ``$PARBALS_CACHE_DIR``, else the user's cache folder.
    """
    configured = os.environ.get("PARBALS_CACHE_DIR")
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "parbals"
    return Path(configured or default).expanduser()
