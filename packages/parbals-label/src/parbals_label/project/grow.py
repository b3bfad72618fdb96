"""Add items to an existing project: all of them with their features, or none.

The features of all items, old and new, are recomputed by the project's encoder, as if the project
had been created from all of them: words, bins and directions are fitted to all items.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from parbals.arrays import block_rows
from parbals.errors import InputError, ShapeError

from parbals_label.encoders.base import Options
from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.scratch import ROWS, scratch
from parbals_label.project.duplicates import find_duplicates, near_duplicate_notes
from parbals_label.project.embedding import (
    EncodedItems,
    encode_grown,
    open_encoder,
    replace_features,
)
from parbals_label.project.features import GIVEN, features_of
from parbals_label.project.media import media_folder
from parbals_label.readers.items import NUMBERED, id_column_of, plan_items
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source, check_column, short
from parbals_label.store.records import ADDED, Submission
from parbals_label.store.settings import ProjectSettings
from parbals_label.store.store import Store

__all__ = ["AddedItems", "add_items"]

_PlannedItems = Iterator[tuple[str, dict[str, Any], str | None]]
"""Id, columns and label of each row."""


@dataclass(frozen=True)
class AddedItems:
    """Summary of what was added.

    Attributes:
        n_items: new items.
        n_labels: labels of new items.
        n_known: rows that were left out because the project has them.
        n_features: columns of the features.
        notes: sentences for people.
    """

    n_items: int
    n_labels: int
    n_known: int
    n_features: int
    notes: tuple[str, ...]


def add_items(
    store: Store,
    data: Path,
    *,
    id_column: str | None = None,
    label: str | None = None,
    new_only: bool = False,
    reading: Mapping[str, Any] | None = None,
    encode_with: Options | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> AddedItems:
    """Add the rows of ``data`` to a project; the columns are those it was created with.

    Args:
        store: the project.
        data: a file or folder.
        id_column: the column that names the items; by default as when the project was created.
        label: the label column; by default likewise.
        new_only: leave out rows whose id the project has; otherwise they are an error. Images of a
            folder are known by their paths, and those the project has are always left out.
        reading: arguments of ``open_source``.
        encode_with: how the encoder is run.
        progress: called with the stage, and how much of it is done.
    """
    settings = store.settings
    options = encode_with or Options()
    n_before = store.n_items
    source = open_source(data, **(reading or {}))
    notes = [*source.notes, *_check_columns(source, settings)]
    encoder = open_encoder(str(settings.encoder), options, settings.encoded_kind, store.folder)
    planned = _plan_rows(store, source, data, settings, id_column, label)
    known_rows = _known_rows(store, source, planned, new_only)

    def new_rows() -> _PlannedItems:
        return (item for row, item in enumerate(planned()) if row not in known_rows)

    def new_items() -> Iterator[tuple[str, dict[str, Any]]]:
        return ((name, content) for name, content, _ in new_rows())

    n_new = sum(1 for _ in new_rows())
    if not n_new:
        n_features = 0 if settings.features is None else settings.features.shape[1]
        return AddedItems(0, 0, len(known_rows), n_features, tuple(notes))
    if settings.encoder == GIVEN:
        rows = [row for row in range(n_new + len(known_rows)) if row not in known_rows]
        encoded = EncodedItems(_append_rows(store, source, rows))
    else:
        encoded = encode_grown(store, n_before, new_items, n_new, encoder, options, progress)
    labels = [
        Submission(n_before + row, label)
        for row, (_, _, label) in enumerate(new_rows())
        if label is not None
    ]

    def store_items() -> None:
        store.log(ADDED, file=data.name, first=n_before, count=n_new, labels=len(labels))
        store.add_items(new_items())
        if labels:
            store.submit(labels, annotator="import", source="import")
        if settings.audit:
            excluded = [*settings.audit_excluded, *range(n_before, n_before + n_new)]
            store.update_settings(audit_excluded=excluded)

    replace_features(store, encoded, settings, store_items)
    if settings.encoded_kind == "text":
        notes += find_duplicates(store, settings.encoded_columns)
    if settings.encoded_kind:
        notes += near_duplicate_notes(store)
    if settings.audit:
        notes.append(f"The test items still measure the error on the first {n_before:,} items.")
    notes += encoded.notes
    return AddedItems(n_new, len(labels), len(known_rows), encoded.n_features, tuple(notes))


def _check_columns(source: Source, settings: ProjectSettings) -> list[str]:
    """Refuse data without the columns of the features; notes about other missing columns."""
    if settings.encoder == GIVEN:
        return []
    for column in (*settings.encoded_columns, *settings.table_columns):
        check_column(source, column)
    missing = [name for name in settings.visible_columns if name not in source.columns]
    return [f"{source.name} has no column {short(name)}; it stays empty." for name in missing]


def _plan_rows(
    store: Store,
    source: Source,
    data: Path,
    settings: ProjectSettings,
    id_column: str | None,
    label: str | None,
) -> Callable[[], _PlannedItems]:
    """A function that iterates over the rows as items, as often as it is called."""
    ids = settings.id_column if id_column is None else id_column
    if ids is None:
        ids = id_column_of(source, label)
    label_column = label or None
    if label_column is None and settings.label_column in source.columns:
        label_column = settings.label_column
    base = media_folder(data)
    media = Path(settings.media or ".")
    image = settings.encoded_columns[0] if settings.encoded_kind == "image" else None
    first_number = store.n_items + 1

    def items() -> _PlannedItems:
        planned = plan_items(
            source,
            id_column=ids,
            label_column=label_column,
            form=store.form,
            former=store.former_classes,
        )
        for row, (name, content, label_text) in enumerate(planned):
            columns = {column: content.get(column) for column in settings.columns}
            if image is not None and base != media and columns[image]:
                columns[image] = _relative_to_media(media, base / str(columns[image]))
            if ids == NUMBERED:
                name = str(first_number + row)
            elif ids == image:
                name = str(columns[image])
            yield name, columns, label_text

    return items


def _relative_to_media(media: Path, path: Path) -> str:
    """The path relative to the project's folder of images; annotators see nothing else."""
    full = Path(os.path.normpath(path))
    if not full.is_relative_to(media):
        raise InputError(
            f"{full} lies outside of {media}, the folder of the project's images; copy it there."
        )
    return full.relative_to(media).as_posix()


def _known_rows(
    store: Store, source: Source, planned: Callable[[], _PlannedItems], new_only: bool
) -> frozenset[int]:
    """Indices of rows that the project has already."""
    if source.kind == "images":
        existing = {item.content.get("image") for item in store.iter_items()}
        return frozenset(
            row for row, (_, content, _) in enumerate(planned()) if content["image"] in existing
        )
    names = [name for name, _, _ in planned()]
    known = store.known_positions(names)
    if known and not new_only:
        name = next(name for name in names if name in known)
        raise InputError(
            f"The id {short(name)} of {source.name} is in the project already, as are "
            f"{len(known):,} of its {len(names):,} rows; add only the others with --new-only."
        )
    return frozenset(row for row, name in enumerate(names) if name in known)


def _append_rows(store: Store, source: Source, rows: list[int]) -> np.ndarray:
    """The project's matrix with some rows of the source's matrix below it."""
    existing = features_of(store)
    matrix = source.features
    if matrix is None or matrix.shape[1] != existing.shape[1]:
        actual = "no matrix" if matrix is None else f"{matrix.shape[1]} columns"
        raise ShapeError(
            f"{source.name} has {actual}, but the project's features have {existing.shape[1]} "
            "columns."
        )
    combined = scratch((len(existing) + len(rows), existing.shape[1]), store.folder)
    for block in block_rows(len(existing), ROWS):
        combined[block] = existing[block]
    appended = combined[len(existing) :]
    for block in block_rows(len(rows), ROWS):
        appended[block] = matrix[rows[block]]
    return combined
