"""The order of a list of items: by doubt, by what is predicted, by how near they are in meaning."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from parbals.arrays import block_rows
from parbals.errors import InputError

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.features import features_of
from parbals_label.project.label_issues import current_label_issues
from parbals_label.project.predicted import DecisionRule, decisions, uncertainty
from parbals_label.store.store import Store

if TYPE_CHECKING:
    from parbals_label.project.predict import FittedFeatures

__all__ = ["Order", "by_meaning", "by_model"]

Order = tuple[str, str | None, int | None]
"""A sort, the class of "probability", the item of "meaning": without it typed words are meant."""

_QUICK = ("sentences", "words")
"""Encoders that read a few words at once, without a GPU."""
_BLOCK = 8192


def _places(key: np.ndarray) -> np.ndarray:
    """The place (N,) of every item in the order of a key, the smallest first."""
    return np.argsort(np.argsort(key, kind="stable"))


def by_model(
    store: Store,
    order: Order,
    probs: np.ndarray | None,
    judge: DecisionRule | None,
    labels: Mapping[int, str],
) -> np.ndarray:
    """Places (N,) by stored predictions (N, C).

    "doubt": the lower the probability of an item's label, or of the likeliest class where it has
    none, the earlier; of labels that the latest report doubts it is the one by all other labels.
    "predicted": one class after the other, the surest items first. "probability": of one class.
    Numbers go by their deviations and means.
    The audit's items are the last: nobody sees their predictions, and places must not tell them.
    """
    if probs is None:
        raise InputError("There are no predictions to sort by yet; label a few items first.")
    form, (sort, of, _) = store.form, order
    are_numbers = form.task == NUMBERS
    classes = form.classes[: 0 if are_numbers else probs.shape[1]]
    if sort == "doubt":
        key = -np.asarray(uncertainty(form, probs), np.float64)
        known = [position for position, label in labels.items() if label in classes]
        key[known] = probs[known, [classes.index(labels[position]) for position in known]] - 1.0
        for doubt in current_label_issues(store):
            key[doubt.position] = min(key[doubt.position], doubt.probability - 1.0)
    elif sort == "predicted" and are_numbers:
        key = np.array(probs[:, 0], np.float64)
    elif sort == "predicted":
        if form.task == MANY:
            best = probs.argmax(axis=1)
        else:
            said = decisions(replace(form, classes=classes), probs, judge)
            best = np.array([classes.index(str(label)) for label in said], np.int64)
        key = best + 0.5 * (1.0 - probs[np.arange(len(probs)), best])
    elif of in classes:
        key = -np.array(probs[:, classes.index(of)], np.float64)
    else:
        raise InputError(f"of is {of!r}; name a class that is predicted already.")
    key[list(store.settings.audit)] = np.inf
    return _places(key)


def by_meaning(store: Store, near: int | None, words: str | None) -> np.ndarray:
    """Places (N,) by how far items are from one of them, or from words that somebody typed.

    Of encoded items the angle counts (one minus its cosine), of tables the distance.
    """
    features, settings = features_of(store), store.settings
    if near is None:
        here = _row_of_words(store, words)
    elif near < store.n_items:
        here = np.asarray(features[near], np.float64)
    else:
        raise InputError(f"near is {near}; the project has {store.n_items} items.")
    key = np.empty(len(features))
    for block in block_rows(len(features), _BLOCK):
        rows = np.asarray(features[block], np.float64)
        if settings.encoded_kind is None:
            key[block] = np.square(rows - here).sum(axis=1)
        else:
            lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(here)
            key[block] = 1.0 - rows @ here / np.maximum(lengths, 1e-12)
    return _places(key)


def _row_of_words(store: Store, words: str | None) -> np.ndarray:
    """The features (D,) of typed words, as of an item that consists of them."""
    settings = store.settings
    if words is None:
        raise InputError("Type some words, or open an item and look for those that are like it.")
    if settings.encoder not in _QUICK or settings.table_columns or settings.features is None:
        raise InputError(
            f"Typed words can be compared with texts of the encoders {', '.join(_QUICK)}; the "
            f"features of this project are by {settings.encoder}. Open an item and look for those "
            "that are like it."
        )
    fitted = _fitted(store.folder, settings.features.digest)
    item = ("words", dict.fromkeys(fitted.columns, "") | {fitted.columns[0]: words})
    return fitted.features(fitted.encoded([item], Path()))[0].astype(np.float64)


@lru_cache(maxsize=1)  # it takes seconds; another digest is another encoder, or other items
def _fitted(folder: Path, digest: str) -> "FittedFeatures":
    from parbals_label.project.predict import FittedFeatures

    with Store.open(folder, read_only=True) as store:
        return FittedFeatures.of(store)
