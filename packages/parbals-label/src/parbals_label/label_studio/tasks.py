"""Items as tasks: what a task shows, which item it is about, and which tasks there are."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from parbals.errors import InputError, ProjectDamagedError

from parbals_label.label_studio.client import ITEM, PROJECT
from parbals_label.label_studio.interface import Interface, new_interface
from parbals_label.project.media import MediaError, image_column, read_image
from parbals_label.readers.cells import cell_text
from parbals_label.store.records import Item, Why
from parbals_label.store.store import Store

__all__ = ["TASKS", "data_of", "first_interface", "known_tasks", "project_uid"]

_ADDRESS = re.compile(r"(https?|s3|gs|azure-blob|data):", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z_]\w*")
TASKS = "label studio tasks"
"""The kind of event by which a project remembers them: [position, task] of a Label Studio project.

So one that somebody has deleted is told from one that was never created.
"""


def project_uid(project: Mapping[str, Any]) -> str:
    """What tells a Label Studio project from all others, whatever address the server has."""
    try:
        created = datetime.fromisoformat(str(project["created_at"]))
        return f"{int(project['id'])}.{int(created.timestamp())}"
    except (KeyError, ValueError, TypeError):
        raise InputError(
            "The server does not say which project this is; is it Label Studio?"
        ) from None


def first_interface(store: Store) -> str:
    """An interface for a project that has none yet: the items' columns and the classes."""
    image = image_column(store)
    names = (
        [image] if image else list(store.settings.encoded_columns or store.settings.visible_columns)
    )
    shown = [(_key(name), "image" if name == image else "text") for name in names]
    return new_interface(shown, store.form)


def _key(column: str) -> str:
    """A key that an interface can name: most columns as they are."""
    return column if _KEY.fullmatch(column) else re.sub(r"\W", "_", f"item_{column}")


def data_of(
    store: Store,
    interface: Interface,
    item: Item,
    why: Why | None,
    upload: Callable[[str, bytes, str], str],
) -> dict[str, Any]:
    """The data of an item's task: its columns, who it is, and its place in its batch.

    ``upload`` gives the server an image (name, content, kind) and returns its address.
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
        given = str(item.content.get(image) or "")
        if not _ADDRESS.match(given) and not given.startswith("/data/"):
            try:
                kind, picture = read_image(store, item.position)
            except MediaError as error:
                raise InputError(f"Item {item.id!r} cannot be shown: {error}") from None
            address = upload(given.rpartition("/")[2], picture, kind)
            shown = [name for name, value in data.items() if value == given]
            data |= dict.fromkeys([*shown, _key(image)], address)
    data |= {ITEM: item.id, PROJECT: store.identity}
    if why is not None:
        data |= {"parbals_batch": why.batch, "parbals_rank": why.rank + 1}
        if why.score is not None:
            data["parbals_score"] = float(f"{why.score:.4g}")
    return data


def known_tasks(store: Store, uid: str) -> dict[int, int]:
    """Position → task of everything that was created in a Label Studio project."""
    try:
        found = [e.detail["what"] for e in store.events(TASKS) if e.detail["project"] == uid]
        return {int(position): int(task) for what in found for position, task in what}
    except (KeyError, TypeError, ValueError):
        raise ProjectDamagedError(
            f"The events of the project in {store.folder} are damaged; put back a copy of it."
        ) from None
