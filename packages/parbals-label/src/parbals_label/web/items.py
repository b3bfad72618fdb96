"""Lists of items, and everything about one of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from parbals_label.project.consensus import combined_labels
from parbals_label.project.media import image_address, image_column
from parbals_label.store.passes import KINDS
from parbals_label.store.records import Answer, Item
from parbals_label.store.store import Store
from parbals_label.web.queries import Predictions
from parbals_label.web.schemas import Probabilities

__all__ = ["ItemOut", "ItemsOut", "list_items", "show_item"]

_SNIPPET = 200
_FEW_COLUMNS = 3
_SCANNED = 20_000
"""Items looked through for one answer; a search goes on from there."""


class ItemRow(BaseModel):
    """An item in a list."""

    position: int
    id: str
    snippet: str
    image: str | None
    label: str | None
    answers: dict[str, str]
    passes: dict[str, str]
    predicted: Probabilities


class ItemsOut(BaseModel):
    """A part of the list; ask for what comes after ``next`` until it is null."""

    items: list[ItemRow]
    next: int | None
    total: int | None


class HistoryRow(BaseModel):
    """An answer as it was given; ``label`` is null where one was withdrawn."""

    model_config = ConfigDict(from_attributes=True)

    answer: int
    annotator: str
    label: str | None
    source: str
    comment: str | None
    created: str
    revision: int


class ItemOut(ItemRow):
    """Everything about an item."""

    content: dict[str, Any]
    history: list[HistoryRow]


def list_items(
    store: Store,
    *,
    state: str,
    label: str | None,
    annotator: str | None,
    query: str | None,
    after: int,
    limit: int,
    only: str | None = None,
) -> ItemsOut:
    """A part of the list, in order; a search may find nothing in a part and still go on.

    ``only`` leaves nothing but one person's own answers and passes.
    """
    rows = _Rows(store, only)
    positions = rows.positions(state, label, only or annotator)
    first = (
        after + 1
        if isinstance(positions, range)
        else int(np.searchsorted(positions, after, side="right"))
    )
    part: list[ItemRow] = []
    last = None
    for item in _read(store, positions[first : first + (_SCANNED if query else limit)]):
        last = item.position
        if query is None or _matches(item, query):
            part.append(rows.row(item))
            if len(part) == limit:
                break
    more = last is not None and last != positions[-1]
    return ItemsOut(
        items=part, next=last if more else None, total=None if query else len(positions)
    )


class _Rows:
    """What the rows of a list are made of, read once."""

    def __init__(self, store: Store, only: str | None) -> None:
        self.store = store
        self.answers = store.current_labels()
        self.passes = store.passes()
        if only is None:
            self.labels = combined_labels(store.votes())
        else:
            self.answers, self.passes = _of(only, self.answers), _of(only, self.passes)
            self.labels = {position: by[only] for position, by in self.answers.items()}
        self.predictions = Predictions(store)
        self.image = image_column(store)
        self.columns = store.settings.encoded_columns

    def row(self, item: Item) -> ItemRow:
        position = item.position
        return ItemRow(
            position=position,
            id=item.id,
            snippet=_snippet(item, self.columns),
            image=image_address(position, self.image),
            label=self.labels.get(position),
            answers=self.answers.get(position, {}),
            passes=self.passes.get(position, {}),
            predicted=self.predictions.of(position),
        )

    def positions(self, state: str, label: str | None, annotator: str | None) -> list[int] | range:
        """Positions in a state, ascending."""
        positions = self._in_state(state)
        if label is not None:
            positions = (p for p in positions if self.labels.get(p) == label)
        if annotator is not None:
            theirs = (self.answers, self.passes)
            positions = (p for p in positions if any(annotator in by.get(p, {}) for by in theirs))
        return positions if isinstance(positions, range) else sorted(positions)

    def _in_state(self, state: str) -> Iterable[int]:
        everything = range(self.store.n_items)
        if state in ("queued", "out"):
            return self.store.queued()[state == "out"]
        if state == "labelled":
            return self.labels
        if state == "unlabelled":
            return (p for p in everything if p not in self.labels)
        if state in ("unsure", "skipped"):
            kind = "unsure" if state == "unsure" else "skip"
            return (p for p, by in self.passes.items() if kind in by.values())
        if state == "disagree":
            return (p for p, by in self.answers.items() if len(set(by.values())) > 1)
        return everything


def _of(name: str, said: dict[int, dict[str, str]]) -> dict[int, dict[str, str]]:
    """What one person said, of what everybody did."""
    return {position: {name: by[name]} for position, by in said.items() if name in by}


def show_item(store: Store, position: int, only: str | None = None) -> ItemOut:
    """Everything about an item, at the cost of one item; or what one person said of it."""
    (item,) = store.items([position])
    history = [a for a in store.history(position) if only in (None, a.annotator)]
    # The latest of each annotator, in the order in which they came to their labels.
    now: dict[str, Answer] = {}
    for answer in history:
        if answer.annotator in now and now[answer.annotator].label_now != answer.label_now:
            del now[answer.annotator]
        now[answer.annotator] = answer
    held = [answer for answer in now.values() if answer.label is not None]
    answers = {answer.annotator: str(answer.label_now) for answer in held}
    people = {a.annotator: str(a.label_now) for a in held if a.source != "machine"}
    passes = {
        entry.annotator: entry.kind
        for entry in store.pass_history(position)
        if only in (None, entry.annotator)
    }
    return ItemOut(
        position=position,
        id=item.id,
        snippet=_snippet(item, store.settings.encoded_columns),
        image=image_address(position, image_column(store)),
        label=combined_labels({position: people or answers}).get(position),
        answers=answers,
        passes={
            name: kind for name, kind in passes.items() if kind in KINDS and name not in answers
        },
        predicted=Predictions(store).of(position),
        content=item.content,
        history=[HistoryRow.model_validate(answer) for answer in history],
    )


def _snippet(item: Item, columns: Sequence[str]) -> str:
    """The beginning of an item, on one line; of a row of many columns with their names."""
    names = [*columns] or [*item.content]
    filled = [(name, item.content.get(name)) for name in names]
    parts = [(name, " ".join(str(value).split())) for name, value in filled if value is not None]
    is_row = len(names) > _FEW_COLUMNS
    text = " · ".join(f"{name}: {part}" if is_row else part for name, part in parts if part)
    return text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}…"


def _read(store: Store, positions: list[int] | range) -> Iterator[Item]:
    for start in range(0, len(positions), 200):
        yield from store.items(positions[start : start + 200])


def _matches(item: Item, query: str) -> bool:
    words = query.casefold()
    return any(words in str(value).casefold() for value in (item.id, *item.content.values()))
