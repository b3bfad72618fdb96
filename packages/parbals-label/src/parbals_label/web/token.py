"""The files of the page in the project's folder: its token, its address, and a way to open it."""

import os
import re
import secrets
from contextlib import suppress
from html import escape
from pathlib import Path

from parbals.errors import InputError
from parbals.files import replacing

from parbals_label.web.place import public_origin

__all__ = ["known_origin", "opening_file", "page_token", "remember_origin"]

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_OPEN = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=referrer content=no-referrer>"
    '<meta http-equiv=refresh content="0;url={link}"><title>parbals</title>'
    '<body><p><a href="{link}">Open the labelling page</a></p></body></html>'
)


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
    _write(file, f"{token}\n")
    return token


def opening_file(folder: Path, link: str) -> Path:
    """A page that only this user can read and that leads to the link.

    A browser is started with the name of this file: other users see the arguments of programs, and
    the link holds the token.
    """
    file = folder / "page-open.html"
    _write(file, _OPEN.format(link=escape(link)))
    return file


def remember_origin(folder: Path, origin: str) -> None:
    """Keep where the page was shown last, so that links can be made for it."""
    if known_origin(folder) != origin:
        _write(folder / "page-address", f"{origin}\n")


def known_origin(folder: Path) -> str | None:
    """Where the page was shown last; None if it never was."""
    with suppress(OSError, UnicodeDecodeError, InputError):
        return public_origin((folder / "page-address").read_text("ascii")[:300])
    return None


def _write(file: Path, text: str) -> None:
    with replacing(file) as draft:
        os.chmod(draft.name, 0o600)  # while there is nothing in it yet
        draft.write(text.encode())
