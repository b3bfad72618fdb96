"""Files: written whole or not at all, held by one process at a time, kept in one cache folder."""

import importlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

from parbals.errors import InputError, MissingDependencyError, ParbalsError, first_line

__all__ = [
    "TEMPORARY_SUFFIX",
    "cache_folder",
    "locked",
    "need",
    "replacing",
    "sync_folder",
    "whole_file",
]

TEMPORARY_SUFFIX = ".parbals-tmp"


@contextmanager
def whole_file(path: str | PathLike[str], *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """As :func:`replacing`; "-" is standard output, and a system error becomes one sentence."""
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


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block ends well.

    It is written beside ``path``, forced to disk, and moved over it in one step: readers see the
    old file or the new one. A process that is killed leaves at most a file ending in
    :data:`TEMPORARY_SUFFIX`, safe to delete. A new file may be read and written by those whom
    ``mode`` names and the umask leaves, one that is replaced by those who could before.
    """
    temporary = path.parent / f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            if path.exists():
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make a new name reach the disk. Windows cannot open a folder, and does not need it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(path: Path, busy: ParbalsError) -> Iterator[IO[bytes]]:
    """Hold ``path`` for this process alone, or raise ``busy`` at once where another one holds it.

    The file is made if it is not there and stays; the operating system lets go when the process
    ends, however it ends. What the system refuses (a read-only folder) is raised as it is.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    number = os.open(path, flags, 0o600)
    with open(number, "r+b") as file:
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


def cache_folder() -> Path:
    """Where parbals keeps what it can make again.

    ``$PARBALS_CACHE_DIR``, else the user's cache folder.
    """
    own = os.environ.get("PARBALS_CACHE_DIR")
    base = own or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "parbals"
    return Path(base).expanduser()


def need(modules: str, purpose: str, install: str) -> Any:
    """Import optional packages, names separated by spaces, or say which command brings them.

    One name gives the module, several a list of modules.
    """
    names = modules.split()
    try:
        loaded = [importlib.import_module(name) for name in names]
    except ImportError as error:
        other = getattr(error, "name", None) not in (None, *names)
        missing = f" ({error})" if other else ""
        raise MissingDependencyError(
            f"{purpose} needs packages that are not installed{missing}: pip install '{install}'"
        ) from None
    except Exception as error:  # torchvision raises a RuntimeError when built for another torch
        raise MissingDependencyError(
            f"{purpose} needs packages that are installed but cannot be loaded "
            f"({first_line(error)}); versions that fit together help: "
            f"pip install --upgrade '{install}'"
        ) from None
    return loaded[0] if len(loaded) == 1 else loaded
