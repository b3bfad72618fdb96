"""Files that appear whole or not at all."""

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
from typing import IO

from parbals.errors import InputError

__all__ = ["TEMPORARY_SUFFIX", "replacing", "sync_folder", "whole_file"]

TEMPORARY_SUFFIX = ".parbals-tmp"


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """As :func:`replacing`, but "-" is standard output, and what the system refuses becomes one sentence."""
    if str(path) == "-":
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))  # a link stays a link, and its target is replaced
    if target.exists() and not target.is_file():  # moving a file over /dev/null would remove the device
        raise InputError(f"{path} is not a file, so it cannot be replaced; give a file name, or - for standard output.")
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path} could not be written ({reason}), and what was there before is unchanged.") from error


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block ends well.

    It is written beside the target, forced to disk, and moved over it in one step. Whoever looks sees the old file or
    the new one. A process that is killed leaves at most a file ending in :data:`TEMPORARY_SUFFIX`, safe to delete.
    """
    temporary = target.parent / f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    try:
        with temporary.open("xb") as file:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException:
        _discard(temporary)
        raise


def _discard(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def sync_folder(folder: Path) -> None:
    """The new name itself must reach the disk. Windows cannot open a folder, and does not need it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
