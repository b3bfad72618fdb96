"""What has been asked and told, by what names: items, classes, labels, and the whole history.

No model, no randomness.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.errors import InputError, LabelError, ShapeError

__all__ = ["ClassNames", "Event", "ItemNames", "Ledger"]

_ACTIONS = ("ask", "tell", "correct", "forget")


class ItemNames:
    """Positions 0..N-1, or N distinct ids in their place."""

    def __init__(self, n_items: int, ids: Sequence[Hashable] | None) -> None:
        self.n_items = n_items
        self.ids = None if ids is None else _distinct(ids, n_items)
        self._place = None if self.ids is None else {name: i for i, name in enumerate(self.ids)}

    def of(self, position: int) -> Any:
        return position if self.ids is None else self.ids[position]

    def positions(self, items: Any) -> list[int]:
        """Positions of one item or of several."""
        return [self._position(item) for item in _listed(items, "items")]

    def _position(self, item: Any) -> int:
        if self._place is not None:
            try:
                return self._place[item]
            except (KeyError, TypeError):
                raise InputError(f"There is no item with the id {item!r} in the pool.") from None
        whole = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if not whole or not 0 <= item < self.n_items:
            raise InputError(
                f"There is no item {item!r}: positions in the pool are 0 to {self.n_items - 1}."
            )
        return int(item)


class ClassNames:
    """Class labels and their numbers 0..C-1, in the order they were declared."""

    def __init__(self, classes: Sequence[Hashable]) -> None:
        if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
            raise LabelError(f"classes is {classes!r}; pass a list of at least two class labels.")
        self.labels = tuple(_listed(classes, "classes"))
        for c, label in enumerate(self.labels):
            if not isinstance(label, str | int):
                raise LabelError(
                    f"classes[{c}] is {label!r}; class labels are strings, whole numbers or "
                    "booleans."
                )
        if len(self.labels) < 2:
            raise LabelError(f"classes is {list(self.labels)!r}; pass at least two class labels.")
        if len(set(self.labels)) != len(self.labels):
            raise LabelError("classes names the same class twice.")
        self._number = {label: c for c, label in enumerate(self.labels)}

    def __len__(self) -> int:
        return len(self.labels)

    def numbers(self, labels: Any, n_items: int) -> list[int]:
        """Class numbers of one label for each of ``n_items`` items."""
        listed = _listed(labels, "labels")
        if len(listed) != n_items:
            raise ShapeError(
                f"{n_items} items and {len(listed)} labels were told; one label for each item is "
                "needed."
            )
        return [self._class_number(row, label) for row, label in enumerate(listed)]

    def _class_number(self, row: int, label: Any) -> int:
        try:
            number = self._number.get(label)
        except TypeError:  # unhashable, such as a list
            number = None
        # To a dictionary True is 1 and 1.0 is 1; a label of another type is a mistake.
        if number is None or isinstance(label, bool) != isinstance(self.labels[number], bool):
            raise LabelError(
                f"labels[{row}] is {label!r}, which is not one of the classes "
                f"{list(self.labels)!r}; nothing was recorded."
            )
        return number


@dataclass(frozen=True)
class Event:
    """One thing that happened to one item; ``label`` is a class number, or None."""

    position: int
    action: str  # ask, tell, correct or forget
    label: int | None = None


class Ledger:
    """Labels (class numbers) by position; every change is an event, and nothing is ever removed.

    Each method checks all it is given before the first item changes.
    """

    def __init__(self, items: ItemNames, classes: ClassNames) -> None:
        self.items, self.classes = items, classes
        self.labels: dict[int, int] = {}
        self.pending: dict[int, None] = {}  # a set that remembers the order
        self.events: list[Event] = []

    def ask(self, positions: Sequence[int]) -> None:
        """Mark items as out for labelling."""
        for position in positions:
            if position in self.labels:
                raise InputError(f"{self._name(position)} has a label already; forget it first.")
        for position in positions:
            if position not in self.pending:
                self._record(Event(position, "ask"))

    def tell(self, positions: Sequence[int], labels: Sequence[int]) -> int:
        """Record labels; returns how many are new.

        A second, different label is refused: that is a correction.
        """
        given = self._paired(positions, labels)
        for position, label in given.items():
            had = self.labels.get(position)
            if had is not None and had != label:
                raise LabelError(
                    f"{self._name(position)} already has the label {self.classes.labels[had]!r}, "
                    f"not {self.classes.labels[label]!r}; to change it call correct(...)."
                )
        new = {position: label for position, label in given.items() if position not in self.labels}
        for position, label in new.items():
            self._record(Event(position, "tell", label))
        return len(new)

    def correct(self, positions: Sequence[int], labels: Sequence[int]) -> int:
        """Replace labels that were given before; returns how many changed. History keeps both."""
        given = self._paired(positions, labels)
        for position in given:
            if position not in self.labels:
                raise LabelError(f"{self._name(position)} has no label to correct; call tell(...).")
        changed = {
            position: label for position, label in given.items() if self.labels[position] != label
        }
        for position, label in changed.items():
            self._record(Event(position, "correct", label))
        return len(changed)

    def forget(self, positions: Sequence[int]) -> None:
        """Give items back: they are then neither pending nor labelled."""
        for position in positions:
            if position not in self.pending and position not in self.labels:
                raise InputError(
                    f"{self._name(position)} is neither pending nor labelled; there is nothing to "
                    "forget."
                )
        for position in dict.fromkeys(positions):
            self._record(Event(position, "forget"))

    def replay(self, events: Sequence[Event]) -> None:
        """Take over a history, such as a saved one."""
        for event in events:
            known = 0 <= event.position < self.items.n_items and event.action in _ACTIONS
            if not known or (event.label is not None and not 0 <= event.label < len(self.classes)):
                raise InputError(f"The history holds an impossible event: {event}.")
            self._record(event)

    def _record(self, event: Event) -> None:
        if event.action == "ask":
            self.pending[event.position] = None
        elif event.action == "forget":
            self.pending.pop(event.position, None)
            self.labels.pop(event.position, None)
        else:
            self.pending.pop(event.position, None)
            self.labels[event.position] = int(event.label or 0)
        self.events.append(event)

    def _paired(self, positions: Sequence[int], labels: Sequence[int]) -> dict[int, int]:
        given: dict[int, int] = {}
        for position, label in zip(positions, labels, strict=True):
            if given.setdefault(position, label) != label:
                raise LabelError(f"{self._name(position)} is given two different labels at once.")
        return given

    def _name(self, position: int) -> str:
        return f"Item {self.items.of(position)!r}"


def _listed(values: Any, name: str) -> list[Any]:
    """A list of plain Python values; a single value stands for a list of one."""
    if isinstance(values, Mapping):
        raise InputError(
            f"{name} is a {type(values).__name__}, which would be read as its keys; pass a list."
        )
    if isinstance(values, set | frozenset):
        raise InputError(f"{name} is a {type(values).__name__}, which has no order; pass a list.")
    if hasattr(values, "columns"):
        raise InputError(
            f"{name} is a table, which would be read as its column names; pass one column or a "
            "list."
        )
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


def _distinct(ids: Sequence[Hashable], n_items: int) -> list[Any]:
    listed = _listed(ids, "ids")
    if len(listed) != n_items:
        raise ShapeError(f"ids has {len(listed)} entries and X_pool has {n_items} rows.")
    seen: dict[Any, int] = {}
    for row, name in enumerate(listed):
        try:
            first = seen.setdefault(name, row)
        except TypeError:
            raise InputError(
                f"ids[{row}] is {name!r}, which is not hashable; use strings or numbers."
            ) from None
        if first != row:
            raise InputError(
                f"ids[{first}] and ids[{row}] are both {name!r}; every item needs its own."
            )
    return listed
