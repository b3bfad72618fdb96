"""What has been asked and told, by what names: items, labels, and the whole history.

No model, no randomness.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from parbals.errors import InputError, LabelError, ShapeError
from parbals.learner.tasks.base import Task, listed

__all__ = ["Event", "Ledger"]


@dataclass(frozen=True)
class Event:
    """One thing that happened to one item; ``label`` is the number it is kept as, or None.

    ``annotator`` is who said it, or whom it was asked, if that was told.
    """

    position: int
    action: str  # ask, tell, correct or forget
    label: Any = None
    annotator: str | None = None


class Ledger:
    """Labels by position; every change is an event, and nothing is ever removed.

    Users call items by their positions 0..N-1, or by N distinct ``ids``; the task says what a label
    is and the number it is kept as. Each method checks all it is given before the first item
    changes.
    """

    def __init__(self, n_items: int, task: Task, ids: Sequence[Hashable] | None = None) -> None:
        self.n_items, self.task = n_items, task
        self.ids: list[Any] | None = None
        if ids is not None:
            self.name_items(ids)
        self.labels: dict[int, Any] = {}  # of items that only annotators answered, what most say
        self.answers: dict[int, dict[str | None, Any]] = {}
        self.names: set[str] = set()
        self.out: dict[int, set[str]] = {}  # whom items were asked
        self.pending: dict[int, None] = {}  # a set that remembers the order
        self.events: list[Event] = []

    # -- names

    def name_items(self, ids: Sequence[Hashable]) -> None:
        """Call the items by these names."""
        named = listed(ids, "ids")
        if len(named) != self.n_items:
            raise ShapeError(f"ids has {len(named)} entries and X_pool has {self.n_items} rows.")
        place: dict[Any, int] = {}
        for row, name in enumerate(named):
            try:
                first = place.setdefault(name, row)
            except TypeError:
                raise InputError(
                    f"ids[{row}] is {name!r}, which is not hashable; use strings or numbers."
                ) from None
            if first != row:
                raise InputError(
                    f"ids[{first}] and ids[{row}] are both {name!r}; every item needs its own."
                )
        self.ids, self._place = named, place

    def name(self, position: int) -> Any:
        """What the user calls an item."""
        return position if self.ids is None else self.ids[position]

    def positions(self, items: Any) -> list[int]:
        """Positions of one item or of several."""
        return [self._position(item) for item in listed(items, "items")]

    def _position(self, item: Any) -> int:
        if self.ids is not None:
            try:
                return self._place[item]
            except (KeyError, TypeError):
                raise InputError(f"There is no item with the id {item!r} in the pool.") from None
        whole = isinstance(item, int) and not isinstance(item, bool)
        if not whole or not 0 <= item < self.n_items:
            raise InputError(
                f"There is no item {item!r}: positions in the pool are 0 to {self.n_items - 1}."
            )
        return int(item)

    # -- what happens

    def ask(self, positions: Sequence[int]) -> None:
        """Mark items as out for labelling."""
        for position in positions:
            if position in self.labels:
                raise InputError(f"{self._item(position)} has a label already; forget it first.")
        for position in positions:
            if position not in self.pending:
                self.record(Event(position, "ask"))

    def tell(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Record labels; returns how many are new.

        A second, different label by the same annotator is refused: that is a correction.
        """
        given = self._paired(items, labels)
        known = self._said(given, annotator)
        for position, label in given.items():
            had = known.get(position, label)
            if had != label:
                raise LabelError(
                    f"{self._item(position)} already has the label {self.task.decoded(had)!r}, not "
                    f"{self.task.decoded(label)!r}; to change it call correct(...)."
                )
        new = {position: label for position, label in given.items() if position not in known}
        for position, label in new.items():
            self.record(Event(position, "tell", label, annotator))
        return len(new)

    def correct(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Replace labels that were given before; returns how many changed. History keeps both."""
        given = self._paired(items, labels)
        known = self._said(given, annotator)
        for position in given:
            if position not in known:
                raise LabelError(f"{self._item(position)} has no label to correct; call tell(...).")
        changed = {p: label for p, label in given.items() if known[p] != label}
        for position, label in changed.items():
            self.record(Event(position, "correct", label, annotator))
        return len(changed)

    def forget(self, items: Any) -> None:
        """Give items back: they are then neither pending nor labelled."""
        positions = dict.fromkeys(self.positions(items))
        for position in positions:
            if position not in self.pending and position not in self.labels:
                raise InputError(
                    f"{self._item(position)} is neither pending nor labelled; there is nothing to "
                    "forget."
                )
        for position in positions:
            self.record(Event(position, "forget"))

    def record(self, event: Event) -> None:
        """Take over an event, of now or of a saved history."""
        self.pending.pop(event.position, None)
        if event.action == "ask":
            if event.position not in self.labels:
                self.pending[event.position] = None
            if event.annotator is not None:
                self.out.setdefault(event.position, set()).add(event.annotator)
        elif event.action == "forget":
            self.labels.pop(event.position, None)
            self.answers.pop(event.position, None)
            self.out.pop(event.position, None)
        else:
            said = self.answers.setdefault(event.position, {})
            said[event.annotator] = self.task.dtype(event.label or 0).item()
            most = Counter(said.values()).most_common(1)[0][0]
            self.labels[event.position] = said.get(None, most)
            if event.annotator is not None:
                self.names.add(event.annotator)
        self.events.append(event)

    def _said(self, positions: Iterable[int], annotator: str | None) -> dict[int, Any]:
        """Position → number of what an annotator has said of these, or what nobody signed."""
        if annotator is not None and not (isinstance(annotator, str) and annotator):
            raise InputError(f"annotator is {annotator!r}; give a name, or leave it out.")
        if annotator is not None and self.task.name != "classes":
            raise InputError(
                'Named annotators need task="classes"; tell what their answers come to.'
            )
        said = {p: self.answers.get(p, {}) for p in positions}
        return {p: by[annotator] for p, by in said.items() if annotator in by}

    def _paired(self, items: Any, labels: Any) -> dict[int, Any]:
        """Position → number of one label for each item."""
        positions, told = self.positions(items), self.task.listed(labels)
        if len(told) != len(positions):
            raise ShapeError(
                f"{len(positions)} items and {len(told)} labels were told; one label for each "
                "item is needed."
            )
        given: dict[int, Any] = {}
        for row, (position, label) in enumerate(zip(positions, told, strict=True)):
            number = self.task.encoded(label, f"labels[{row}]")
            if given.setdefault(position, number) != number:
                raise LabelError(f"{self._item(position)} is given two different labels at once.")
        return given

    def _item(self, position: int) -> str:
        return f"Item {self.name(position)!r}"
