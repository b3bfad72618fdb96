"""The log of a project: who changed what, when and from where, in words."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals.errors import ProjectError

from parbals_label.project.history import change_words
from parbals_label.store.records import (
    ADDED,
    CHANGED,
    EXPORTED,
    INVITED,
    NEW_LINK,
    RELEASED,
    RENAMED_CLASS,
    REVOKED,
    ROLE,
    TAKEN_BACK,
    Event,
)
from parbals_label.store.store import Store

__all__ = ["log_export", "log_rows", "log_text"]

LOGGED = (
    *(CHANGED, RENAMED_CLASS, ADDED, EXPORTED, TAKEN_BACK, RELEASED),
    *(INVITED, NEW_LINK, ROLE, REVOKED),
)
"""The events that are somebody's decision; programs write others for themselves."""


def log_rows(store: Store) -> list[dict[str, Any]]:
    """One row for each change, oldest first."""
    return [
        {
            "number": event.event,
            "created": event.created,
            "what": event.kind,
            "who": event.who,
            "origin": event.origin,
            "sentence": _sentence(event),
            "detail": event.detail,
        }
        for event in store.events()
        if event.kind in LOGGED
    ]


def log_export(folder: Path, fmt: str, labelled_only: bool = False) -> None:
    """Remember an export; a project that can only be read is exported without a trace in it."""
    with suppress(ProjectError), Store.open(folder) as store:
        store.log(EXPORTED, format=fmt, labelled_only=labelled_only)


def _sentence(event: Event) -> str:
    kind, detail = event.kind, event.detail
    if kind in (CHANGED, RENAMED_CLASS, ADDED):
        return change_words(kind, detail)
    if kind == EXPORTED:
        return (
            f"{detail.get('format')}, {'labelled' if detail.get('labelled_only') else 'all'} items"
        )
    if kind == TAKEN_BACK:
        return f"{detail.get('was')} by {detail.get('name')}, item {detail.get('item')}"
    if kind == RELEASED:
        return f"{detail.get('count')} of {detail.get('name') or 'everybody'}"
    if kind == ROLE:
        role = detail.get("role")
        words = " → ".join(map(str, role)) if isinstance(role, list) else role
        return f"{detail.get('name')}: {words}"
    return f"{detail.get('name')}, {detail.get('role')}"


def log_text(row: dict[str, Any]) -> str:
    """One row as a line."""
    moment = str(row["created"])[:19].replace("T", " ")
    words = " ".join(row["sentence"].split())
    who = f"{row['who'] or 'unknown'} ({row['origin'] or 'unknown'})"
    return f"{moment}  {who}  {row['what']}: {words}"
