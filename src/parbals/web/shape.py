"""What kind of project it is, what its items look like, and why one was chosen, in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parbals import __version__
from parbals.errors import ProjectDamagedError
from parbals.project.features import load_features
from parbals.readers.images import IMAGE_SUFFIXES
from parbals.store.records import Item, Lease, Why
from parbals.store.store import Store

__all__ = ["Outfit", "Predictions", "image_column", "lease_minutes", "project", "snippet", "task"]

_SNIPPET = 200


def image_column(store: Store) -> str | None:
    """The column with paths of images, if the items are images."""
    settings = store.settings
    encoded = settings.encoded_columns
    if len(encoded) != 1 or not store.n_items:
        return None
    if settings.encoder == "pixels":
        return str(encoded[0])
    first = store.items([0])[0].content.get(encoded[0])
    return (
        str(encoded[0])
        if isinstance(first, str) and first.lower().endswith(IMAGE_SUFFIXES)
        else None
    )


def project(store: Store) -> dict[str, Any]:
    """What the page needs to know once."""
    settings = store.settings
    columns = list(settings.columns)
    image = image_column(store)
    text: list[str] = []
    if image is None and store.n_items:
        content = store.items([0])[0].content
        chosen = settings.encoded_columns or [
            name for name in columns if isinstance(content.get(name), str)
        ]
        text = (
            []
            if settings.encoder == "columns"
            else [name for name in chosen if name in columns]
        )
    return {
        "name": store.folder.resolve().name,
        "identity": store.identity,
        "n_items": store.n_items,
        "classes": list(store.classes),
        "kind": "image" if image else "text" if text else "table",
        "text_columns": text,
        "image_column": image,
        "columns": columns,
        "highlight": list(settings.highlight),
        "guidelines": settings.guidelines,
        "answers_wanted": settings.answers_wanted,
        "lease_minutes": lease_minutes(store),
        "strategy": settings.strategy,
        "version": __version__,
    }


def lease_minutes(store: Store) -> int:
    """How long an item is an annotator's."""
    return store.settings.lease_minutes


class Predictions:
    """The stored predictions of all items, as they are now; nothing where there are none yet."""

    def __init__(self, store: Store) -> None:
        self.classes = store.classes
        self.rows: np.ndarray | None = None
        for _ in range(2):  # the worker may replace the file between the two reads
            stored = store.settings.predictions
            if stored is None or stored.shape[0] != store.n_items:
                return
            try:
                self.rows = load_features(store.folder, stored)
                return
            except ProjectDamagedError:
                continue

    def of(self, position: int) -> dict[str, float] | None:
        """Class → probability."""
        if self.rows is None:
            return None
        row = self.rows[position]
        return {label: round(float(p), 4) for label, p in zip(self.classes, row, strict=False)}


class Outfit:
    """What every item is handed out with; read once for each state of the settings."""

    def __init__(self, store: Store) -> None:
        self.mark = store.settings_mark()
        self.lease_seconds = 60.0 * lease_minutes(store)
        self.image = image_column(store)
        self.predictions = Predictions(store)


def task(store: Store, lease: Lease, outfit: Outfit) -> dict[str, Any]:
    """An item on its way to an annotator."""
    (item,) = store.items([lease.position])
    why = lease.why
    return {
        "position": item.position,
        "id": item.id,
        "content": item.content,
        "image": f"/api/media/{item.position}" if outfit.image else None,
        "expires": lease.expires,
        "why": {
            "batch": why and why.batch,
            "rank": why and why.rank + 1,
            "of": why and why.size,
            "score": why and why.score,
            "initial_score": why and why.initial_score,
            "strategy": why and why.strategy,
            "sentence": _sentence(why),
            "predicted": outfit.predictions.of(item.position),
        },
    }


def _sentence(why: Why | None) -> str:
    if why is None:
        return "Nobody chose this item: it was picked from the list."
    place = f"Number {why.rank + 1} of {why.size} in batch {why.batch}"
    if why.strategy == "random":
        return f"{place}, drawn at random."
    if why.strategy.startswith("parbals"):
        if why.score is None:
            return (
                f"{place}, chosen together with the others so that they do not repeat each other."
            )
        sentence = (
            f"{place}: on top of what the others in the batch will tell, its label is expected to "
            f"lower the log loss of all predictions by {why.score:.2g} nats"
        )
        if why.initial_score is not None and why.initial_score > why.score > 0:
            sentence += f" (alone it would be {why.initial_score:.2g})"
        return sentence + "."
    if why.strategy == "coreset":
        return f"{place}, chosen because it is far from everything that was chosen before."
    scored = "" if why.score is None else f", with a score of {why.score:.3g}"
    return f"{place}, chosen by {why.strategy}{scored}."


def snippet(item: Item, columns: Sequence[str]) -> str:
    """The beginning of an item, on one line."""
    values = [item.content.get(name) for name in columns] or list(item.content.values())
    text = " · ".join(" ".join(str(value).split()) for value in values if value not in (None, ""))
    return text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}…"
