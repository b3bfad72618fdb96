"""What there is to see of a project on the page: progress, the map, lists of items.

Reads only, and loads no model.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from parbals.errors import ProjectDamagedError
from parbals.project.consensus import agreement, combined_labels
from parbals.project.features import load_features
from parbals.store.passes import KINDS
from parbals.store.records import Answer, Item
from parbals.store.store import Store
from parbals.web.shape import Predictions, image_column, snippet

__all__ = ["Curve", "item", "items", "live", "revision", "world_map"]

_MOST_POINTS = 4_000
_MOST_CURVE = 200
_MOST_PAIRS = 200
_SCANNED = 20_000
"""Items looked through for one answer; a search goes on from there."""


class Curve:
    """The expected error of every stored report, kept up to date at little cost."""

    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []
        self.last = 0

    def renew(self, store: Store) -> list[dict[str, Any]]:
        """One point for each number of labels, the latest; at most 200 of them, both ends kept."""
        for report in store.reports(after=self.last):
            self.last = report.report
            error = report.body.get("expected_error")
            if not isinstance(error, dict):
                continue
            point = {"n_labels": report.n_labels, "created": report.created}
            point |= {key: float(error[key]) for key in ("mean", "low", "high")}
            if self.points and self.points[-1]["n_labels"] == report.n_labels:
                self.points.pop()
            self.points.append(point)
        if len(self.points) <= _MOST_CURVE:
            return list(self.points)
        chosen = np.linspace(0, len(self.points) - 1, _MOST_CURVE).round().astype(int)
        return [self.points[place] for place in chosen.tolist()]


def revision(store: Store) -> str:
    """Changes whenever ``live`` would."""
    counts = store.queue_counts()
    return "-".join(map(str, (*store.revision(), counts.free, counts.out)))


def live(store: Store, curve: Curve) -> dict[str, Any]:
    """Progress, class balance, annotators, the latest report, the curve and agreement."""
    votes = store.votes()
    labels = combined_labels(votes)
    balance = dict.fromkeys(store.classes, 0)
    for label in labels.values():
        balance[label] += 1
    waiting, out = store.queued()
    latest = store.latest_report()
    people = store.annotators()
    machines = {person.name for person in people if person.source == "machine"}
    agreed = agreement(
        {p: {a: label for a, label in by.items() if a not in machines} for p, by in votes.items()}
    )
    found = None if agreed is None else asdict(agreed)
    if found is not None:
        found["pairs"] = found["pairs"][:_MOST_PAIRS]
    return {
        "labelled": len(labels),
        "n_items": store.n_items,
        "answers": sum(map(len, votes.values())),
        "out": len(out),
        "queued": len(waiting),
        "passed": len(store.passes().keys() - labels.keys()),
        "class_balance": balance,
        "annotators": [asdict(person) for person in people],
        "report": None
        if latest is None
        else {**latest.body, "created": latest.created, "n_labels": latest.n_labels},
        "history": curve.renew(store),
        "agreement": found,
    }


def world_map(store: Store) -> dict[str, Any]:
    """At most 4,000 items in two dimensions, those in play among them."""
    n_items = store.n_items
    empty: dict[str, Any] = {
        name: [] for name in ("position", "x", "y", "state", "label", "predicted")
    }
    stored = store.settings.map
    try:
        places = None if stored is None else load_features(store.folder, stored)
    except ProjectDamagedError:
        places = None
    if stored is None or places is None or len(places) != n_items:
        message = "The map is being made; it takes a moment after the server has started."
        return {"n_total": n_items, "points": empty, "explained": [], "message": message}
    labels = combined_labels(store.votes())
    waiting, out = store.queued()
    states = {**dict.fromkeys(waiting, 1), **dict.fromkeys(out, 2), **dict.fromkeys(labels, 3)}
    chosen = sorted(states)
    if len(chosen) > _MOST_POINTS:
        chosen = [
            chosen[place]
            for place in np.linspace(0, len(chosen) - 1, _MOST_POINTS).astype(int).tolist()
        ]
    # The same part of the others every time, or the picture would flicker.
    some = np.random.default_rng(0).permutation(n_items)[:_MOST_POINTS].tolist()
    chosen += [position for position in some if position not in states][
        : _MOST_POINTS - len(chosen)
    ]
    numbers = {label: number for number, label in enumerate(store.classes)}
    at = np.asarray(places[chosen], np.float64).round(5)
    predictions = Predictions(store).rows
    guessed = (
        [-1] * len(chosen) if predictions is None else predictions[chosen].argmax(axis=1).tolist()
    )
    points = {
        "position": chosen,
        "x": at[:, 0].tolist(),
        "y": at[:, 1].tolist(),
        "state": [states.get(position, 0) for position in chosen],
        "label": [numbers[labels[position]] if position in labels else -1 for position in chosen],
        "predicted": guessed,
    }
    return {"n_total": n_items, "points": points, "explained": list(stored.explained), "message": None}


class _Rows:
    """Rows of a list of items."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.answers = store.current_labels()
        self.labels = combined_labels(store.votes())
        self.passes = store.passes()
        self.predictions = Predictions(store)
        self.image = image_column(store)
        self.columns = store.settings.encoded_columns

    def row(self, found: Item) -> dict[str, Any]:
        position = found.position
        return {
            "position": position,
            "id": found.id,
            "snippet": snippet(found, self.columns),
            "image": f"/api/media/{position}" if self.image else None,
            "label": self.labels.get(position),
            "answers": self.answers.get(position, {}),
            "passes": self.passes.get(position, {}),
            "predicted": self.predictions.of(position),
        }

    def chosen(self, state: str, label: str | None, annotator: str | None) -> list[int] | range:
        """Positions in a state, ascending."""
        found: Iterable[int]
        if state in ("queued", "out"):
            found = self.store.queued()[state == "out"]
        elif state == "labelled":
            found = self.labels
        elif state in ("unsure", "skipped"):
            kind = "unsure" if state == "unsure" else "skip"
            found = [position for position, by in self.passes.items() if kind in by.values()]
        elif state == "disagree":
            found = [position for position, by in self.answers.items() if len(set(by.values())) > 1]
        elif state == "unlabelled":
            found = (
                position for position in range(self.store.n_items) if position not in self.labels
            )
        else:
            found = range(self.store.n_items)
        if label is not None:
            found = (position for position in found if self.labels.get(position) == label)
        if annotator is not None:
            theirs = (self.answers, self.passes)
            found = (
                position
                for position in found
                if any(annotator in by.get(position, {}) for by in theirs)
            )
        return found if isinstance(found, range) else sorted(found)


def items(
    store: Store,
    *,
    state: str,
    label: str | None,
    annotator: str | None,
    query: str | None,
    after: int,
    limit: int,
) -> dict[str, Any]:
    """A part of the list of items, in order; a search may find nothing in a part and still go on."""
    rows = _Rows(store)
    chosen = rows.chosen(state, label, annotator)
    first = (
        after + 1
        if isinstance(chosen, range)
        else int(np.searchsorted(chosen, after, side="right"))
    )
    part = chosen[first : first + (_SCANNED if query else limit)]
    found: list[dict[str, Any]] = []
    last = None
    for found_item in _read(store, part):
        last = found_item.position
        if query is None or _matches(found_item, query):
            found.append(rows.row(found_item))
            if len(found) == limit:
                break
    more = last is not None and last != chosen[-1]
    return {"items": found, "next": last if more else None, "total": None if query else len(chosen)}


def item(store: Store, position: int) -> dict[str, Any]:
    """Everything about an item, at the cost of one item."""
    (found,) = store.items([position])
    given = store.history(position)
    now: dict[
        str, Answer
    ] = {}  # the latest of each, in the order in which they came to their labels
    for answer in given:
        if answer.annotator in now and now[answer.annotator].label != answer.label:
            del now[answer.annotator]
        now[answer.annotator] = answer
    held = [answer for answer in now.values() if answer.label is not None]
    answers = {answer.annotator: str(answer.label) for answer in held}
    people = {answer.annotator: str(answer.label) for answer in held if answer.source != "machine"}
    passes = {entry.annotator: entry.kind for entry in store.pass_history(position)}
    history = [
        {
            key: getattr(answer, key)
            for key in ("answer", "annotator", "label", "source", "comment", "created", "revision")
        }
        for answer in given
    ]
    return {
        "position": position,
        "id": found.id,
        "snippet": snippet(found, store.settings.encoded_columns),
        "image": f"/api/media/{position}" if image_column(store) else None,
        "label": combined_labels({position: people or answers}).get(position),
        "answers": answers,
        "passes": {
            name: kind for name, kind in passes.items() if kind in KINDS and name not in answers
        },
        "predicted": Predictions(store).of(position),
        "content": found.content,
        "history": history,
    }


def _read(store: Store, positions: list[int] | range) -> Iterator[Item]:
    for start in range(0, len(positions), 200):
        yield from store.items(positions[start : start + 200])


def _matches(found: Item, query: str) -> bool:
    wanted = query.casefold()
    return any(wanted in str(value).casefold() for value in (found.id, *found.content.values()))
