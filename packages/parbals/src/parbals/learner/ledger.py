"""What has been asked and told: labels, pending items, and the whole history.

No model, no randomness.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.learner.names import ClassNames, ItemNames

__all__ = ["Event", "Ledger"]

_ACTIONS = ("ask", "tell", "correct", "forget")


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
        self._items = items
        self._classes = classes
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
                    f"{self._name(position)} already has the label {self._classes.labels[had]!r}, "
                    f"not {self._classes.labels[label]!r}; to change it call correct(...)."
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

    def rename(self, items: ItemNames) -> None:
        """Call the same items by other names, in messages."""
        self._items = items

    def history(self, position: int) -> list[Event]:
        """Everything that happened to one item, oldest first."""
        return [event for event in self.events if event.position == position]

    def free(self) -> np.ndarray:
        """(N,) True where an item is neither labelled nor pending."""
        free = np.ones(self._items.n_items, bool)
        free[list(self.labels)] = False
        free[list(self.pending)] = False
        return free

    def replay(self, events: Sequence[Event]) -> None:
        """Take over a history, such as a saved one."""
        for event in events:
            known = 0 <= event.position < self._items.n_items and event.action in _ACTIONS
            if not known or (event.label is not None and not 0 <= event.label < len(self._classes)):
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
        return f"Item {self._items.of(position)!r}"
