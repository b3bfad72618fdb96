"""A project's model at work on new data: the same readers, the same features, its labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.learner.active import ActiveLearner
from parbals.learner.numbers.metric import decided

from parbals_label.project.engine import learner_of
from parbals_label.project.features import GIVEN
from parbals_label.project.fitted import FittedFeatures
from parbals_label.readers.items import id_column_of, plan_items
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source
from parbals_label.store.store import Store

__all__ = ["NewItems", "open_new_items", "predicted_columns", "predictions", "trained_learner"]

_AT_ONCE = 2_048


@dataclass(frozen=True)
class NewItems:
    """Items that a project's encoder can read, opened but not read yet."""

    source: Source
    base: Path
    id_column: str
    fitted: FittedFeatures


def trained_learner(store: Store) -> ActiveLearner:
    """The project's learner, which must have seen a label."""
    if not store.n_labelled:
        raise ProjectError(
            f"The project in {store.folder} has no labels yet, so there is no model; label some "
            f"items first (parbals serve {store.folder})."
        )
    return learner_of(store, with_pending=False)


def open_new_items(
    store: Store,
    data: Path,
    *,
    id_column: str | None = None,
    encoding: str | None = None,
    split: str | None = None,
    names: list[str] | None = None,
) -> NewItems:
    """New data, if they hold what the project's features are made of; else one sentence why not.

    Items are named by ``id_column``, by default by a column ``id``, else by their numbers.
    """
    source = open_source(data, encoding=encoding, split=split, names=names)
    settings = store.settings
    if (settings.encoder or GIVEN) == GIVEN:
        width = settings.features.shape[1] if settings.features else 0
        if source.features is None or source.features.shape[1] != width:
            has = "none" if source.features is None else f"{source.features.shape[1]}"
            raise InputError(
                f"{source.name} has {has} of the {width} columns of numbers that the project's "
                "features are; give an .npy or .npz file like the one that it was made from."
            )
    for column in (*settings.encoded_columns, *settings.table_columns):
        if column not in source.columns:
            raise InputError(
                f"{source.name} has no column {column!r}, which the project's features are made "
                f"of; it has {', '.join(source.columns) or 'none'}. Without a header row, name its "
                "columns: --names."
            )
    base = (data if data.is_dir() else data.parent).resolve()
    name = id_column_of(source) if id_column is None else id_column
    return NewItems(source, base, name, FittedFeatures.of(store))


def predicted_columns(classes: tuple[str, ...]) -> list[str]:
    """id, the class that is decided, and one probability for each class."""
    return ["id", "predicted", *(f"p_{label}" for label in classes)]


def predictions(
    learner: ActiveLearner, new: NewItems, *, with_audit: bool = False
) -> Iterator[dict[str, Any]]:
    """One record for every new item, in order."""
    walk, done = plan_items(new.source, id_column=new.id_column), 0
    stakes = learner.stakes(learner.fitted(with_audit=with_audit))
    while items := [(name, content) for name, content, _ in islice(walk, _AT_ONCE)]:
        given = new.source.features
        if new.fitted.name == GIVEN and given is not None:
            rows = np.asarray(given[done : done + len(items)], np.float64)
        else:
            rows = new.fitted.encoded(items, new.base)
        probs = learner.predict_proba(new.fitted.features(rows), with_audit=with_audit)
        best = decided(probs, stakes)
        for (name, _), row, number in zip(items, probs, best.tolist(), strict=True):
            shares = {
                f"p_{c}": round(float(p), 6) for c, p in zip(learner.classes, row, strict=True)
            }
            yield {"id": name, "predicted": learner.classes[number], **shares}
        done += len(items)
