"""Sort orders of the list of items: by uncertainty, by predicted class, by similarity."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from parbals.arrays import block_rows
from parbals.errors import InputError

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.features import features_of
from parbals_label.project.label_issues import current_label_issues
from parbals_label.project.measured import measured_positions
from parbals_label.project.predicted import DecisionRule, decisions, uncertainty
from parbals_label.store.store import Store

if TYPE_CHECKING:
    from parbals_label.project.fitted import FittedFeatures

__all__ = ["Order", "by_meaning", "by_model"]

_QUICK_ENCODERS = ("sentences", "sentences-int8", "words")
"""Encoders that embed a few words at once, without a GPU."""
_BLOCK_ROWS = 8192


class Order(NamedTuple):
    """A sort order of the list.

    Attributes:
        sort: "order" (by position), "doubt", "predicted", "probability" or "meaning".
        class_name: the class whose probability "probability" sorts by.
        near: the item that "meaning" compares with; None compares with the typed words.
    """

    sort: str = "order"
    class_name: str | None = None
    near: int | None = None


def _ranks(key: np.ndarray) -> np.ndarray:
    """Return the rank (N,) of every item by a key (N,), the smallest first."""
    return np.argsort(np.argsort(key, kind="stable"))


def by_model(
    store: Store,
    order: Order,
    probs: np.ndarray | None,
    rule: DecisionRule | None,
    labels: Mapping[int, str],
) -> np.ndarray:
    """Rank the items (N,) by their stored predictions (N, C).

    Items that are being measured come last, because their rank would reveal their prediction.

    Args:
        store: the project.
        order: "doubt" ranks by the probability of the item's label, or of the likeliest class
            where it has none, lowest first; likely label errors use the leave-one-out
            probability. "predicted" ranks class by class, the most certain items first.
            "probability" ranks by the probability of one class. For regression, the first two
            rank by standard deviation and mean.
        probs: the predictions, None if there are none yet.
        rule: how the project's metric decides on a class.
        labels: position → label.
    """
    if probs is None:
        raise InputError("There are no predictions to sort by yet; label a few items first.")
    if order.sort == "doubt":
        key = _doubt_key(store, probs, labels)
    elif order.sort == "predicted":
        key = _predicted_key(store, probs, rule)
    else:
        key = _probability_key(store, probs, order.class_name)
    key[list(measured_positions(store))] = np.inf
    return _ranks(key)


def _predicted_classes(store: Store, probs: np.ndarray) -> tuple[str, ...]:
    """Return the classes of the predictions' columns; classes added later have none."""
    if store.form.task == NUMBERS:
        return ()
    return tuple(store.form.classes[: probs.shape[1]])


def _doubt_key(store: Store, probs: np.ndarray, labels: Mapping[int, str]) -> np.ndarray:
    classes = _predicted_classes(store, probs)
    key = -np.asarray(uncertainty(store.form, probs), np.float64)
    labelled = [position for position, label in labels.items() if label in classes]
    label_columns = [classes.index(labels[position]) for position in labelled]
    key[labelled] = probs[labelled, label_columns] - 1.0
    for issue in current_label_issues(store):
        key[issue.position] = min(key[issue.position], issue.probability - 1.0)
    return key


def _predicted_key(store: Store, probs: np.ndarray, rule: DecisionRule | None) -> np.ndarray:
    form = store.form
    if form.task == NUMBERS:
        return np.array(probs[:, 0], np.float64)
    if form.task == MANY:
        predicted = probs.argmax(axis=1)
    else:
        classes = _predicted_classes(store, probs)
        decided = decisions(replace(form, classes=classes), probs, rule)
        predicted = np.array([classes.index(str(label)) for label in decided], np.int64)
    certainty = probs[np.arange(len(probs)), predicted]
    return np.asarray(predicted + 0.5 * (1.0 - certainty))


def _probability_key(store: Store, probs: np.ndarray, class_name: str | None) -> np.ndarray:
    classes = _predicted_classes(store, probs)
    if class_name not in classes:
        raise InputError(f"of is {class_name!r}; name a class that the model already predicts.")
    return -np.array(probs[:, classes.index(class_name)], np.float64)


def by_meaning(store: Store, near: int | None, words: str | None) -> np.ndarray:
    """Rank the items (N,) by their distance to one of them, or to typed words.

    The distance is one minus the cosine for embeddings, and Euclidean for tables.
    """
    features = features_of(store)
    if near is None:
        query = _embed_words(store, words)
    elif near < store.n_items:
        query = np.asarray(features[near], np.float64)
    else:
        raise InputError(f"near is {near}; the project has {store.n_items} items.")
    distances = np.empty(len(features))
    for block in block_rows(len(features), _BLOCK_ROWS):
        rows = np.asarray(features[block], np.float64)
        if store.settings.encoded_kind is None:
            distances[block] = np.square(rows - query).sum(axis=1)
        else:
            norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
            distances[block] = 1.0 - rows @ query / np.maximum(norms, 1e-12)
    return _ranks(distances)


def _embed_words(store: Store, words: str | None) -> np.ndarray:
    """Return the features (D,) of typed words, encoded like an item that consists of them."""
    settings = store.settings
    if words is None:
        raise InputError("Type some words, or open an item and choose Find similar items.")
    if settings.encoder not in _QUICK_ENCODERS or settings.table_columns or not settings.features:
        raise InputError(
            "Search by meaning needs texts and one of the quick encoders "
            f"({', '.join(_QUICK_ENCODERS)}); this project uses {settings.encoder}. Open an item "
            "and choose Find similar items instead."
        )
    fitted = _load_fitted(store.folder, settings.features.digest)
    content = dict.fromkeys(fitted.columns, "") | {fitted.columns[0]: words}
    encoded = fitted.encoded([("words", content)], Path())
    return fitted.features(encoded)[0].astype(np.float64)


@lru_cache(maxsize=1)  # takes seconds; the digest changes with the encoder and the items
def _load_fitted(folder: Path, digest: str) -> "FittedFeatures":
    from parbals_label.project.fitted import FittedFeatures

    with Store.open(folder, read_only=True) as store:
        return FittedFeatures.of(store)
