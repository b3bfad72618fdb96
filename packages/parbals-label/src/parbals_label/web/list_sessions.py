"""Browser sessions of the list of projects: one private file each, named by the session's hash.

A file holds no secret: the cookie cannot be computed from its hash. A session ends when its file is
removed, so a command can end it while the server runs.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals_label.store.people import hashed
from parbals_label.store.records import SessionRow

__all__ = ["ListSessions"]

_FOLDER = "page-sessions"
_ID_LENGTH = 10
"""Characters of a session's hash that identify it."""
_MAX_SESSIONS = 1000
"""Sessions of the link: far more than people need, and few enough to store."""


class ListSessions:
    """The sessions of the server's own link in a folder of projects."""

    def __init__(self, projects: Path) -> None:
        self._folder = projects / _FOLDER

    @property
    def exists(self) -> bool:
        """Whether a list of projects was ever served from this folder."""
        return self._folder.is_dir()

    def add(self, cookie: str, token: str, host: str, expires: float) -> None:
        """Store a session that a browser has started at a host with the link's token."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for path in self._newest_first()[_MAX_SESSIONS - 1 :]:
            path.unlink(missing_ok=True)
        session = {"place": host, "created": time.time(), "expires": expires, "link": hashed(token)}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(self._folder / hashed(cookie), flags, 0o600), "w") as file:
            json.dump(session, file)

    def __contains__(self, cookie: str) -> bool:
        return (self._folder / hashed(cookie)).is_file()

    def end(self, cookie: str) -> None:
        """End the session of a browser that signs out."""
        (self._folder / hashed(cookie)).unlink(missing_ok=True)

    def end_by_id(self, prefix: str) -> int:
        """End the sessions whose id starts with this prefix; returns how many."""
        paths = [path for path in self._newest_first() if path.name.startswith(prefix)]
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    def remove_ended(self, token: str) -> None:
        """Remove sessions that have expired, and those of an earlier token."""
        for path in self._newest_first():
            session = _read(path)
            is_of_token = session.get("link") == hashed(token)
            if not is_of_token or session["expires"] <= time.time():
                path.unlink(missing_ok=True)

    def rows(self) -> list[SessionRow]:
        """Return every browser that is signed in, the latest first."""
        rows = []
        for path in self._newest_first():
            session = _read(path)
            if session.get("expires", 0.0) <= time.time():
                continue
            rows.append(
                SessionRow(
                    id=path.name[:_ID_LENGTH],
                    name=None,
                    place=session["place"],
                    created=session["created"],
                    expires=session["expires"],
                )
            )
        return rows

    def _newest_first(self) -> list[Path]:
        paths = []
        with suppress(OSError):
            paths = [(path.stat().st_mtime, path) for path in self._folder.iterdir()]
        return [path for _, path in sorted(paths, reverse=True)]


def _read(path: Path) -> dict[str, Any]:
    """Read a session; {} if it has just ended, or is not complete."""
    with suppress(OSError, ValueError):
        session: dict[str, Any] = json.loads(path.read_text())
        return session
    return {}
