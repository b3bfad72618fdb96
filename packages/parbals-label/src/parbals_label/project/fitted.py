"""Features of new items, as they were made for a project's items.

:class:`FittedFeatures` applies to new items what was applied to the project's. An encoder that is
fitted to the items (``words``) is fitted again to the project's items, with the same result. The
features x are an affine map of its rows r, such as PCA and a scale, fitted on the pool. The map is
recovered from rows and features of the pool by least squares: x = r W + b, with the shortest W
where the pool leaves directions undetermined, as PCA drops them. If no map fits, the features were
not made by this encoder, and an error says so. A table is encoded again from the project's items as
well; beside encoded texts or images it was centred and scaled as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.features.table import TableEncoding

from parbals_label.encoders.base import Encoder, Options
from parbals_label.encoders.embedding import encoded_rows, prepared_item
from parbals_label.project.embedding import (
    columns_of,
    contents_of,
    fit_table,
    item_pairs,
    number_columns,
    open_encoder,
)
from parbals_label.project.features import GIVEN, TABLE, embed_advice, features_of
from parbals_label.readers.source import Source
from parbals_label.store.settings import ProjectSettings
from parbals_label.store.store import Store

__all__ = ["FittedFeatures", "check_feature_columns", "items_at"]

_EXTRA_ROWS = 256
"""Rows beyond twice the encoder's width from which the affine map is recovered, and checked."""
_TOLERANCE = 1e-3
"""Largest error of the map, relative to the largest feature."""
_ENCODER_BATCH = 32

Item = tuple[str, dict[str, Any]]
"""Id and columns of an item."""


@dataclass(frozen=True)
class FittedFeatures:
    """From items to rows of an encoder (n, D') and features (n, D) of a project.

    Attributes:
        name: the encoder's.
        columns: the columns that it reads.
        encoder: None for numbers, which are taken as they are.
        matrix: W (D', D).
        offset: b (D,).
        table: the encoding of table columns, which are the last part of a row.
    """

    name: str
    columns: tuple[str, ...]
    encoder: Encoder | None
    matrix: np.ndarray
    offset: np.ndarray
    table: TableEncoding | None = None

    @classmethod
    def of(cls, store: Store, options: Options | None = None) -> Self:
        """Load a project's encoder and recover the affine map to its features."""
        settings = store.settings
        features = features_of(store)
        name = settings.encoder or GIVEN
        if name == GIVEN:
            width = features.shape[1]
            return cls(name, (), None, np.eye(width), np.zeros(width))
        unmapped = cls._without_map(store, name, options or Options())
        base = Path(settings.media or ".")
        readable = np.setdiff1d(np.arange(store.n_items), np.array(settings.unreadable, int))
        width = unmapped.encoded(items_at(store, readable[:1]), base).shape[1]
        n_rows = min(len(readable), 2 * width + _EXTRA_ROWS)
        positions = readable[np.linspace(0, len(readable) - 1, n_rows).round().astype(int)]
        rows = unmapped.encoded(items_at(store, positions), base)
        target = np.asarray(features[positions], np.float64)
        if unmapped.table is None:
            matrix, offset = _affine_map(rows, target, diagonal=unmapped.encoder is None)
        else:
            matrix, offset = _affine_map_with_table(rows, target, unmapped.table.width)
        largest_error = np.abs(rows @ matrix + offset - target).max()
        if largest_error > _TOLERANCE * np.abs(target).max():
            raise ProjectError(
                f"The encoder {name} does not make the features that this project has (another "
                f"version may have made them); {embed_advice(store.folder, name)}."
            )
        return replace(unmapped, matrix=matrix, offset=offset)

    @classmethod
    def _without_map(cls, store: Store, name: str, options: Options) -> Self:
        """The encoder and the table, fitted to the project's items; the map is still empty."""
        settings = store.settings
        columns = settings.encoded_columns
        encoder = open_encoder(name, options, settings.encoded_kind, store.folder)
        unfitted = frozenset(settings.unfitted)
        n_fitted = store.n_items - len(unfitted)

        def fitted_items() -> Iterator[Item]:
            for position, item in enumerate(item_pairs(store)):
                if position not in unfitted:
                    yield item

        if encoder is not None:
            base = Path(settings.media or ".")
            contents = contents_of(fitted_items, columns, base, encoder.kind)
            encoder.fit(contents, n_fitted)
        table_columns = columns if name == TABLE else settings.table_columns
        table = None
        if table_columns:
            table = fit_table(fitted_items, n_fitted, table_columns)
        return cls(name, columns, encoder, np.zeros((0, 0)), np.zeros(0), table)

    def encoded(self, items: Sequence[Item], base: Path) -> np.ndarray:
        """(n, D') float64 rows of the encoder; paths of images are relative to ``base``."""
        blocks = [] if self.name == TABLE else [self._encoder_rows(items, base)]
        if self.table is not None:
            cells = columns_of((content for _, content in items), self.table.names)
            blocks.append(self.table.transform(cells).astype(np.float64))
        return np.concatenate(blocks, axis=1)

    def _encoder_rows(self, items: Sequence[Item], base: Path) -> np.ndarray:
        if self.encoder is None:
            return number_columns(items, self.columns)
        contents = contents_of(lambda: iter(items), self.columns, base, self.encoder.kind)
        prepared = [prepared_item(self.encoder, name, content) for name, content in contents()]
        for item in prepared:
            if item.why is not None:
                raise InputError(f"The {item.name} cannot be read: {item.why}.")
        return np.asarray(encoded_rows(self.encoder, prepared, _ENCODER_BATCH), np.float64)

    def features(self, rows: np.ndarray) -> np.ndarray:
        """(n, D) float32 features of the encoder's rows (n, D'), as a project stores them."""
        return (rows @ self.matrix + self.offset).astype(np.float32)


def _affine_map(
    rows: np.ndarray, target: np.ndarray, *, diagonal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """W and b that minimise |rows W + b - target|²; W may be restricted to diagonal matrices."""
    row_mean = rows.mean(axis=0)
    target_mean = target.mean(axis=0)
    centred = rows - row_mean
    centred_target = target - target_mean
    if diagonal:
        squares = np.square(centred).sum(axis=0)
        slopes = (centred * centred_target).sum(axis=0) / np.where(squares > 0, squares, 1.0)
        matrix = np.diag(slopes)
        return matrix, target_mean - row_mean @ matrix
    width = rows.shape[1]
    if target.shape[1] == width:  # rows of a ``reduced`` encoder are only scaled
        scale = float((rows * target).sum() / max(np.square(rows).sum(), 1e-300))
        if np.abs(scale * rows - target).max() <= _TOLERANCE * np.abs(target).max():
            return scale * np.eye(width), np.zeros(width)
    matrix = np.linalg.lstsq(centred, centred_target, rcond=1e-6)[0]
    return matrix, target_mean - row_mean @ matrix


def _affine_map_with_table(
    rows: np.ndarray, target: np.ndarray, n_table: int
) -> tuple[np.ndarray, np.ndarray]:
    """W and b where the last ``n_table`` columns are a table's.

    A table alone is not changed; beside an encoder's rows it is centred and scaled as a whole.
    """
    n_encoded = rows.shape[1] - n_table
    n_mapped = target.shape[1] - n_table
    matrix = np.zeros((rows.shape[1], target.shape[1]))
    offset = np.zeros(target.shape[1])
    if n_mapped <= 0:
        return np.eye(*matrix.shape), offset
    matrix[:n_encoded, :n_mapped], offset[:n_mapped] = _affine_map(
        rows[:, :n_encoded], target[:, :n_mapped], diagonal=False
    )
    cells = rows[:, n_encoded:]
    table_target = target[:, n_mapped:]
    cell_mean = cells.mean(axis=0)
    target_mean = table_target.mean(axis=0)
    centred = cells - cell_mean
    squares = float(np.square(centred).sum())
    scale = float((centred * (table_target - target_mean)).sum()) / (squares or 1.0)
    matrix[n_encoded:, n_mapped:] = scale * np.eye(n_table)
    offset[n_mapped:] = target_mean - scale * cell_mean
    return matrix, offset


def items_at(store: Store, positions: np.ndarray) -> list[Item]:
    """Ids and columns of the project's items at these positions."""
    return [(item.id, item.content) for item in store.items(positions.tolist())]


def check_feature_columns(source: Source, settings: ProjectSettings) -> None:
    """Refuse new data that lack columns of which the project's features are made."""
    if (settings.encoder or GIVEN) == GIVEN:
        width = settings.features.shape[1] if settings.features else 0
        if source.features is None or source.features.shape[1] != width:
            n_columns = "no" if source.features is None else f"{source.features.shape[1]}"
            raise InputError(
                f"{source.name} has {n_columns} columns of features, where the project has "
                f"{width}; give an .npy or .npz file like the one that the project was made from."
            )
    for column in (*settings.encoded_columns, *settings.table_columns):
        if column not in source.columns:
            raise InputError(
                f"{source.name} has no column {column!r}, which the project's features are made "
                f"of; it has {', '.join(source.columns) or 'none'}. Without a header row, name its "
                "columns: --names."
            )
