"""A project's model at work on new data: the same readers, the same features, its labels.

:class:`FittedFeatures` does to new items what was done to the project's. An encoder that learns
(``words``) learns again from the project's items, which gives what it gave then. Between its rows r
and the features x lies one affine map, such as PCA and a scale, fitted on the pool when the
features were made. It is read off the two: x = r W + b, the shortest W where the pool leaves some
directions open, as PCA leaves them out. Where no map fits, the features were not made in this way,
and that is said. Columns of a table are read again from the project's items as well; beside encoded
texts or images they were moved and scaled as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.features.table import TableEncoding
from parbals.learner.active import ActiveLearner
from parbals.learner.evaluation.expectation import temperature_scaled
from parbals.learner.reporting import prediction_temperature
from parbals.learner.state import mean_proba

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.encoders.base import Encoder, Options
from parbals_label.encoders.embedding import encoded_rows, prepared_item
from parbals_label.project.create import media_folder
from parbals_label.project.embedding import (
    columns_of,
    contents_of,
    fit_table,
    item_pairs,
    number_columns,
    open_encoder,
)
from parbals_label.project.engine import learner_of
from parbals_label.project.features import (
    GIVEN,
    TABLE,
    class_information_of,
    embed_advice,
    features_of,
)
from parbals_label.project.predicted import DecisionRule, predicted_records, raw_predictions
from parbals_label.readers.items import id_column_of, plan_items
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source
from parbals_label.store.store import Store

__all__ = ["FittedFeatures", "NewItems", "open_new_items", "predictions"]
__all__ += ["some_predictions", "trained_learner"]

_AT_ONCE = 2_048
"""New items that are read and predicted together."""
_MORE_ROWS = 256
"""Rows beyond twice the encoder's width by which the affine map is found, and checked."""
_TOLERANCE = 1e-3
"""How far off the map may be, as a share of the largest feature."""
_ENCODED_AT_ONCE = 32
_SOME = 500

Item = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class FittedFeatures:
    """From items (id, columns) to rows of an encoder (n, D') and features (n, D) of a project.

    Attributes:
        name: the encoder's; ``columns``: what it reads of an item.
        encoder: None for numbers, taken as they are.
        matrix: W (D', D); offset: b (D,).
        table: what reads columns of a table; their part of a row comes last.
    """

    name: str
    columns: tuple[str, ...]
    encoder: Encoder | None
    matrix: np.ndarray
    offset: np.ndarray
    table: TableEncoding | None = None

    @classmethod
    def of(cls, store: Store, options: Options | None = None) -> Self:
        """Those of a project; loads its encoder."""
        settings, features = store.settings, features_of(store)
        name, columns = settings.encoder or GIVEN, settings.encoded_columns
        if name == GIVEN:
            width = features.shape[1]
            return cls(name, (), None, np.eye(width), np.zeros(width))
        encoder = open_encoder(name, options or Options(), settings.encoded_kind, store.folder)
        base = Path(settings.media or ".")
        if encoder is not None:
            items = contents_of(lambda: item_pairs(store), columns, base, encoder.kind)
            encoder.fit(items, store.n_items)
        further = columns if name == TABLE else settings.table_columns
        table = fit_table(lambda: item_pairs(store), store.n_items, further) if further else None
        raw = cls(name, columns, encoder, np.zeros((0, 0)), np.zeros(0), table)
        readable = np.setdiff1d(np.arange(store.n_items), np.array(settings.unreadable, int))
        width = raw.encoded(_some(store, readable[:1]), base).shape[1]
        places = np.linspace(0, len(readable) - 1, min(len(readable), 2 * width + _MORE_ROWS))
        chosen = readable[places.round().astype(int)]
        rows = raw.encoded(_some(store, chosen), base)
        wanted = np.asarray(features[chosen], np.float64)
        if table is None:
            matrix, offset = _affine_map(rows, wanted, by_column=encoder is None)
        else:
            matrix, offset = _map_beside(rows, wanted, table.width)
        if np.abs(rows @ matrix + offset - wanted).max() > _TOLERANCE * np.abs(wanted).max():
            raise ProjectError(
                f"The encoder {name} does not make the features that this project has (another "
                f"version may have made them); {embed_advice(store.folder, name)}."
            )
        return cls(name, columns, encoder, matrix, offset, table)

    def encoded(self, items: Sequence[Item], base: Path) -> np.ndarray:
        """(n, D') float64 rows of the encoder; paths of images start from ``base``."""
        parts = [] if self.name == TABLE else [self._encoder_rows(items, base)]
        if self.table is not None:
            cells = columns_of((content for _, content in items), self.table.names)
            parts.append(self.table.transform(cells).astype(np.float64))
        return np.concatenate(parts, axis=1)

    def _encoder_rows(self, items: Sequence[Item], base: Path) -> np.ndarray:
        if self.encoder is None:
            return number_columns(items, self.columns)
        contents = contents_of(lambda: iter(items), self.columns, base, self.encoder.kind)
        prepared = [prepared_item(self.encoder, name, content) for name, content in contents()]
        for item in prepared:
            if item.why is not None:
                raise InputError(f"The {item.name} cannot be read: {item.why}.")
        return np.asarray(encoded_rows(self.encoder, prepared, _ENCODED_AT_ONCE), np.float64)

    def features(self, rows: np.ndarray) -> np.ndarray:
        """(n, D) float32, as a project stores them, of the encoder's rows (n, D')."""
        return (rows @ self.matrix + self.offset).astype(np.float32)


def _affine_map(
    rows: np.ndarray, wanted: np.ndarray, *, by_column: bool
) -> tuple[np.ndarray, np.ndarray]:
    """W and b with rows W + b nearest to ``wanted``; ``by_column``: W is diagonal."""
    centre, middle = rows.mean(axis=0), wanted.mean(axis=0)
    apart, goal = rows - centre, wanted - middle
    square, width = np.square(apart).sum(axis=0), rows.shape[1]
    if by_column:
        slopes = (apart * goal).sum(axis=0) / np.where(square > 0, square, 1.0)
        matrix = np.diag(slopes)
        return matrix, middle - centre @ matrix
    if wanted.shape[1] == width:  # one scale for all, as for rows that were reduced already
        scale = float((rows * wanted).sum() / max(np.square(rows).sum(), 1e-300))
        if np.abs(scale * rows - wanted).max() <= _TOLERANCE * np.abs(wanted).max():
            return scale * np.eye(width), np.zeros(width)
    matrix = np.linalg.lstsq(apart, goal, rcond=1e-6)[0]
    return matrix, middle - centre @ matrix


def _map_beside(
    rows: np.ndarray, wanted: np.ndarray, n_table: int
) -> tuple[np.ndarray, np.ndarray]:
    """W and b where the last columns are a table's; alone they are as they were read."""
    n_rows, n_wanted = rows.shape[1] - n_table, wanted.shape[1] - n_table
    matrix, offset = np.zeros((rows.shape[1], wanted.shape[1])), np.zeros(wanted.shape[1])
    if n_wanted <= 0:
        return np.eye(*matrix.shape), offset
    matrix[:n_rows, :n_wanted], offset[:n_wanted] = _affine_map(
        rows[:, :n_rows], wanted[:, :n_wanted], by_column=False
    )
    cells, goal = rows[:, n_rows:], wanted[:, n_wanted:]
    centre, middle = cells.mean(axis=0), goal.mean(axis=0)
    square = float(np.square(cells - centre).sum())
    scale = float(((cells - centre) * (goal - middle)).sum()) / (square or 1.0)
    matrix[n_rows:, n_wanted:] = scale * np.eye(n_table)
    offset[n_wanted:] = middle - scale * centre
    return matrix, offset


def _some(store: Store, positions: np.ndarray) -> list[Item]:
    return [(item.id, item.content) for item in store.items(positions.tolist())]


def some_predictions(
    store: Store, model: Any, fitted: FittedFeatures
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (n, C) of items evenly spread over the pool, and their encoder's rows (n, D')."""
    places = np.unique(np.linspace(0, store.n_items - 1, _SOME).round().astype(int))
    rows = fitted.encoded(_some(store, places), Path(store.settings.media or "."))
    return mean_proba(model, fitted.features(rows)), rows


@dataclass(frozen=True)
class NewItems:
    """Items that a project's encoder can read, opened but not read yet."""

    source: Source
    base: Path
    id_column: str
    fitted: FittedFeatures


def trained_learner(store: Store) -> ActiveLearner:
    """The project's learner, which must have seen a label."""
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
    """New data, if they hold what the project's features are made of; else one sentence why not.

    Items are named by ``id_column``, by default by a column ``id``, else by their numbers.
    """
    source = open_source(data, **(reading or {}))
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
    name = id_column_of(source) if id_column is None else id_column
    return NewItems(source, media_folder(data), name, FittedFeatures.of(store))


def predictions(learner: ActiveLearner, new: NewItems) -> Iterator[dict[str, Any]]:
    """One record for every new item, in order."""
    walk, done = plan_items(new.source, id_column=new.id_column), 0
    model, degree = learner.fitted(), prediction_temperature(learner.state)
    form = AnswerForm(learner.task, learner.classes)
    decision_rule = DecisionRule(learner.metric)
    if form.task != NUMBERS:
        decision_rule = DecisionRule(learner.metric, learner.setup.class_weights(model))
    while items := [(name, content) for name, content, _ in islice(walk, _AT_ONCE)]:
        given = new.source.features
        if new.fitted.name == GIVEN and given is not None:
            rows = np.asarray(given[done : done + len(items)], np.float64)
        else:
            rows = new.fitted.encoded(items, new.base)
        probs = raw_predictions(model, learner.setup.preparation(new.fitted.features(rows)))
        probs = probs if degree == 1.0 else temperature_scaled(probs, degree)
        for (name, _), record in zip(
            items, predicted_records(form, probs, decision_rule), strict=True
        ):
            yield {"id": name, **record}
        done += len(items)
