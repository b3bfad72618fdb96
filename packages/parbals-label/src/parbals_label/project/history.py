"""What happened in a project, oldest first: answers by the names of their time, and decisions."""

from typing import Any

from parbals.learner.numbers.metric import metric_of

from parbals_label.readers.cells import without_nul
from parbals_label.store.meta import ADDED, CHANGED, RENAMED_CLASS
from parbals_label.store.store import Store

__all__ = ["COLUMNS", "change_words", "history_rows", "history_text"]

COLUMNS = ("created", "what", "who", "id", "label", "label_now", "revision", "source", "comment")


def history_rows(store: Store, item: str | None = None) -> list[dict[str, Any]]:
    """One row for each answer and, unless an ``item`` is named, for each change of the project.

    ``label`` is the name that was given, ``label_now`` what that class is called now.
    """
    positions = store.answered() if item is None else store.position_of([item])
    rows: list[dict[str, Any]] = [
        {
            "created": answer.created,
            "what": "withdrawn" if answer.label is None else "label",
            "who": answer.annotator,
            "id": answer.item_id,
            "label": answer.label,
            "label_now": answer.label_now,
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
            row = {"created": event.created, "what": event.kind}
            row |= {"comment": change_words(event.kind, event.detail)}
            rows.append({**row, "order": (event.created, 0, event.event)})
    rows.sort(key=lambda row: row["order"])
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def change_words(kind: str, detail: dict[str, Any]) -> str:
    """What was changed, in words; ``kind`` is one of those that ``history_rows`` knows."""
    try:
        return _change_words(kind, detail)
    except (KeyError, TypeError, ValueError):  # made by somebody else: it stops nothing
        return "cannot be read"


def _change_words(kind: str, detail: dict[str, Any]) -> str:
    if kind == RENAMED_CLASS:
        return f"{detail['old']} is now {detail['new']}"
    if kind == ADDED:
        return f"{detail['count']:,} from {detail['file']}, {detail['labels']:,} of them labelled"
    return "; ".join(_changed(name, *values) for name, values in detail.items())


def _changed(name: str, old: Any, new: Any) -> str:
    if name == "classes":
        return "new: " + ", ".join(label for label in new if label not in old)
    if name == "loss":
        return f"metric: {metric_of(old)} → {metric_of(new)}"
    old, new = (", ".join(v) if isinstance(v, list) else v for v in (old, new))
    return f"{name.replace('_', ' ')}: {old or 'none'} → {new or 'none'}"


def history_text(row: dict[str, Any]) -> str:
    """One row as a line."""
    moment = str(row["created"])[:19].replace("T", " ")
    if row["who"] is None:
        return f"{moment}  {row['what']}: {' '.join(row['comment'].split())}"
    label = "takes the label back" if row["label"] is None else f"{row['label']}"
    if row["label"] != row["label_now"]:
        label += f" (now {row['label_now']})"
    revised = "" if row["revision"] == 1 else f", answer {row['revision']}"
    comment = f"  “{row['comment']}”" if row["comment"] else ""
    return f"{moment}  {row['who']}: {row['id']} → {label}{revised}{comment}"
