"""The history and the log of a project, oldest entry first.

The history has answers, under the class names of their time, and changes of the project; the log
has who changed what, when and from where.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals.errors import ProjectError

from parbals_label.answer_form import in_words
from parbals_label.project.goal import metric_of
from parbals_label.readers.cells import without_nul
from parbals_label.store.records import ADDED, CHANGED, LOGGED, RENAMED_CLASS
from parbals_label.store.store import Store

__all__ = ["history_rows", "history_text", "log_quietly", "log_rows"]

_COLUMNS = ("created", "what", "who", "id", "label", "label_now", "revision", "source", "comment")


def history_rows(store: Store, item: str | None = None) -> list[dict[str, Any]]:
    """One row for each answer and, unless an ``item`` is named, for each change of the project.

    ``label`` is the class as it was named then, ``label_now`` its current name.
    """
    form = store.form
    positions = store.answered() if item is None else store.position_of([item])
    rows: list[dict[str, Any]] = [
        {
            "created": answer.created,
            "what": "withdrawn" if answer.label is None else "label",
            "who": answer.annotator,
            "id": answer.item_id,
            "label": answer.label and form.plain(answer.label),
            "label_now": answer.label_now and form.plain(answer.label_now),
            "revision": answer.revision,
            "source": answer.source,
            "comment": without_nul(answer.comment),
            "order": (answer.created, 1, answer.answer),
        }
        for position in positions
        for answer in store.history(position)
    ]
    for event in store.events() if item is None else ():
        if event.kind in (CHANGED, RENAMED_CLASS, ADDED):
            rows.append(
                {
                    "created": event.created,
                    "what": event.kind,
                    "comment": _event_sentence(event.kind, event.detail),
                    "order": (event.created, 0, event.event),
                }
            )
    rows.sort(key=lambda row: row["order"])
    return [{name: row.get(name) for name in _COLUMNS} for row in rows]


def _event_sentence(kind: str, detail: dict[str, Any]) -> str:
    """A change in words."""
    try:
        if kind == RENAMED_CLASS:
            return f"{detail['old']} is now {detail['new']}"
        if kind == ADDED:
            n_labels = f"{detail['labels']:,} of them labelled"
            return f"{detail['count']:,} from {detail['file']}, {n_labels}"
        if kind == CHANGED:
            return "; ".join(_setting_change(name, *values) for name, values in detail.items())
    except (KeyError, TypeError, ValueError):  # not written by parbals: shown, but no error
        return "cannot be read"
    fields = []
    for name, value in detail.items():
        if value not in (None, ""):
            text = " → ".join(map(str, value)) if isinstance(value, list) else value
            fields.append(f"{name.replace('_', ' ')}: {text}")
    return ", ".join(fields)


def _setting_change(name: str, old: Any, new: Any) -> str:
    """A change of a setting in words."""
    if name == "classes":
        return "new: " + ", ".join(label for label in new if label not in old)
    if name == "loss":
        return f"metric: {metric_of(old)} → {metric_of(new)}"
    old_text = ", ".join(old) if isinstance(old, list) else old
    new_text = ", ".join(new) if isinstance(new, list) else new
    return f"{name.replace('_', ' ')}: {old_text or 'none'} → {new_text or 'none'}"


def history_text(row: dict[str, Any]) -> str:
    """One row as a line of text."""
    moment = str(row["created"])[:19].replace("T", " ")
    if row["who"] is None:
        return f"{moment}  {row['what']}: {' '.join(row['comment'].split())}"
    label = "undoes the label" if row["label"] is None else in_words(row["label"])
    if row["label"] != row["label_now"]:
        label += f" (now {in_words(row['label_now'])})"
    revised = "" if row["revision"] == 1 else f", answer {row['revision']}"
    comment = f" “{row['comment']}”" if row["comment"] else ""
    # All on one line: a line break that somebody wrote would forge another answer.
    entry = f"{row['who']}: {row['id']} → {label}{revised}{comment}"
    return f"{moment}  {' '.join(entry.split())}"


def log_rows(store: Store) -> list[dict[str, Any]]:
    """One row for each change, oldest first."""
    return [
        {
            "number": event.event,
            "created": event.created,
            "what": event.kind,
            "who": event.who,
            "origin": event.origin,
            "sentence": _event_sentence(event.kind, event.detail),
            "detail": event.detail,
        }
        for event in store.events()
        if event.kind in LOGGED
    ]


def log_quietly(folder: Path, kind: str, **detail: Any) -> None:
    """Log an event, such as an export; a read-only project is left as it is."""
    with suppress(ProjectError), Store.open(folder) as store:
        store.log(kind, **detail)
