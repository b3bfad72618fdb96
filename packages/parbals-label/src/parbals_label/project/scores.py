"""What another model says of the items before anybody labels: an LLM's or CLIP's scores, a file."""

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
    """Keep the scores in a file beside the project; what its settings must remember of it.

    The file names every item by its id and has a column for each class, called by its name or, as
    in our exports, p_NAME. Probabilities or any other scores: more is likelier.
    """
    from parbals.learner.descriptions import as_probabilities

    if store.settings.descriptions:
        raise InputError("The classes are described by sentences; give those or scores, not both.")
    source = open_source(path)
    name = id_column_of(source)
    columns = [c if c in source.columns else f"p_{c}" for c in store.classes]
    for label, column in zip(store.classes, columns, strict=True):
        if column not in source.columns or not name:
            raise InputError(
                f"{source.name} has no column {label if name else 'id'!r}; scores need an id and "
                f"a column for each class: id, {', '.join(store.classes)}."
            )
    check_numbers(source, columns)
    scores = np.full((store.n_items, len(columns)), np.nan)
    for number, values in source.rows():
        (position,) = store.position_of([str(values[name])])
        if not np.isnan(scores[position, 0]):
            at = where(source.name, number, name)
            raise InputError(f"{at} names {values[name]!r} again; keep one row for each item.")
        scores[position] = [float(values[column]) for column in columns]
    if n_missing := int(np.isnan(scores[:, 0]).sum()):
        (first,) = store.items([int(np.isnan(scores[:, 0]).argmax())])
        raise InputError(
            f"{source.name} has no scores for {n_missing:,} of {store.n_items:,} items, the first "
            f"is {first.id!r}; every item needs a row."
        )
    return store_features(store.folder, as_probabilities(scores), name="scores")
