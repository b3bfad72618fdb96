"""The labels, answers and pending items of a learner, with their whole history.

No model, no randomness.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from parbals.errors import InputError, LabelError, ShapeError
from parbals.learner.tasks.base import Task, as_list

__all__ = ["Event", "Ledger"]


@dataclass(frozen=True)
class Event:
    """One change of one item.

    Attributes:
        position: of the item in the pool.
        action: "ask", "tell", "correct" or "forget".
        label: the encoded label; None where the action has none.
        annotator: who answered or was asked; None if no name was given.
    """

    position: int
    action: str
    label: Any = None
    annotator: str | None = None


class Ledger:
    """Labels by position; every change is an event, and no event is ever removed.

    Users name items by their positions 0..N-1, or by N distinct ``ids``; the task encodes labels.
    Each method checks all of its arguments before it changes the first item.

    >>> from parbals.learner.tasks.base import Classification
    >>> ledger = Ledger(3, Classification(["ham", "spam"]), ids=["a", "b", "c"])
    >>> ledger.tell(["c", "a"], ["spam", "ham"])
    2
    >>> ledger.labels
    {2: 1, 0: 0}

    Attributes:
        n_items: N.
        task: the label type.
        ids: names of the items, or None.
        labels: position → encoded label; where only annotators answered, their majority vote.
        answers: position → {annotator: encoded label}; the key None is a gold label.
        annotators: names of everybody who has answered.
        asked_annotators: position → annotators who were asked for this item.
        pending: positions without a label that were asked for, in the order of asking.
        events: the history, oldest first.
    """

    def __init__(self, n_items: int, task: Task, ids: Sequence[Hashable] | None = None) -> None:
        self.n_items = n_items
        self.task = task
        self.ids: list[Any] | None = None
        if ids is not None:
            self.name_items(ids)
        self.labels: dict[int, Any] = {}
        self.answers: dict[int, dict[str | None, Any]] = {}
        self.annotators: set[str] = set()
        self.asked_annotators: dict[int, set[str]] = {}
        self.pending: dict[int, None] = {}  # an ordered set
        self.events: list[Event] = []

    # -- names

    def name_items(self, ids: Sequence[Hashable]) -> None:
        """Set the names of all items."""
        names = as_list(ids, "ids")
        if len(names) != self.n_items:
            raise ShapeError(f"ids has {len(names)} entries and X_pool has {self.n_items} rows.")
        position_of: dict[Any, int] = {}
        for position, name in enumerate(names):
            try:
                first = position_of.setdefault(name, position)
            except TypeError:
                raise InputError(
                    f"ids[{position}] is {name!r}, which is not hashable; use strings or numbers."
                ) from None
            if first != position:
                raise InputError(
                    f"ids[{first}] and ids[{position}] are both {name!r}; every item needs its own."
                )
        self.ids = names
        self._position_of = position_of

    def name(self, position: int) -> Any:
        """Return the user's name of an item: its id, or its position."""
        return position if self.ids is None else self.ids[position]

    def positions(self, items: Any) -> list[int]:
        """Return the positions of one item or of several."""
        return [self._position(item) for item in as_list(items, "items")]

    def _position(self, item: Any) -> int:
        if self.ids is not None:
            try:
                return self._position_of[item]
            except (KeyError, TypeError):
                raise InputError(f"There is no item with the id {item!r} in the pool.") from None
        is_whole = isinstance(item, int) and not isinstance(item, bool)
        if not is_whole or not 0 <= item < self.n_items:
            raise InputError(
                f"There is no item {item!r}: positions in the pool are 0 to {self.n_items - 1}."
            )
        return int(item)

    # -- changes

    def ask(self, positions: Sequence[int]) -> None:
        """Mark items as pending."""
        for position in positions:
            if position in self.labels:
                raise InputError(f"{self._item(position)} has a label already; forget it first.")
        for position in positions:
            if position not in self.pending:
                self.record(Event(position, "ask"))

    def tell(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Record labels and return how many are new.

        A second, different label by the same annotator is refused: that is a correction.
        """
        new_labels = self._encoded_by_position(items, labels)
        known_labels = self._labels_by(annotator, new_labels)
        for position, label in new_labels.items():
            earlier_label = known_labels.get(position, label)
            if earlier_label != label:
                raise LabelError(
                    f"{self._item(position)} already has the label "
                    f"{self.task.decode(earlier_label)!r}, "
                    f"not {self.task.decode(label)!r}; to change it call correct(...)."
                )
        n_new = 0
        for position, label in new_labels.items():
            if position not in known_labels:
                self.record(Event(position, "tell", label, annotator))
                n_new += 1
        return n_new

    def correct(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Replace earlier labels and return how many changed; the history keeps both."""
        new_labels = self._encoded_by_position(items, labels)
        known_labels = self._labels_by(annotator, new_labels)
        for position in new_labels:
            if position not in known_labels:
                raise LabelError(f"{self._item(position)} has no label to correct; call tell(...).")
        n_changed = 0
        for position, label in new_labels.items():
            if label != known_labels[position]:
                self.record(Event(position, "correct", label, annotator))
                n_changed += 1
        return n_changed

    def forget(self, items: Any) -> None:
        """Return items to the pool: they are then neither pending nor labelled."""
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
        """Apply an event, new or from a saved history."""
        position = event.position
        self.pending.pop(position, None)
        if event.action == "ask":
            if position not in self.labels:
                self.pending[position] = None
            if event.annotator is not None:
                self.asked_annotators.setdefault(position, set()).add(event.annotator)
        elif event.action == "forget":
            self.labels.pop(position, None)
            self.answers.pop(position, None)
            self.asked_annotators.pop(position, None)
        else:
            by_annotator = self.answers.setdefault(position, {})
            by_annotator[event.annotator] = self.task.dtype(event.label or 0).item()
            majority = Counter(by_annotator.values()).most_common(1)[0][0]
            self.labels[position] = by_annotator.get(None, majority)  # a gold label wins
            if event.annotator is not None:
                self.annotators.add(event.annotator)
        self.events.append(event)

    def _labels_by(self, annotator: str | None, positions: Iterable[int]) -> dict[int, Any]:
        """Return position → encoded label by an annotator; None stands for gold labels."""
        if annotator is not None and not (isinstance(annotator, str) and annotator):
            raise InputError(f"annotator is {annotator!r}; give a name, or leave it out.")
        if annotator is not None and self.task.name != "classes":
            raise InputError(
                'Named annotators need task="classes"; tell one combined label for each item.'
            )
        labels = {}
        for position in positions:
            by_annotator = self.answers.get(position, {})
            if annotator in by_annotator:
                labels[position] = by_annotator[annotator]
        return labels

    def _encoded_by_position(self, items: Any, labels: Any) -> dict[int, Any]:
        """Return position → encoded label of one label for each item."""
        positions = self.positions(items)
        label_list = self.task.as_list(labels)
        if len(label_list) != len(positions):
            raise ShapeError(
                f"{len(positions)} items and {len(label_list)} labels were told; one label for "
                "each item is needed."
            )
        by_position: dict[int, Any] = {}
        for row, (position, label) in enumerate(zip(positions, label_list, strict=True)):
            encoded = self.task.encode(label, f"labels[{row}]")
            if by_position.setdefault(position, encoded) != encoded:
                raise LabelError(f"{self._item(position)} is given two different labels at once.")
        return by_position

    def _item(self, position: int) -> str:
        return f"Item {self.name(position)!r}"
