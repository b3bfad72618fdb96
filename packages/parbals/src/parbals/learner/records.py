"""What a learner knows of its items: which are out, which are labelled, and by what names."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from parbals.learner.ledger import Event, Ledger
from parbals.learner.names import ClassNames, ItemNames

__all__ = ["Records"]


class Records:
    """The ledger of a learner, in the words of its user."""

    def __init__(self, items: ItemNames, classes: ClassNames) -> None:
        self._items, self._classes = items, classes
        self._ledger = Ledger(items, classes)

    def mark_pending(self, items: Any) -> None:
        """Declare items as out for labelling that were chosen elsewhere."""
        self._ledger.ask(self._items.positions(items))

    def tell(self, items: Any, labels: Any) -> int:
        """Record labels of any items, in any order; returns how many are new.

        The same label again is no news; another label than before is refused, see :meth:`correct`.
        """
        positions = self._items.positions(items)
        return self._ledger.tell(positions, self._classes.numbers(labels, len(positions)))

    def correct(self, items: Any, labels: Any) -> int:
        """Change labels given before; the history keeps both. Returns how many changed."""
        positions = self._items.positions(items)
        return self._ledger.correct(positions, self._classes.numbers(labels, len(positions)))

    def forget(self, items: Any) -> None:
        """Give items back, pending or labelled: they can be asked for again."""
        self._ledger.forget(self._items.positions(items))

    @property
    def classes(self) -> tuple[Any, ...]:
        """The class labels, in the order of every probability."""
        return self._classes.labels

    @property
    def ids(self) -> list[Any] | None:
        """The names of the items, if they have any."""
        return self._items.ids

    def name_items(self, ids: Sequence[Hashable]) -> None:
        """Call the items by these N distinct names from now on."""
        self._items = ItemNames(self._items.n_items, ids)
        self._ledger.rename(self._items)

    @property
    def labelled(self) -> np.ndarray:
        """Positions that have a label, ascending."""
        return np.array(sorted(self._ledger.labels), np.int64)

    @property
    def labels_by_position(self) -> dict[int, int]:
        """Position → class number, in the order in which the labels came."""
        return dict(self._ledger.labels)

    @property
    def free_items(self) -> int:
        """How many items are neither labelled nor pending."""
        return int(self.is_free().sum())

    def is_free(self) -> np.ndarray:
        """(N,) whether each item is neither labelled nor pending."""
        return self._ledger.free()

    @property
    def pending(self) -> list[Any]:
        """Items that are out, in the order they were asked for."""
        return [self._items.of(p) for p in self._ledger.pending]

    @property
    def labels(self) -> dict[Any, Hashable]:
        """The label of every labelled item."""
        return {self._items.of(p): self.classes[c] for p, c in self._ledger.labels.items()}

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that happened, oldest first, by position and class number."""
        return tuple(self._ledger.events)

    def history(self, item: Any) -> list[tuple[str, Hashable | None]]:
        """What happened to one item, oldest first: (action, label)."""
        (position,) = self._items.positions([item])
        return [
            (e.action, None if e.label is None else self.classes[e.label])
            for e in self._ledger.history(position)
        ]
