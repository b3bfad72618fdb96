"""Settings and classes of a project, and the record of what was decided when."""

import getpass
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any
from zlib import crc32

from parbals.errors import LabelError

from parbals_label.store.current import RENAMES, Renames
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items
from parbals_label.store.records import Event
from parbals_label.store.rows import check_text, checksum, from_json, now, to_json
from parbals_label.store.settings import ProjectSettings, checked_settings

__all__ = [
    *("ADDED", "CHANGED", "EXPORTED", "HERE", "RELEASED", "RENAMED_CLASS", "TAKEN_BACK", "TOLD"),
    *("Meta", "check_classes", "write_meta"),
]

TOLD = (
    *("strategy", "loss", "guidelines", "highlight", "find", "answers_wanted", "classes"),
    *("lease_minutes", "goal_labels", "goal_error"),
)
"""What people decide: a change of it is remembered."""
CHANGED, RENAMED_CLASS, ADDED = "settings changed", "class renamed", "items added"
EXPORTED, TAKEN_BACK, RELEASED = "exported", "label taken back", "items given back"
"""Kinds of events."""
HERE = "this machine"
"""Where commands come from."""


class Meta:
    """The part of the store that holds settings, classes and events."""

    _db: Database
    _actor: tuple[str, str] | None = None

    @property
    def settings(self) -> ProjectSettings:
        """The settings as they are now; change them with ``update_settings``."""
        return ProjectSettings.of(self._meta())

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels an answer may have, in the order they were declared."""
        return tuple(self._meta()["classes"])

    @property
    def former_classes(self) -> dict[str, str]:
        """Names that classes had once and no class has now → the names of today."""
        meta = self._meta()
        return Renames.of(meta).former(meta["classes"])

    def update_settings(self, **changes: Any) -> None:
        """Change settings; ``classes`` may grow but not shrink, since answers refer to them.

        What people decide (``TOLD``) is remembered as an event, with what it was before.
        Predictions for another number of items than there are now are left out: items were added
        while they were made.
        """
        classes = check_classes(changes.pop("classes")) if "classes" in changes else None
        changes = checked_settings(changes)
        with self._db.transaction() as connection:
            before = read_meta(connection)[0]
            if classes is not None:
                missing = [name for name in before["classes"] if name not in classes]
                if missing:
                    raise LabelError(
                        f"classes leaves out {missing[0]!r}; classes can be added but not removed."
                    )
                changes["classes"] = classes
            predictions = changes.get("predictions")
            if predictions is not None and predictions["shape"][0] != count_items(connection):
                del changes["predictions"]
            if told := _told(before, changes):
                self._log(connection, CHANGED, told)
            write_meta(connection, self._db.project, changes)

    def rename_class(self, old: str, new: str) -> None:
        """Give a class another name; its answers mean it still, and history keeps the old name."""
        check_text(new, "The new name of a class")
        with self._db.transaction() as connection:
            meta = read_meta(connection)[0]
            classes = meta["classes"]
            if old not in classes:
                raise LabelError(f"There is no class {old!r}; the classes are {classes}.")
            if new in classes:
                raise LabelError(
                    f"{new!r} is a class already, and two classes cannot be joined; choose another "
                    "name."
                )
            (last,) = connection.execute("SELECT coalesce(max(answer), 0) FROM answers").fetchone()
            changes: dict[str, Any] = {
                "classes": [new if name == old else name for name in classes],
                RENAMES: [*meta.get(RENAMES, []), [old, new, last]],
            }
            if meta.get("find") == old:
                changes["find"] = new
            if meta.get("loss") == f"f1:{old}":
                changes["loss"] = f"f1:{new}"
            write_meta(connection, self._db.project, changes)
            self._log(connection, RENAMED_CLASS, {"old": old, "new": new})

    def settings_mark(self) -> int:
        """A number that changes whenever the settings do; it costs less than reading them."""
        with self._db.reading() as connection:
            proofs = connection.execute("SELECT checksum FROM meta ORDER BY key").fetchall()
        return crc32("".join(proof for (proof,) in proofs).encode())

    def log(self, kind: str, **detail: Any) -> int:
        """Remember an event; returns its number."""
        check_text(kind, "kind")
        with self._db.transaction() as connection:
            return self._log(connection, kind, detail)

    def events(self) -> list[Event]:
        """Every event, oldest first."""
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT event, created, kind, detail, who, origin FROM events ORDER BY event"
            ).fetchall()
        return [
            Event(event, created, kind, from_json(detail, dict), who, origin)
            for event, created, kind, detail, who, origin in rows
        ]

    @contextmanager
    def acting(self, who: str, origin: str) -> Iterator[None]:
        """Inside the block events are somebody else's, from elsewhere: the page's visitors."""
        before, self._actor = self._actor, (who, origin)
        try:
            yield
        finally:
            self._actor = before

    def _meta(self) -> dict[str, Any]:
        with self._db.reading() as connection:
            return read_meta(connection)[0]

    def _log(self, connection: sqlite3.Connection, kind: str, detail: dict[str, Any]) -> int:
        who, origin = self._actor or (_user(), HERE)
        cursor = connection.execute(
            "INSERT INTO events (created, kind, detail, who, origin) VALUES (?, ?, ?, ?, ?)",
            (now(), kind, to_json(detail, "detail"), who, origin),
        )
        return int(cursor.lastrowid or 0)


def _user() -> str:
    """The user of this machine who runs the command; a container's may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {getattr(os, 'getuid', int)()}"


def _told(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, list[Any]]:
    """Name → [before, now] of what people would notice."""
    values = {field.name: field.default for field in fields(ProjectSettings)} | before
    told = {name: [values.get(name), changes[name]] for name in TOLD if name in changes}
    return {
        name: [old, new]
        for name, (old, new) in told.items()
        if to_json(old, name) != to_json(new, name)
    }


def write_meta(connection: sqlite3.Connection, project: str, values: dict[str, Any]) -> None:
    """Store settings, each with its proof."""
    for key, value in values.items():
        text = to_json(value, f"The setting {key!r}")
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
            (key, text, checksum(project, "meta", (key, text))),
        )


def check_classes(classes: Sequence[str]) -> list[str]:
    """At least two names, each once."""
    if isinstance(classes, str) or len(classes) < 2:
        raise LabelError(f"classes is {classes!r}; pass a list of at least two class names.")
    names = [check_text(name, f"classes[{row}]") for row, name in enumerate(classes)]
    for row, name in enumerate(names):
        if name in names[:row]:
            raise LabelError(f"classes[{row}] is {name!r} again; name every class once.")
    return names
