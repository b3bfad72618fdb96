"""A file written whole or not at all, and packages that may not be installed."""

import importlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from parbals.errors import MissingDependencyError, first_line
from parbals.installing import install_command

__all__ = ["TEMPORARY_SUFFIX", "need", "replacing", "sync_folder"]

TEMPORARY_SUFFIX = ".parbals-tmp"


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
            f"{purpose} needs packages that are not installed{missing}: {install_command(install)}"
        ) from None
    except Exception as error:  # torchvision raises a RuntimeError when built for another torch
        raise MissingDependencyError(
            f"{purpose} needs packages that are installed but cannot be loaded "
            f"({first_line(error)}); versions that fit together help: "
            f"{install_command(install, upgrade=True)}"
        ) from None
    return loaded[0] if len(loaded) == 1 else loaded
