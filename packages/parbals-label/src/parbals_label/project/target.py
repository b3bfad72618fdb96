"""The target set of a project: rows like those that the model will be used on.

Items are chosen for what their labels say about these rows, and the expected error is that on them.
A target set is a file with the project's columns, or a filter that selects items of the pool. It is
checked and encoded before anything is stored. Features of the pool may change (``parbals embed``,
``add``, ``adapt``); those of the target set are then made again by the first learner that needs
them, by the same encoder.

Rows of a file are not items of the project: no page, export or annotator shows them.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.arrays import block_rows
from parbals.errors import InputError, ProjectDamagedError
from parbals.randomness import derive_generator
from parbals.strategies.table import unused_target_sentence

from parbals_label.encoders.base import Options
from parbals_label.encoders.embedding import Progress
from parbals_label.project.features import (
    GIVEN,
    features_of,
    load_features,
    remove_matrices,
    store_features,
)
from parbals_label.project.fitted import FittedFeatures, check_feature_columns
from parbals_label.project.measured import measured_positions
from parbals_label.project.media import media_folder
from parbals_label.project.row_filter import RowFilter, is_filter
from parbals_label.project.target_rows import (
    TargetRow,
    joined_rows,
    read_rows,
    weight_of,
    weighted_sample,
    write_rows,
)
from parbals_label.readers.items import id_column_of, plan_items
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source, check_column
from parbals_label.store.records import TARGET_ADDED, TARGET_REMOVED
from parbals_label.store.rows import utc_now
from parbals_label.store.settings import ProjectSettings, TargetSet
from parbals_label.store.store import Store

__all__ = [
    "MAX_ROWS",
    "AddedTarget",
    "add_target",
    "keep_features",
    "open_target",
    "remove_target",
    "stored_features",
    "target_features",
    "target_items",
]

MAX_ROWS = 20_000
"""Rows of a target set that are stored; more add nothing, because a learner uses 1,000 at once."""
_BLOCK_ROWS = 2_048
_SHOWN_VALUES = 5


@dataclass(frozen=True)
class AddedTarget:
    """Summary of the target set that was added.

    Attributes:
        name: the file's name, or the filter.
        n_rows: rows that were given.
        n_kept: rows that are stored.
        notes: sentences for people.
    """

    name: str
    n_rows: int
    n_kept: int
    notes: tuple[str, ...] = ()


def open_target(target: str | Path, reading: Mapping[str, Any] | None = None) -> Source | None:
    """Open the file or folder of a target set; None if ``target`` is a filter instead."""
    if not Path(target).exists() and is_filter(str(target)):
        return None
    return open_source(Path(target), **(reading or {}))


def add_target(
    store: Store,
    target: str | Path,
    *,
    weights: str | None = None,
    share: float | None = None,
    id_column: str | None = None,
    reading: Mapping[str, Any] | None = None,
    encode_with: Options | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> AddedTarget:
    """Add a target set to a project, in place of an earlier one or beside it.

    Args:
        store: the project.
        target: a file or folder, or a filter on columns of the items: "region = north".
        weights: the column with the weights of the rows; by default all count the same.
        share: of all weight that the new rows get; earlier rows keep the rest. None removes these.
        id_column: the column that names the rows of a file; by default ``id``, if there is one.
        reading: arguments of ``open_source``.
        encode_with: how the encoder is run.
        progress: called with the stage, and how much of it is done.
    """
    settings = store.settings
    pool = features_of(store)
    earlier = None if share is None else _earlier_target(store, share)
    source = open_target(target, reading)
    if source is None and earlier is not None:
        raise InputError(f"--share is for files; {str(target)!r} is a filter, which replaces them.")
    features = None
    if source is None:
        name = str(target)
        rows, n_rows = _filtered_rows(store, name, weights)
    else:
        name = source.name
        check_feature_columns(source, settings)
        rows, n_rows, numbers = _rows_of_file(source, Path(target), settings, weights, id_column)
        matrix = source.features if (settings.encoder or GIVEN) == GIVEN else None
        if matrix is None:
            features = _encode(store, rows, encode_with, progress)
        else:
            features = np.asarray(matrix[numbers], np.float32)
        _check_finite(features, rows, pool.shape[1])
    if not any(row.weight for row in rows):
        raise InputError(f"All weights of {name} are 0; give some rows a weight above 0.")
    columns = tuple(rows[0].content)
    parts: tuple[tuple[str, float], ...] = ()
    if earlier is not None and share is not None and features is not None:
        columns = tuple(column for column in columns if column in earlier.columns)
        parts = _with_part(earlier, name, share)
        name = ", ".join(file for file, _ in parts)
        n_rows += earlier.n_rows
        joined = joined_rows(read_rows(store, earlier), rows, share)
        numbers = _drawn_numbers(len(joined), settings.seed)
        features = np.concatenate([stored_features(store), features])[numbers]
        rows = [joined[number] for number in numbers]
    file, digest = write_rows(store.folder, rows)
    record = TargetSet(
        name=name,
        file=file,
        digest=digest,
        n_rows=n_rows,
        n_kept=len(rows),
        created=utc_now(),
        where=name if source is None else None,
        weights=weights,
        columns=columns,
        parts=parts,
        features=None if features is None else store_features(store.folder, features, "target"),
        pool=_pool_digest(settings),
    )
    with store.transaction():
        before = store.settings.target
        store.log(TARGET_ADDED, name=name, count=n_rows)
        store.update_settings(target=record)
    _remove_files(store, before)
    notes = list(source.notes) if source else []
    notes += filter(None, [unused_target_sentence(settings.strategy)])
    if n_rows > len(rows):
        notes.append(f"A random {len(rows):,} of its {n_rows:,} rows are stored.")
    return AddedTarget(name, n_rows, len(rows), tuple(notes))


def _earlier_target(store: Store, share: float) -> TargetSet:
    """The target set that new rows are added to."""
    target = store.settings.target
    if target is None or target.where is not None:
        raise InputError(
            f"The project in {store.folder} has no target set of rows that others could be added "
            "to; add the first file without --share."
        )
    if not 0.0 < share < 1.0:
        raise InputError(f"--share is {share}; give a number between 0 and 1, such as 0.5.")
    return target


def _with_part(earlier: TargetSet, name: str, share: float) -> tuple[tuple[str, float], ...]:
    """Name and share of each file, the latest first."""
    before = earlier.parts or ((earlier.name, 1.0),)
    rest = [(file, round((1.0 - share) * file_share, 6)) for file, file_share in before]
    return ((name, share), *rest)


def remove_target(store: Store) -> None:
    """Remove the target set; the model is then for items like the pool's."""
    with store.transaction():
        before = store.settings.target
        if before is None:
            raise InputError(f"The project in {store.folder} has no target set.")
        store.log(TARGET_REMOVED, name=before.name)
        store.update_settings(target=None)
    _remove_files(store, before)


def target_features(store: Store) -> np.ndarray | None:
    """Features (M, D) that a learner uses as its target set; None where there is none.

    Weighted rows are resampled. Items of the pool that measure the error are left out, so that no
    choice depends on them, unless no other row is left.
    """
    target = store.settings.target
    if target is None:
        return None
    features, rows = _current(store)
    if target.is_weighted and rows is None:
        rows = read_rows(store, target)
    if rows is None:
        return features
    measured = measured_positions(store) if target.where else frozenset()
    usable = [number for number, row in enumerate(rows) if row.position not in measured]
    usable = [number for number in usable if rows[number].weight] or list(range(len(rows)))
    weights = np.array([rows[number].weight for number in usable])
    return features[np.array(usable)[weighted_sample(weights, store.settings.seed)]]


def stored_features(store: Store) -> np.ndarray:
    """Features (n_kept, D) of the stored rows, made again if those of the pool have changed."""
    return _current(store)[0]


def target_items(store: Store) -> list[TargetRow]:
    """The stored rows, with their columns."""
    target = store.settings.target
    if target is None:
        return []
    rows = read_rows(store, target)
    if target.where is None:
        return rows
    items = store.items([row.position or 0 for row in rows])
    return [replace(row, content=item.content) for row, item in zip(rows, items, strict=True)]


def _current(store: Store) -> tuple[np.ndarray, list[TargetRow] | None]:
    """Features (n_kept, D) of the stored rows, and with a filter the rows."""
    while True:
        target = store.settings.target
        if target is None:
            raise InputError(f"The project in {store.folder} has no target set.")
        try:
            if target.where is None:
                return _features_of_file(store, target), None
            is_current = target.pool == _pool_digest(store.settings)
            rows = read_rows(store, target) if is_current else _filter_again(store, target)
            positions = [row.position or 0 for row in rows]
            return np.asarray(features_of(store)[positions]), rows
        except ProjectDamagedError:
            if store.settings.target == target:  # it was not replaced meanwhile
                raise


def _features_of_file(store: Store, target: TargetSet) -> np.ndarray:
    """Features (n_kept, D) of rows that are not the pool's."""
    settings = store.settings
    if target.features is not None:
        features = load_features(store.folder, target.features)
        if target.pool == _pool_digest(settings):
            return features
    if settings.encoder != GIVEN:
        features = _encode(store, read_rows(store, target), None)
    _save(store, target, lambda: {"features": store_features(store.folder, features, "target")})
    return features


def _filter_again(store: Store, target: TargetSet) -> list[TargetRow]:
    """Select items again, because some were added."""
    rows, n_rows = _filtered_rows(store, target.name, target.weights)

    def changes() -> dict[str, Any]:
        file, digest = write_rows(store.folder, rows)
        return {"file": file, "digest": digest, "n_rows": n_rows, "n_kept": len(rows)}

    _save(store, target, changes)
    return rows


def keep_features(store: Store, target: TargetSet) -> None:
    """State that features of a target set are current although the pool has grown by its rows."""
    with store.transaction():
        current = store.settings.target
        if current is not None and current.file == target.file:
            pool = _pool_digest(store.settings)
            store.update_settings(target=replace(current, pool=pool))


def _save(store: Store, target: TargetSet, changes: Callable[[], dict[str, Any]]) -> None:
    """Store what was made again, unless target set or pool were replaced meanwhile."""
    if store.read_only:
        return
    pool = _pool_digest(store.settings)
    renewed = replace(target, pool=pool, **changes())
    with store.transaction():
        if store.settings.target == target and _pool_digest(store.settings) == pool:
            store.update_settings(target=renewed)
    _remove_files(store, target, renewed)


def _pool_digest(settings: ProjectSettings) -> str:
    return settings.features.digest if settings.features else ""


def _remove_files(store: Store, *targets: TargetSet | None) -> None:
    """Remove the files of target sets that the project does not have any more."""
    current = store.settings.target
    for target in targets:
        if target is None:
            continue
        if current is None or current.file != target.file:
            (store.folder / target.file).unlink(missing_ok=True)
        remove_matrices(store, target.features)


def _encode(
    store: Store,
    rows: list[TargetRow],
    options: Options | None,
    progress: Progress = lambda stage, done, total: None,
) -> np.ndarray:
    """Features (n, D) float32 of rows by the project's encoder."""
    fitted = FittedFeatures.of(store, options)
    base = Path(store.settings.media or ".")
    features = np.empty((len(rows), len(fitted.offset)), np.float32)
    for block in block_rows(len(rows), _BLOCK_ROWS):
        items = [(row.id, row.content) for row in rows[block]]
        features[block] = fitted.features(fitted.encoded(items, base))
        progress("encoding the target set", min(block.stop, len(rows)), len(rows))
    return features


def _check_finite(features: np.ndarray, rows: list[TargetRow], width: int) -> None:
    if features.shape[1] != width:
        raise InputError(
            f"The target set has {features.shape[1]} features, where the project has {width}."
        )
    is_finite = np.isfinite(features).all(axis=1)
    if not is_finite.all():
        row = rows[int(is_finite.argmin())]
        raise InputError(f"Row {row.id!r} of the target set has a feature that is not finite.")


def _rows_of_file(
    source: Source,
    path: Path,
    settings: ProjectSettings,
    weights: str | None,
    id_column: str | None,
) -> tuple[list[TargetRow], int, np.ndarray]:
    """Rows to store, the number of all rows, and the numbers (n,) of those to store."""
    if weights is not None:
        check_column(source, weights)
    ids = id_column_of(source) if id_column is None else id_column
    base = media_folder(path)
    media = Path(settings.media or ".")
    image = settings.encoded_columns[0] if settings.encoded_kind == "image" else None
    columns = [name for name in settings.columns if name in source.columns]

    def rows() -> Iterator[TargetRow]:
        for name, content, _ in plan_items(source, id_column=ids):
            weight = 1.0
            if weights is not None:
                cell_name = f"Row {name!r} of {source.name}, column {weights!r},"
                weight = weight_of(content.get(weights), cell_name)
            cells = {column: content.get(column) for column in columns if column in content}
            if image is not None and base != media and cells.get(image):
                cells[image] = _image_path(media, base / str(cells[image]))
            yield TargetRow(name, cells, weight)

    n_rows = sum(1 for _ in rows())
    numbers = _drawn_numbers(n_rows, settings.seed)
    drawn_numbers = set(numbers.tolist())
    drawn = [row for number, row in enumerate(rows()) if number in drawn_numbers]
    return drawn, n_rows, numbers


def _image_path(media: Path, path: Path) -> str:
    """The path relative to the project's folder of images, or the full one outside of it."""
    full = Path(os.path.normpath(path))
    return full.relative_to(media).as_posix() if full.is_relative_to(media) else str(full)


def _filtered_rows(store: Store, text: str, weights: str | None) -> tuple[list[TargetRow], int]:
    """Rows of the pool that a filter selects, and their number."""
    columns = store.settings.columns
    row_filter = RowFilter.parse(text, columns)
    if weights is not None and weights not in columns:
        raise InputError(
            f"The items have no column {weights!r}; they have {', '.join(columns) or 'none'}."
        )
    rows: list[TargetRow] = []
    values: dict[str, None] = {}
    for item in store.iter_items():
        if row_filter.matches(item.content):
            weight = 1.0
            if weights is not None:
                cell_name = f"Item {item.id!r}, column {weights!r},"
                weight = weight_of(item.content.get(weights), cell_name)
            rows.append(TargetRow(item.id, weight=weight, position=item.position))
        elif not rows and len(values) < _SHOWN_VALUES:
            values[str(item.content.get(row_filter.conditions[0].column))] = None
    if not rows:
        column = row_filter.conditions[0].column
        raise InputError(
            f"No item matches {text!r}; values of {column!r} are {', '.join(values)} and so on."
        )
    numbers = _drawn_numbers(len(rows), store.settings.seed)
    return [rows[number] for number in numbers], len(rows)


def _drawn_numbers(n_rows: int, seed: int) -> np.ndarray:
    """Numbers of the rows to store, in order: all, or a random sample of many."""
    if n_rows <= MAX_ROWS:
        return np.arange(n_rows)
    generator = derive_generator(seed, "target rows")
    return np.sort(generator.choice(n_rows, MAX_ROWS, replace=False))
