"""The page's own files in the project's folder: the token that opens it, and the lock that keeps it
to one server."""

import os
import re
import secrets
import sys
from pathlib import Path
from typing import IO

from parbals.errors import ProjectError

__all__ = ["hold_lock", "page_token"]

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def page_token(folder: Path, *, new: bool = False) -> str:
    """The token in ``page-token``, made where there is none; with ``new`` the old one becomes
    useless.

    32 random bytes that only the owner of the file can read. It stays, so that pages left open work
    after a restart.
    """
    file = folder / "page-token"
    try:
        if not new and file.is_file() and not file.is_symlink():
            os.chmod(file, 0o600)
            known = file.read_text("ascii", errors="replace").strip()
            if _TOKEN.fullmatch(known):
                return known
        token = secrets.token_urlsafe(32)
        draft = folder / f".page-token-{secrets.token_hex(8)}"
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(number, "w", encoding="ascii") as text:
            text.write(token + "\n")
        os.replace(draft, file)
    except OSError as error:
        raise ProjectError(
            f"{file} cannot be written ({error.strerror}); the page needs a folder that it can "
            "write to."
        ) from None
    return token


def hold_lock(folder: Path) -> IO[bytes]:
    """The open lock file of a project's only server; a second one is refused.

    It ends when the process does.
    """
    file = folder / "page.lock"
    try:
        lock = open(file, "ab")  # noqa: SIM115 - held until the server ends
    except OSError as error:
        raise ProjectError(
            f"{file} cannot be written ({error.strerror}); the page needs a folder that it can "
            "write to."
        ) from None
    try:
        _lock(lock)
    except OSError:
        lock.close()
        raise ProjectError(
            f"Another server already shows the project in {folder}; use its page, or stop it first."
        ) from None
    return lock


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
