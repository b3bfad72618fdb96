"""Tasks of Label Studio: their data, and which item each is about."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from parbals.errors import InputError, ProjectDamagedError

from parbals_label.label_studio.client import ITEM, PROJECT
from parbals_label.label_studio.interface import Interface, new_interface
from parbals_label.label_studio.responses import Project
from parbals_label.project.media import MediaError, image_column, read_image
from parbals_label.readers.cells import cell_text
from parbals_label.store.records import Item, Why
from parbals_label.store.store import Store

__all__ = ["TASKS", "data_of", "first_interface", "known_tasks", "project_uid"]

_ADDRESS = re.compile(r"(https?|s3|gs|azure-blob|data):", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z_]\w*")
TASKS = "label studio tasks"
"""The kind of event that logs created tasks as [position, task] of a Label Studio project.

So a task that somebody deleted is distinguished from one that was never created.
"""


def project_uid(project: Project) -> str:
    """Identifies a Label Studio project, whatever address the server has."""
    try:
        created = datetime.fromisoformat(project.created_at)
        return f"{project.id}.{int(created.timestamp())}"
    except (ValueError, OverflowError, OSError):
        raise InputError(
            "The server does not say which project this is; is it Label Studio?"
        ) from None


def first_interface(store: Store) -> str:
    """A labelling interface for a project without one: the items' columns and the classes."""
    image = image_column(store)
    settings = store.settings
    columns = [image] if image else list(settings.encoded_columns or settings.visible_columns)
    fields = [(_key(name), "image" if name == image else "text") for name in columns]
    return new_interface(fields, store.form)


def _key(column: str) -> str:
    """The name of a column in an interface: unchanged if it is an identifier."""
    return column if _KEY.fullmatch(column) else re.sub(r"\W", "_", f"item_{column}")


def data_of(
    store: Store,
    interface: Interface,
    item: Item,
    why: Why | None,
    upload: Callable[[str, bytes, str], str],
) -> dict[str, Any]:
    """The data of an item's task: its columns, its id, and its rank in its batch.

    ``upload`` sends an image (name, content, media type) to the server and returns its address.
    """
    image = image_column(store)
    values = {_key(column): value for column, value in item.content.items()}
    missing = [name for name in interface.variables if name not in values]
    encoded = [_key(column) for column in store.settings.encoded_columns]
    if len(missing) == 1 and len(encoded) == 1:
        values[missing[0]] = values.get(encoded[0])
    elif missing:
        raise InputError(
            f"The labelling interface shows ${missing[0]}, and the items have "
            f"{', '.join(values)}; use one of these in the project's settings, Labeling Interface."
        )
    data = {
        name: cell_text(value) if name in interface.variables else value
        for name, value in values.items()
    }
    if image is not None:
        path = str(item.content.get(image) or "")
        if not _ADDRESS.match(path) and not path.startswith("/data/"):
            try:
                kind, picture = read_image(store, item.position)
            except MediaError as error:
                raise InputError(f"Item {item.id!r} cannot be shown: {error}") from None
            address = upload(path.rpartition("/")[2], picture, kind)
            fields = [name for name, value in data.items() if value == path]
            data |= dict.fromkeys([*fields, _key(image)], address)
    data |= {ITEM: item.id, PROJECT: store.identity}
    if why is not None:
        data |= {"parbals_batch": why.batch, "parbals_rank": why.rank + 1}
        if why.score is not None:
            data["parbals_score"] = float(f"{why.score:.4g}")
    return data


def known_tasks(store: Store, uid: str) -> dict[int, int]:
    """Position → number, of all tasks that were created in a Label Studio project."""
    try:
        return {
            int(position): int(task)
            for event in store.events(TASKS)
            if event.detail["project"] == uid
            for position, task in event.detail["what"]
        }
    except (KeyError, TypeError, ValueError):
        raise ProjectDamagedError(
            f"The events of the project in {store.folder} are damaged; put back a copy of it."
        ) from None
