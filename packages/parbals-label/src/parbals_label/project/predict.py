"""Predict new items with a project's model: the same readers, the same features, its labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from parbals.errors import ProjectError
from parbals.learner.active import ActiveLearner
from parbals.learner.evaluation.expectation import temperature_scaled
from parbals.learner.reporting import prediction_temperature
from parbals.learner.setup import mean_proba

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.project.engine import learner_of
from parbals_label.project.features import (
    GIVEN,
    class_information_of,
    features_of,
    uses_table_features,
)
from parbals_label.project.fitted import FittedFeatures, check_feature_columns, items_at
from parbals_label.project.measured import unlabelled_measured_positions
from parbals_label.project.media import media_folder
from parbals_label.project.predicted import (
    DecisionRule,
    predicted_columns,
    predicted_records,
    raw_predictions,
)
from parbals_label.readers.items import id_column_of, plan_items
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source
from parbals_label.store.store import Store

__all__ = [
    "NewItems",
    "open_new_items",
    "prediction_columns",
    "predictions",
    "sample_predictions",
    "trained_learner",
]

_BLOCK_ITEMS = 2_048
"""New items that are read and predicted together."""
_N_SAMPLED = 500
_SAME_FEATURES = 1e-3
"""Largest distance of equal items, relative to their length: features are fitted to a pool."""


def sample_predictions(
    store: Store, model: Any, fitted: FittedFeatures
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (n, C) of items evenly spaced over the pool, and their encoder's rows (n, D')."""
    positions = np.unique(np.linspace(0, store.n_items - 1, _N_SAMPLED).round().astype(int))
    rows = fitted.encoded(items_at(store, positions), Path(store.settings.media or "."))
    return mean_proba(model, fitted.features(rows)), rows


@dataclass(frozen=True)
class _MeasuredItems:
    """Items of the project that are being measured, so that nobody may see their predictions.

    Attributes:
        features: (m, D) of these items.
        ids: of these items.
        has_distinct_features: equal features are the same item. Rows of a table may be equal by
            chance, so their ids have to be equal, too.
    """

    features: np.ndarray
    ids: np.ndarray
    has_distinct_features: bool

    @classmethod
    def of(cls, store: Store) -> Self:
        """Read the items whose sample still needs their label."""
        positions = sorted(unlabelled_measured_positions(store))
        settings = store.settings
        is_table = uses_table_features(settings) or settings.encoder in (GIVEN, None)
        return cls(
            features=np.asarray(features_of(store)[positions], np.float64),
            ids=np.array([item.id for item in store.items(positions)], object),
            has_distinct_features=not is_table,
        )

    def are_measured(self, ids: Sequence[str], features: np.ndarray) -> np.ndarray:
        """(n,) whether new items, by their ids and features (n, D), are these."""
        squares = np.square(features).sum(axis=1)
        is_measured = np.zeros(len(ids), bool)
        for row, own_id in zip(self.features, self.ids, strict=True):
            distances = np.square(features - row).sum(axis=1)
            is_equal = distances <= _SAME_FEATURES**2 * np.maximum(squares, row @ row)
            if not self.has_distinct_features:
                is_equal &= np.array([name == own_id for name in ids], bool)
            is_measured |= is_equal
        return is_measured


@dataclass(frozen=True)
class NewItems:
    """New items that a project's encoder can read, opened but not read yet.

    Attributes:
        source: the file or folder.
        base: the folder that paths of images are relative to.
        id_column: the column that names the items.
        fitted: the project's features.
        measured: items of the project whose predictions are left out.
    """

    source: Source
    base: Path
    id_column: str
    fitted: FittedFeatures
    measured: _MeasuredItems


def trained_learner(store: Store) -> ActiveLearner:
    """The project's learner; an error if there is no label yet."""
    if not store.n_labelled and not class_information_of(store):
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
    reading: Mapping[str, Any] | None = None,
) -> NewItems:
    """Open new data; an error if they lack columns that the project's features are made of.

    Items are named by ``id_column``, by default by a column ``id``, else by their numbers.
    """
    source = open_source(data, **(reading or {}))
    check_feature_columns(source, store.settings)
    name = id_column_of(source) if id_column is None else id_column
    return NewItems(
        source=source,
        base=media_folder(data),
        id_column=name,
        fitted=FittedFeatures.of(store),
        measured=_MeasuredItems.of(store),
    )


def prediction_columns(form: AnswerForm, new_items: NewItems) -> list[str]:
    """Names of the columns of :func:`predictions`: id, those of the data, and the prediction's."""
    item_columns = _item_columns(form, new_items)
    return ["id", *item_columns.values(), *predicted_columns(form)]


def _item_columns(form: AnswerForm, new_items: NewItems) -> dict[str, str]:
    """Column of the data → its name in the predictions, except for the column of the ids."""
    added = {"id", *predicted_columns(form)}
    names = (name for name in new_items.source.columns if name != new_items.id_column)
    return {name: f"item.{name}" if name in added else name for name in names}


def predictions(learner: ActiveLearner, new_items: NewItems) -> Iterator[dict[str, Any]]:
    """One record for every new item, in order: its id, its columns, the prediction, probabilities.

    The prediction is None for items of the project that are being measured.
    """
    form = AnswerForm(learner.task, learner.classes)
    item_columns = _item_columns(form, new_items)
    model = learner.fitted()
    temperature = prediction_temperature(learner.state)
    decision_rule = DecisionRule(learner.metric)
    if form.task != NUMBERS:
        decision_rule = DecisionRule(learner.metric, learner.setup.class_weights(model))
    no_prediction = dict.fromkeys(predicted_columns(form))
    planned = plan_items(new_items.source, id_column=new_items.id_column)
    n_done = 0
    while items := [(name, content) for name, content, _ in islice(planned, _BLOCK_ITEMS)]:
        matrix = new_items.source.features
        if new_items.fitted.name == GIVEN and matrix is not None:
            rows = np.asarray(matrix[n_done : n_done + len(items)], np.float64)
        else:
            rows = new_items.fitted.encoded(items, new_items.base)
        features = new_items.fitted.features(rows)
        probs = raw_predictions(model, learner.setup.preparation(features))
        if temperature != 1.0:
            probs = temperature_scaled(probs, temperature)
        records = predicted_records(form, probs, decision_rule)
        names = [name for name, _ in items]
        is_measured = new_items.measured.are_measured(names, features)
        for (name, content), record, is_hidden in zip(items, records, is_measured, strict=True):
            cells = {new_name: content.get(column) for column, new_name in item_columns.items()}
            yield {"id": name, **cells, **(no_prediction if is_hidden else record)}
        n_done += len(items)
