"""What a parbals project remembers of a Label Studio project, as events in its own file."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from parbals.errors import ProjectDamagedError

from parbals_label.readers.label_studio import annotator_of
from parbals_label.store.store import Store

__all__ = ["State"]

_TASKS, _LOST, _PEOPLE = "label studio tasks", "label studio tasks deleted", "label studio people"
_IMPORT = "label studio import"


class State:
    """The tasks of items, by position, and the people, by their number there.

    ``owner`` is the name that items in Label Studio are leased to. ``lost`` are items whose open
    task somebody deleted. ``importing`` is the number of an import that the server carries out by
    itself, from when it began until its tasks were seen.
    """

    def __init__(self, store: Store, uid: str) -> None:
        self._store, self._uid = store, uid
        self.owner = f"label-studio project {uid}"
        self.tasks: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.lost: set[int] = set()
        self.people: dict[int, str] = {}
        self.importing: int | None = None
        for event in store.events():
            if event.kind not in (_TASKS, _LOST, _PEOPLE, _IMPORT):
                continue
            try:
                if event.detail["project"] == uid:
                    self._read(event.kind, event.detail)
            except (KeyError, TypeError, ValueError):
                raise ProjectDamagedError(
                    f"Event {event.event} of the project in {store.folder} is damaged; put back a "
                    "copy of the project."
                ) from None

    def _read(self, kind: str, detail: Mapping[str, Any]) -> None:
        if kind == _TASKS:
            self._note(detail["tasks"])
        elif kind == _LOST:
            self._drop(detail["positions"])
        elif kind == _IMPORT:
            self.importing = detail["number"]
        else:
            self.people |= {int(number): str(name) for number, name in detail["people"]}

    def remember(self, tasks: Mapping[int, int]) -> None:
        """Position → task of tasks that are there."""
        pairs = [[position, task] for position, task in tasks.items()]
        self._store.log(_TASKS, project=self._uid, tasks=pairs)
        self._note(pairs)

    def lose(self, positions: Collection[int]) -> None:
        """The tasks of these items were deleted."""
        self._store.log(_LOST, project=self._uid, positions=list(positions))
        self._drop(positions)

    def note_import(self, number: int | None) -> None:
        """The server has begun an import; None: it has ended, however it did."""
        if number != self.importing:
            self._store.log(_IMPORT, project=self._uid, number=number)
            self.importing = number

    def remember_people(self, annotations: Iterable[Any]) -> None:
        """Learn the names of those who annotated: webhooks tell their numbers only."""
        new: dict[int, str] = {}
        for annotation in annotations:
            who = annotation.get("completed_by") if isinstance(annotation, Mapping) else None
            number = who.get("id") if isinstance(who, Mapping) else who
            if not isinstance(number, int) or "@" not in (name := annotator_of(annotation)):
                continue
            if self.people.get(number) != name:
                new[number] = name
        if new:
            self._store.log(_PEOPLE, project=self._uid, people=[[n, s] for n, s in new.items()])
            self.people |= new

    def _note(self, pairs: Iterable[Collection[int]]) -> None:
        for position, task in pairs:
            self.tasks[position], self.positions[task] = task, position
            self.lost.discard(position)

    def _drop(self, positions: Collection[int]) -> None:
        for position in positions:
            self.positions.pop(self.tasks.pop(position, -1), None)
        self.lost |= set(positions)
