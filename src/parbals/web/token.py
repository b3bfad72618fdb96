"""The token that opens the page, in a file of the project's folder."""

import os
import re
import secrets
from pathlib import Path

from parbals.files import replacing

__all__ = ["page_token"]

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def page_token(folder: Path, *, new: bool = False, name: str = "page-token") -> str:
    """The token in the file ``name``, made where there is none; ``new`` makes the old one useless.

    32 random bytes that only the owner of the file can read. It stays, so that pages left open work
    after a restart.
    """
    file = folder / name
    if not new and file.is_file() and not file.is_symlink():
        os.chmod(file, 0o600)
        token = file.read_text("ascii", errors="replace").strip()
        if _TOKEN.fullmatch(token):
            return token
    token = secrets.token_urlsafe(32)
    with replacing(file) as draft:
        os.chmod(draft.name, 0o600)  # while there is nothing in it yet
        draft.write(f"{token}\n".encode())
    return token
