"""Which tasks to ask Label Studio for, in the language of its data manager."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from parbals_label.readers.label_studio import ITEM

__all__ = ["about_item", "changed_or_open"]

_OVERLAP = 60
"""Seconds by which the tasks that changed are looked for earlier than the last one that was seen:
servers with many workers do not finish changes in order."""


def about_item(name: str) -> dict[str, Any]:
    """A filter: tasks that say to be about the item of that id."""
    filtered = f"filter:tasks:data.{ITEM}"
    return {"filter": filtered, "operator": "equal", "type": "String", "value": name}


def changed_or_open(since: str, open_tasks: Collection[int]) -> list[dict[str, Any]]:
    """Tasks that changed, and those that are open: one that does not come back is deleted.

    ``since`` is when the latest of them changed; none, for all tasks, where that is not known.
    """
    try:
        moment = datetime.fromisoformat(since) - timedelta(seconds=_OVERLAP)
    except (ValueError, OverflowError):
        return []
    changed = {"filter": "filter:tasks:updated_at", "operator": "greater", "type": "Datetime"}
    changed |= {"value": moment.isoformat().replace("+00:00", "Z")}
    listed: dict[str, Any] = {"filter": "filter:tasks:id", "operator": "in_list", "type": "Number"}
    listed |= {"value": sorted(open_tasks)}
    return [changed, listed] if open_tasks else [changed]
