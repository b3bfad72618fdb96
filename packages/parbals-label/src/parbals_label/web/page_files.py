"""The page's files in the project's folder: its token, its last URL, and a file that opens it."""

import os
import re
import secrets
from contextlib import suppress
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from parbals.errors import InputError
from parbals.files import replacing

from parbals_label.web.address import PageAddress, public_origin

__all__ = ["is_copied", "known_address", "opening_file", "page_token", "remember_address"]

_PATH = re.compile(r"(/p/[A-Za-z0-9._~%-]+)?")
_MARKS = "page-marks"
"""The file that lists the page's files with their inodes, so that copies of them are recognised."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def page_token(folder: Path, *, new: bool = False, name: str = "page-token") -> str:
    """Return the token in the file ``name``; it is created if there is none, or if ``new``.

    The token is 32 random bytes that only the owner of the file can read. It is kept, so that open
    pages work after a restart. A token that came with a copy of the folder is replaced, because
    whoever made the copy knows it.
    """
    file = folder / name
    if not new and file.is_file() and not file.is_symlink() and _was_written_here(file):
        os.chmod(file, 0o600)
        token = file.read_text("ascii", errors="replace").strip()
        if _TOKEN.fullmatch(token):
            return token
    token = secrets.token_urlsafe(32)
    _write_and_mark(file, f"{token}\n")
    return token


def opening_file(folder: Path, link: str) -> Path:
    """Write an HTML file that redirects to the link, and that only this user can read.

    The browser is started with this file instead of the link, because other users can see the
    arguments of processes and the link contains the token.
    """
    file = folder / "page-open.html"
    page = Path(__file__).with_name("pages").joinpath("open.html").read_text("utf-8")
    _write_and_mark(file, page.format(link=escape(link)))
    return file


def remember_address(folder: Path, address: PageAddress) -> None:
    """Store the URL of the page, so that commands can create links to it."""
    url = f"{address.origin}{address.path}"
    if known_address(folder) != url:
        _write_and_mark(folder / "page-address", f"{url}\n")


def known_address(folder: Path) -> str | None:
    """Return the latest URL of the page; None if there is none, or if the folder is a copy."""
    with suppress(OSError, UnicodeDecodeError, InputError):
        if not _was_written_here(folder / "page-address"):
            return None
        url = (folder / "page-address").read_text("ascii")[:1000].strip()
        path = urlsplit(url).path
        if _PATH.fullmatch(path):
            return public_origin(url.removesuffix(path)) + path
    return None


def is_copied(folder: Path) -> bool:
    """Whether the folder contains a token or URL that was copied, not written there."""
    files = [folder / "page-token", folder / "page-address"]
    return any(file.is_file() and not _was_written_here(file) for file in files)


def _write_and_mark(file: Path, text: str) -> None:
    """Write a file of the page, and record that it was written here."""
    _write_private(file, text)
    marks = {mark for mark in _marks(file.parent) if not mark.startswith(f"{file.name}:")}
    _write_private(file.parent / _MARKS, " ".join(sorted({*marks, _mark(file)})))


def _write_private(file: Path, text: str) -> None:
    with replacing(file, mode=0o600) as draft:
        os.chmod(draft.name, 0o600)  # a replaced file may have been readable by others
        draft.write(text.encode())


def _was_written_here(file: Path) -> bool:
    """Whether the file was written here, not copied: a copy has another inode."""
    return _mark(file) in _marks(file.parent)


def _mark(file: Path) -> str:
    """Return name and inode of a file; "" if it does not exist."""
    try:
        return f"{file.name}:{file.stat().st_ino}"
    except OSError:
        return ""


def _marks(folder: Path) -> list[str]:
    """Return the marks of the files that were written in a folder."""
    with suppress(OSError, UnicodeDecodeError):
        return (folder / _MARKS).read_text("ascii")[:500].split()
    return []
