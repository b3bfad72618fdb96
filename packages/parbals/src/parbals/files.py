"""Atomic file replacement, and imports of optional packages."""

import importlib
import os
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
    """A binary file that replaces ``path`` atomically when the block succeeds.

    The data is written to a temporary file in the same folder, synced to disk and renamed: readers
    see the old file or the new one. A killed process leaves at most a file ending in
    :data:`TEMPORARY_SUFFIX`, which is safe to delete. A new file gets the permissions ``mode``
    minus the umask, a replaced file keeps its permissions.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"id,label\\n")
    >>> path.read_bytes()
    b'id,label\\n'
    """
    temporary = path.parent / f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
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
    """Sync a folder, so that a renamed file survives a crash; not needed on Windows."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def need(modules: str, purpose: str, install: str) -> Any:
    """Import optional packages, or raise an error with the command that installs them.

    Args:
        modules: names of modules, separated by spaces.
        purpose: the subject of the error message, for example "Exporting to Excel".
        install: what pip is to install, for example "parbals[label]".

    Returns:
        The module, or a list of modules if there are several names.

    >>> need("json", "Reading", "parbals").dumps([1])
    '[1]'
    """
    names = modules.split()
    try:
        loaded = [importlib.import_module(name) for name in names]
    except ImportError as error:
        is_dependency = getattr(error, "name", None) not in (None, *names)
        missing = f" ({error})" if is_dependency else ""
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
