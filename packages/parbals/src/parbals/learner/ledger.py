"""What has been asked and told, by what names: items, classes, labels, and the whole history.

No model, no randomness.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.errors import InputError, LabelError, ShapeError

__all__ = ["Event", "Ledger"]


@dataclass(frozen=True)
class Event:
    """One thing that happened to one item; ``label`` is a class number, or None."""

    position: int
    action: str  # ask, tell, correct or forget
    label: int | None = None


class Ledger:
    """Labels (class numbers) by position; every change is an event, and nothing is ever removed.

    Users call items by their positions 0..N-1, or by N distinct ``ids``; classes are numbered in
    the order they were declared. Each method checks all it is given before the first item changes.
    """

    def __init__(
        self, n_items: int, classes: Sequence[Hashable], ids: Sequence[Hashable] | None = None
    ) -> None:
        self.n_items, self.classes = n_items, _checked_classes(classes)
        self._number = {label: number for number, label in enumerate(self.classes)}
        self.ids: list[Any] | None = None
        if ids is not None:
            self.name_items(ids)
        self.labels: dict[int, int] = {}
        self.pending: dict[int, None] = {}  # a set that remembers the order
        self.events: list[Event] = []

    # -- names

    def name_items(self, ids: Sequence[Hashable]) -> None:
        """Call the items by these names."""
        listed = _listed(ids, "ids")
        if len(listed) != self.n_items:
            raise ShapeError(f"ids has {len(listed)} entries and X_pool has {self.n_items} rows.")
        place: dict[Any, int] = {}
        for row, name in enumerate(listed):
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
        self.ids, self._place = listed, place

    def name(self, position: int) -> Any:
        """What the user calls an item."""
        return position if self.ids is None else self.ids[position]

    def positions(self, items: Any) -> list[int]:
        """Positions of one item or of several."""
        return [self._position(item) for item in _listed(items, "items")]

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

    def class_number(self, label: Any, what: str = "labels[0]") -> int:
        """The number of a class; messages call the label ``what``."""
        try:
            number = self._number.get(label)
        except TypeError:  # unhashable, such as a list
            number = None
        # To a dictionary True is 1 and 1.0 is 1; a label of another type is a mistake.
        if number is None or isinstance(label, bool) != isinstance(self.classes[number], bool):
            raise LabelError(
                f"{what} is {label!r}, which is not one of the classes {list(self.classes)!r}; "
                "nothing was recorded."
            )
        return number

    # -- what happens

    def ask(self, positions: Sequence[int]) -> None:
        """Mark items as out for labelling."""
        for position in positions:
            if position in self.labels:
                raise InputError(f"{self._item(position)} has a label already; forget it first.")
        for position in positions:
            if position not in self.pending:
                self.record(Event(position, "ask"))

    def tell(self, items: Any, labels: Any) -> int:
        """Record labels; returns how many are new.

        A second, different label is refused: that is a correction.
        """
        given = self._paired(items, labels)
        for position, label in given.items():
            had = self.labels.get(position, label)
            if had != label:
                raise LabelError(
                    f"{self._item(position)} already has the label {self.classes[had]!r}, not "
                    f"{self.classes[label]!r}; to change it call correct(...)."
                )
        new = {position: label for position, label in given.items() if position not in self.labels}
        for position, label in new.items():
            self.record(Event(position, "tell", label))
        return len(new)

    def correct(self, items: Any, labels: Any) -> int:
        """Replace labels that were given before; returns how many changed. History keeps both."""
        given = self._paired(items, labels)
        for position in given:
            if position not in self.labels:
                raise LabelError(f"{self._item(position)} has no label to correct; call tell(...).")
        changed = {p: label for p, label in given.items() if self.labels[p] != label}
        for position, label in changed.items():
            self.record(Event(position, "correct", label))
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
            self.pending[event.position] = None
        elif event.action == "forget":
            self.labels.pop(event.position, None)
        else:
            self.labels[event.position] = int(event.label or 0)
        self.events.append(event)

    def _paired(self, items: Any, labels: Any) -> dict[int, int]:
        """Position → class number of one label for each item."""
        positions, listed = self.positions(items), _listed(labels, "labels")
        if len(listed) != len(positions):
            raise ShapeError(
                f"{len(positions)} items and {len(listed)} labels were told; one label for each "
                "item is needed."
            )
        given: dict[int, int] = {}
        for row, (position, label) in enumerate(zip(positions, listed, strict=True)):
            number = self.class_number(label, f"labels[{row}]")
            if given.setdefault(position, number) != number:
                raise LabelError(f"{self._item(position)} is given two different labels at once.")
        return given

    def _item(self, position: int) -> str:
        return f"Item {self.name(position)!r}"


def _checked_classes(classes: Sequence[Hashable]) -> tuple[Any, ...]:
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise LabelError(f"classes is {classes!r}; pass a list of at least two class labels.")
    labels = tuple(_listed(classes, "classes"))
    for number, label in enumerate(labels):
        if not isinstance(label, str | int):
            raise LabelError(
                f"classes[{number}] is {label!r}; class labels are strings, whole numbers or "
                "booleans."
            )
    if len(labels) < 2:
        raise LabelError(f"classes is {list(labels)!r}; pass at least two class labels.")
    if len(set(labels)) != len(labels):
        raise LabelError("classes names the same class twice.")
    return labels


def _listed(values: Any, name: str) -> list[Any]:
    """A list of plain Python values; a single value stands for a list of one."""
    is_table = hasattr(values, "columns")
    if is_table or isinstance(values, Mapping | set | frozenset):
        kind = "table" if is_table else type(values).__name__
        raise InputError(f"{name} is a {kind}, which is no list of single values; pass a list.")
    values = values.tolist() if hasattr(values, "tolist") else values
    values = values.to_list() if hasattr(values, "to_list") else values
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return [_plain(values)]
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """A NumPy number, string or boolean as Python's own, so that np.True_ is True and not 1."""
    # Dates as plain numbers would lose their meaning.
    dated = isinstance(value, np.datetime64 | np.timedelta64)
    return value.item() if isinstance(value, np.generic) and not dated else value
