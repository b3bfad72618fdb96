"""Items as tasks: what a task shows, which item it is about, and which tasks there are."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectDamagedError

from parbals_label.label_studio.client import ITEM, PROJECT
from parbals_label.label_studio.interface import Interface, new_interface
from parbals_label.project.features import predictions_of
from parbals_label.project.media import MediaError, image_column, read_image
from parbals_label.readers.cells import cell_text
from parbals_label.store.records import Item, Why
from parbals_label.store.store import Store

__all__ = [
    "Matcher",
    "Predictions",
    "State",
    "data_of",
    "first_interface",
    "place_of",
    "project_uid",
]

_MODEL = "parbals"
"""Who predicts. Label Studio shows the predictions of one version, so it is always the same."""
_ADDRESS = re.compile(r"(https?|s3|gs|azure-blob|data):", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z_]\w*")
_TASKS, _LOST = "label studio tasks", "label studio tasks deleted"
_IMPORT = "label studio import"


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
    names = [image] if image else list(store.settings.encoded_columns or store.settings.shown)
    shown = [(_key(name), "image" if name == image else "text") for name in names]
    return new_interface(shown, store.classes)


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
    return data | place_of(store, item, why)


def place_of(store: Store, item: Item, why: Why | None) -> dict[str, Any]:
    """What a task says of itself: which item of which project it is, and its place in its batch."""
    place: dict[str, Any] = {ITEM: item.id, PROJECT: store.identity}
    if why is not None:
        place |= {"parbals_batch": why.batch, "parbals_rank": why.rank + 1}
        if why.score is not None:
            place["parbals_score"] = float(f"{why.score:.4g}")
    return place


class Predictions:
    """The stored predictions, as Label Studio takes them; none for items of the audit.

    A person who is shown what the model thinks no longer measures its error.
    """

    def __init__(self, store: Store) -> None:
        self._classes, self._audit = store.classes, frozenset(store.settings.audit)
        self._probs = predictions_of(store)

    def of(self, position: int, interface: Interface) -> dict[str, Any] | None:
        """The most probable class with its probability; None where nothing can be said."""
        if self._probs is None or position in self._audit or position >= len(self._probs):
            return None
        row = np.asarray(self._probs[position])
        best = int(row.argmax())
        score = round(float(row[best]), 6)
        result = interface.result(self._classes[best], score)
        return {"result": result, "score": score, "model_version": _MODEL} if result else None


class Matcher:
    """Finds the item that a task is about: by what we wrote into it, else by what it shows.

    Tasks that people imported themselves are known by their content, where that is one item's only.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._columns = list(store.settings.encoded_columns or store.settings.columns)
        self._by_content: dict[tuple[str, ...], int | None] | None = None

    def position(self, task: Mapping[str, Any]) -> int | None:
        """The item's position; None if it is not one of this project."""
        data = task.get("data")
        if not isinstance(data, Mapping):
            return None
        if PROJECT in data or ITEM in data:
            name = str(data.get(ITEM))
            if data.get(PROJECT) != self._store.identity:
                return None
            return self._store.known_positions([name]).get(name)
        if self._by_content is None:
            self._by_content = {}
            for item in self._store.iter_items():
                key = self._content(item.content)
                self._by_content[key] = None if key in self._by_content else item.position
        if not all(_key(column) in data or column in data for column in self._columns):
            return None
        return self._by_content.get(self._content(data))

    def _content(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_text(values.get(c, values.get(_key(c)))) for c in self._columns)


def _text(value: Any) -> str:
    try:
        return cell_text(value)
    except (ValueError, RecursionError):
        return ""


class State:
    """What a project remembers of a Label Studio project, as events in its own file.

    The tasks of items, by position. ``owner`` is the name that items in Label Studio are leased to.
    ``lost`` are items whose open task somebody deleted. ``importing`` is the number of an import
    that the server carries out by itself, from when it began until its tasks were seen.
    """

    def __init__(self, store: Store, uid: str) -> None:
        self._store, self._uid = store, uid
        self.owner = f"label-studio project {uid}"
        self.tasks: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.lost: set[int] = set()
        self.importing: int | None = None
        for event in store.events():
            if event.kind not in (_TASKS, _LOST, _IMPORT):
                continue
            try:
                if event.detail["project"] == uid:
                    self._learn(event.kind, event.detail["what"])
            except (KeyError, TypeError, ValueError):
                raise ProjectDamagedError(
                    f"Event {event.event} of the project in {store.folder} is damaged; put back a "
                    "copy of the project."
                ) from None

    def remember(self, tasks: Mapping[int, int]) -> None:
        """Position → task of tasks that are there."""
        self._note(_TASKS, [[position, task] for position, task in tasks.items()])

    def lose(self, positions: Collection[int]) -> None:
        """The tasks of these items were deleted."""
        self._note(_LOST, list(positions))

    def note_import(self, number: int | None) -> None:
        """The server has begun an import; None: it has ended, however it did."""
        if number != self.importing:
            self._note(_IMPORT, number)

    def _note(self, kind: str, what: Any) -> None:
        self._store.log(kind, project=self._uid, what=what)
        self._learn(kind, what)

    def _learn(self, kind: str, what: Any) -> None:
        if kind == _TASKS:
            for position, task in what:
                self.tasks[position], self.positions[task] = task, position
                self.lost.discard(position)
        elif kind == _LOST:
            for position in what:
                self.positions.pop(self.tasks.pop(position, -1), None)
                self.lost.add(position)
        else:
            self.importing = what
