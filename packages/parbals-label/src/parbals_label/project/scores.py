"""Scores of another model, such as an LLM or CLIP, as prior information about the items."""

from pathlib import Path

import numpy as np
from parbals.errors import InputError

from parbals_label.project.features import store_features
from parbals_label.readers.items import check_numbers, id_column_of
from parbals_label.readers.open import open_source
from parbals_label.readers.source import where
from parbals_label.store.settings import MatrixFile
from parbals_label.store.store import Store

__all__ = ["store_scores"]


def store_scores(store: Store, path: Path) -> MatrixFile:
    """Store scores as probabilities in a matrix of the project; the record for its settings.

    The file has a row for every item, with its id and a column for each class, named by the class
    or, as in exports, p_CLASS. Probabilities or any other scores: a higher score is more likely.
    """
    from parbals.learner.descriptions import as_probabilities

    if store.settings.descriptions:
        raise InputError("The classes are described by sentences; give those or scores, not both.")
    source = open_source(path)
    id_column = id_column_of(source)
    columns = [c if c in source.columns else f"p_{c}" for c in store.classes]
    for label, column in zip(store.classes, columns, strict=True):
        if column not in source.columns or not id_column:
            missing = label if id_column else "id"
            raise InputError(
                f"{source.name} has no column {missing!r}; scores need an id and a column for "
                f"each class: id, {', '.join(store.classes)}."
            )
    check_numbers(source, columns)
    scores = np.full((store.n_items, len(columns)), np.nan)
    for number, values in source.rows():
        (position,) = store.position_of([str(values[id_column])])
        if not np.isnan(scores[position, 0]):
            cell = where(source.name, number, id_column)
            raise InputError(
                f"{cell} names {values[id_column]!r} again; keep one row for each item."
            )
        scores[position] = [float(values[column]) for column in columns]
    is_missing = np.isnan(scores[:, 0])
    n_missing = int(is_missing.sum())
    if n_missing:
        (first,) = store.items([int(is_missing.argmax())])
        raise InputError(
            f"{source.name} has no scores for {n_missing:,} of {store.n_items:,} items, the first "
            f"is {first.id!r}; every item needs a row."
        )
    return store_features(store.folder, as_probabilities(scores), name="scores")
