"""More items for a project that is there already: all of them with their features, or none.

The features of all items, old and new, are made again by the project's encoder, as if the project
had been made of all of them: words, bins and directions are learnt from what there is to label.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from parbals.arrays import block_rows
from parbals.errors import InputError, ShapeError

from parbals_label.encoders.base import Options
from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.scratch import ROWS, scratch
from parbals_label.project.copies import find_duplicates, near_duplicate_notes
from parbals_label.project.create import media_folder
from parbals_label.project.embedding import (
    EncodedItems,
    Recipe,
    encode,
    item_pairs,
    open_encoder,
    replace_features,
)
from parbals_label.project.features import GIVEN, features_of
from parbals_label.readers.items import NUMBERED, id_column_of, plan_items
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source, check_column, short
from parbals_label.store.records import ADDED, Submission
from parbals_label.store.settings import ProjectSettings
from parbals_label.store.store import Store

__all__ = ["Added", "add_items"]

_Planned = Iterator[tuple[str, dict[str, Any], str | None]]


@dataclass(frozen=True)
class Added:
    """What was added, how many rows were left out because they are there already, and notes."""

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
) -> Added:
    """Read ``data`` into the project; columns are those that it was made with.

    Rows whose id the project has are refused, or with ``new_only`` left out. Images of a folder are
    known by their paths, and those that are there are always left out.
    """
    settings, how = store.settings, encode_with or Options()
    n_before, old = store.n_items, settings.features
    source = open_source(data, **(reading or {}))
    notes = [*source.notes, *_check_columns(source, settings)]
    encoder = open_encoder(str(settings.encoder), how, settings.encoded_kind, store.folder)
    planned = _plan(store, source, data, settings, id_column, label)
    known = _known(store, source, planned, new_only)

    def everything() -> Iterator[tuple[str, dict[str, Any]]]:
        yield from islice(item_pairs(store), n_before)  # others may add some meanwhile
        yield from ((name, content) for name, content, _ in new())

    def new() -> _Planned:
        return (row for place, row in enumerate(planned()) if place not in known)

    n_new = sum(1 for _ in new())
    if not n_new:
        return Added(0, 0, len(known), 0 if old is None else old.shape[1], tuple(notes))
    if settings.encoder == GIVEN:
        kept = [place for place in range(n_new + len(known)) if place not in known]
        encoded = EncodedItems(_stacked(store, source, kept))
    else:
        recipe = Recipe.of(settings, str(settings.encoder), encoder, how)
        recipe = replace(recipe, descriptions=settings.descriptions)
        encoded = encode(recipe, everything, n_before + n_new, progress, store.folder)
    labels = [
        Submission(n_before + place, label)
        for place, (_, _, label) in enumerate(new())
        if label is not None
    ]

    def add() -> None:
        store.log(ADDED, file=data.name, first=n_before, count=n_new, labels=len(labels))
        store.add_items((name, content) for name, content, _ in new())
        if labels:
            store.submit(labels, annotator="import", source="import")

    replace_features(store, encoded, settings, add)
    if settings.encoded_kind == "text":
        notes += find_duplicates(store, settings.encoded_columns)
    notes += near_duplicate_notes(store) if settings.encoded_kind else []
    if settings.audit:
        notes.append(f"The audit still measures the error on the first {n_before:,} items.")
    notes += encoded.notes
    return Added(n_new, len(labels), len(known), encoded.n_features, tuple(notes))


def _check_columns(source: Source, settings: ProjectSettings) -> list[str]:
    """The columns that features are made of must be there; of others a note says so."""
    if settings.encoder == GIVEN:
        return []
    needed = [*settings.encoded_columns, *settings.table_columns]
    for column in needed:
        check_column(source, column)
    missing = [name for name in settings.visible_columns if name not in source.columns]
    return [f"{source.name} has no column {short(name)}; it stays empty." for name in missing]


def _plan(
    store: Store,
    source: Source,
    data: Path,
    settings: ProjectSettings,
    id_column: str | None,
    label: str | None,
) -> Callable[[], _Planned]:
    """The rows as (id, content, label), to be walked more than once."""
    ids = settings.id_column if id_column is None else id_column
    ids = id_column_of(source, label) if ids is None else ids
    label = label or (settings.label_column if settings.label_column in source.columns else None)
    base, media = media_folder(data), Path(settings.media or ".")
    image = settings.encoded_columns[0] if settings.encoded_kind == "image" else None
    first = store.n_items + 1

    def rows() -> _Planned:
        planned = plan_items(
            source, id_column=ids, label_column=label, form=store.form, former=store.former_classes
        )
        for place, (name, content, given) in enumerate(planned):
            kept = {column: content.get(column) for column in settings.columns}
            if image is not None and base != media and kept[image]:
                kept[image] = _inside(media, base / str(kept[image]))
            if ids == image:
                name = str(kept[image])
            yield (str(first + place) if ids == NUMBERED else name), kept, given

    return rows


def _inside(media: Path, path: Path) -> str:
    """The path from the project's folder of images; annotators see nothing outside of it."""
    full = Path(os.path.normpath(path))
    if not full.is_relative_to(media):
        raise InputError(
            f"{full} lies outside of {media}, the folder of the project's images; copy it there."
        )
    return full.relative_to(media).as_posix()


def _known(
    store: Store, source: Source, planned: Callable[[], _Planned], new_only: bool
) -> frozenset[int]:
    """Which rows (by place) are items already."""
    if source.kind == "images":
        there = {item.content.get("image") for item in store.iter_items()}
        return frozenset(
            place for place, (_, content, _) in enumerate(planned()) if content["image"] in there
        )
    names = [name for name, _, _ in planned()]
    known = store.known_positions(names)
    if known and not new_only:
        name = next(name for name in names if name in known)
        raise InputError(
            f"The id {short(name)} of {source.name} is in the project already, as are "
            f"{len(known):,} of its {len(names):,} rows; add only the others with --new-only."
        )
    return frozenset(place for place, name in enumerate(names) if name in known)


def _stacked(store: Store, source: Source, kept: list[int]) -> np.ndarray:
    """The project's own matrix with rows of another below it."""
    above, below = features_of(store), source.features
    if below is None or below.shape[1] != above.shape[1]:
        found = "no matrix" if below is None else f"{below.shape[1]} columns"
        raise ShapeError(
            f"{source.name} has {found}, but the project's features have {above.shape[1]} columns."
        )
    rows = scratch((len(above) + len(kept), above.shape[1]), store.folder)
    for block in block_rows(len(above), ROWS):
        rows[block] = above[block]
    for block in block_rows(len(kept), ROWS):
        rows[len(above) :][block] = below[kept[block]]
    return rows
