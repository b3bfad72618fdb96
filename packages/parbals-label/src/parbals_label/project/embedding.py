"""Features of all items of a project: encoded texts or images, a table, or both side by side.

The encoders are those of :mod:`parbals_label.encoders`, ``columns``, which takes numbers as they
are, and ``table``, which reads numbers, categories, dates and booleans with missing values.
Matrices with a row for each item are stored in files, not in memory.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError, ProjectError
from parbals.features.table import TableEncoding

from parbals_label.encoders.base import Encoder, Items, Kind, Options
from parbals_label.encoders.embedding import Embedded, Progress, embed
from parbals_label.encoders.huggingface import load_folder
from parbals_label.encoders.scratch import ROWS, reduced_rows, scratch, standardised_rows
from parbals_label.encoders.table import AUTO, default_encoder, load_encoder
from parbals_label.encoders.trees import FILE, TableTrees
from parbals_label.project.features import (
    COLUMNS,
    GIVEN,
    TABLE,
    adaptation_record,
    adapted_files,
    is_adapted,
    remove_matrices,
    store_features,
    uses_table_features,
)
from parbals_label.readers.numpy_files import arrays_in
from parbals_label.store.settings import ProjectSettings
from parbals_label.store.store import Store

__all__ = [
    "EncodedItems",
    "Recipe",
    "check_descriptions",
    "columns_of",
    "contents_of",
    "embed_project",
    "encode",
    "encode_grown",
    "fit_table",
    "item_pairs",
    "load_trees",
    "make_features",
    "number_columns",
    "open_adapted",
    "open_encoder",
    "replace_features",
]

_ROW_LENGTH = 3.0
"""Length of encoded rows: with N(0, 1) weights, labels of texts and photos are predicted best at
about this length. Table columns beside them get the same length, so that both have equal weight."""
_MAX_FIT_ROWS = 20_000
"""Rows to which bins and categories of a table are fitted, so that memory stays bounded."""


@dataclass(frozen=True)
class Recipe:
    """How items become features.

    Attributes:
        name: the encoder's, or ``columns`` or ``table``.
        encoder: the loaded encoder; None for ``columns`` and ``table``.
        columns: the columns that it reads.
        table: further columns, whose features are appended.
        base: the folder that paths of images are relative to.
        options: how the encoder is run.
        descriptions: class → sentence; each is encoded like a text of an item.
    """

    name: str
    encoder: Encoder | None
    columns: Sequence[str]
    table: Sequence[str] = ()
    base: Path = Path()
    options: Options = field(default_factory=Options)
    descriptions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, settings: ProjectSettings, name: str, encoder: Encoder | None, options: Options
    ) -> Self:
        """The recipe of a project's columns with an encoder."""
        return cls(
            name=name,
            encoder=encoder,
            columns=settings.encoded_columns,
            table=settings.table_columns,
            base=Path(settings.media or "."),
            options=options,
        )


@dataclass(frozen=True)
class EncodedItems:
    """Features (N, D) float32 of items.

    Attributes:
        features: in a file if there are many items.
        unreadable: positions of items that could not be read; their rows are zero, the mean.
        cache: blocks of rows by which an interrupted run would continue.
        notes: sentences for people.
        described: features (k, D) of descriptions of classes.
        unfitted: positions of items that an encoder which is fitted to items was not fitted to.
    """

    features: np.ndarray
    unreadable: tuple[int, ...] = ()
    cache: Embedded | None = None
    notes: tuple[str, ...] = ()
    described: np.ndarray | None = None
    unfitted: tuple[int, ...] = ()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])

    def discard_cache(self) -> None:
        """Remove the cached blocks; call it when the features are stored."""
        if self.cache is not None:
            self.cache.discard_cache()


def open_encoder(
    name: str, options: Options, kind: Kind | None = None, home: Path | None = None
) -> Encoder | None:
    """Load an encoder; None for ``columns``, ``table`` and given features, which need none.

    ``home`` is the project's folder, where an encoder that was adapted to its labels is stored.
    """
    if name in (COLUMNS, TABLE, GIVEN):
        return None
    if home is not None and is_adapted(name):
        return open_adapted(home / name, options)
    return load_encoder(name, options, kind, (COLUMNS, TABLE))


def open_adapted(folder: Path, options: Options) -> Encoder:
    """Load an adapted encoder, a network or tree features, from its folder in a project.

    Every file is verified first: rows of a changed encoder would not fit the project's features.
    """
    adapted_files(folder.parent, folder.name)
    trees = folder / FILE
    if trees.is_file():
        return load_trees(trees)
    return load_folder(folder, options)


def load_trees(path: Path) -> TableTrees:
    """Load tree features from a file, whose arrays are checked."""
    return TableTrees.from_arrays(arrays_in(path, "a file of trees"), path)


def embed_project(
    store: Store,
    encoder: str,
    columns: list[str] | None,
    progress: Progress,
    *,
    table: list[str] | None = None,
    encode_with: Options | None = None,
) -> EncodedItems:
    """Recompute the features of a project. Labels and batches stay.

    Args:
        store: the project.
        encoder: its name, or ``auto``.
        columns: those to encode; by default the same as before.
        progress: called with the stage, and how much of it is done.
        table: further columns to append to encoded texts or images; by default the same as before.
        encode_with: how the encoder is run.
    """
    settings = store.settings
    options = encode_with or Options()
    name = _default_name(store) if encoder == AUTO else encoder
    encoded_columns = columns or list(settings.encoded_columns or settings.columns)
    table_columns = list(table or settings.table_columns)
    if name in (COLUMNS, TABLE):
        table_columns = []
    existing = settings.columns or encoded_columns
    for column in (*encoded_columns, *table_columns):
        if column not in existing:
            raise InputError(f"The project has no column {column!r}; it has {', '.join(existing)}.")
    target = settings.target
    for column in (*encoded_columns, *table_columns):
        if target is not None and target.where is None and column not in target.columns:
            raise InputError(
                f"The target set {target.name} has no column {column!r}; remove it first: parbals "
                f"target remove {store.folder}."
            )
    # The same columns hold what the previous encoder read; of other columns that is unknown.
    kind = None if columns else settings.encoded_kind
    recipe = Recipe(
        name=name,
        encoder=open_encoder(name, options, kind, store.folder),
        columns=encoded_columns,
        table=table_columns,
        base=Path(settings.media or "."),
        options=options,
    )
    return make_features(store, recipe, progress)


def _default_name(store: Store) -> str:
    """The encoder that ``auto`` stands for in this project."""
    settings = store.settings
    if not uses_table_features(settings):
        return default_encoder(settings.encoded_kind or "text")
    if is_adapted(settings.encoder):
        return str(adaptation_record(store)["base"])
    return str(settings.encoder)


def make_features(store: Store, recipe: Recipe, progress: Progress) -> EncodedItems:
    """Encode the items of a project, and store the features in it.

    They replace the old ones in one step. Predictions from the old features are removed.
    """
    before = store.settings
    check_descriptions(before.descriptions, store.classes, recipe.encoder)
    recipe = replace(recipe, descriptions=before.descriptions)
    encoded = encode(recipe, lambda: item_pairs(store), store.n_items, progress, store.folder)

    def store_recipe() -> None:
        store.update_settings(
            encoder=recipe.name,
            encoded_kind=None if recipe.encoder is None else recipe.encoder.kind,
            encoded_columns=recipe.columns,
            table_columns=recipe.table,
        )

    replace_features(store, encoded, before, store_recipe)
    if before.encoder != recipe.name and is_adapted(before.encoder):
        shutil.rmtree(store.folder / str(before.encoder), ignore_errors=True)
    return encoded


def encode_grown(
    store: Store,
    n_before: int,
    new_items: Callable[[], Iterable[tuple[str, dict[str, Any]]]],
    n_new: int,
    encoder: Encoder | None,
    options: Options,
    progress: Progress,
) -> EncodedItems:
    """Encode a project's items and new ones, as if it had been created with all of them.

    Args:
        store: the project.
        n_before: number of its items.
        new_items: yields (id, columns) of the new items, each time it is called.
        n_new: number of new items.
        encoder: the project's, from :func:`open_encoder`.
        options: how the encoder is run.
        progress: called with the stage, and how much of it is done.
    """
    settings = store.settings

    def all_items() -> Iterator[tuple[str, dict[str, Any]]]:
        yield from islice(item_pairs(store), n_before)  # others may add some meanwhile
        yield from new_items()

    recipe = Recipe.of(settings, str(settings.encoder), encoder, options)
    recipe = replace(recipe, descriptions=settings.descriptions)
    return encode(recipe, all_items, n_before + n_new, progress, store.folder)


def replace_features(
    store: Store, encoded: EncodedItems, before: ProjectSettings, change: Callable[[], object]
) -> None:
    """Store the features of all items and call ``change``, both in one transaction.

    They replace those that the settings ``before`` named; if these are not the project's any more,
    nothing is changed.
    """
    features_file = store_features(store.folder, encoded.features)
    described_file = None
    if encoded.described is not None:
        described_file = store_features(store.folder, encoded.described, name="described")
    with store.transaction():
        predictions = store.settings.predictions  # may be newer than those of ``before``
        is_unchanged = store.settings.features == before.features
        change()
        if store.n_items != len(encoded.features) or not is_unchanged:
            raise ProjectError(
                f"{store.folder} was changed by another program meanwhile; nothing was changed "
                "here, run it again."
            )
        store.update_settings(
            features=features_file,
            described=described_file,
            predictions=None,
            unreadable=list(encoded.unreadable),
            unfitted=list(encoded.unfitted),
        )
    encoded.discard_cache()
    remove_matrices(store, before.features, before.described, predictions)


def check_descriptions(
    descriptions: Mapping[str, str], classes: Sequence[str], encoder: Encoder | None
) -> None:
    """Refuse descriptions of unknown classes, and any where no encoder reads texts."""
    for label in descriptions:
        if label not in classes:
            raise InputError(
                f"The description of {label!r} belongs to no class; the classes are "
                f"{', '.join(classes)}."
            )
    if descriptions and (encoder is None or encoder.kind != "text"):
        raise InputError(
            "Classes can be described only where items are texts: the same encoder reads both."
        )


def item_pairs(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, columns) of every item."""
    for item in store.iter_items():
        yield item.id, item.content


def encode(
    recipe: Recipe,
    items: Items,
    n_items: int,
    progress: Progress = lambda stage, done, total: None,
    workspace: Path | None = None,
) -> EncodedItems:
    """Encode items; ``workspace`` is a folder with room for a second copy of the features."""
    if recipe.name == TABLE:
        return _encode_table(items, n_items, recipe.columns, workspace, progress)
    encoded = _encode_columns(recipe, items, n_items, progress, workspace)
    progress("encoding", n_items, n_items)
    features = encoded.features  # descriptions of classes are the last rows
    if features.shape[1] == 0:
        raise InputError(
            f"The encoder {recipe.name} found nothing to distinguish the items by in "
            f"{', '.join(recipe.columns)}."
        )
    notes: list[str] = []
    n_unreadable = len(encoded.unreadable)
    if n_unreadable:
        notes.append(
            f"{n_unreadable:,} of {n_items:,} items could not be read; their features are blank."
        )
    if recipe.table:
        table = _encode_table(items, n_items, recipe.table, workspace, progress)
        features = _append_table(features, table.features, workspace)
        notes += table.notes
    described = np.array(features[n_items:]) if len(features) > n_items else None
    return replace(encoded, features=features[:n_items], notes=tuple(notes), described=described)


def _encode_columns(
    recipe: Recipe, items: Items, n_items: int, progress: Progress, workspace: Path | None
) -> EncodedItems:
    """Encode the recipe's columns, and descriptions of classes behind the items.

    Rows have length 3 on average. Those of encoders that are not ``reduced`` are first reduced to
    99 % of their variance by PCA.
    """
    encoder = recipe.encoder
    if encoder is None:
        return _standardised_columns(recipe.columns, items, n_items, progress, workspace)
    item_contents = contents_of(items, recipe.columns, recipe.base, encoder.kind)
    encoder.fit(item_contents, n_items)
    descriptions = [
        (f"description of {label!r}", text) for label, text in recipe.descriptions.items()
    ]
    n_rows = n_items + len(descriptions)

    def contents() -> Iterator[tuple[str, Any]]:
        return chain(item_contents(), descriptions)

    if encoder.reduced:
        length = 1.0 if encoder.kind is None else _ROW_LENGTH

        def encode_block(block: list[tuple[str, Any]]) -> np.ndarray:
            return length * encoder.encode([encoder.prepare(item) for _, item in block])

        return EncodedItems(_encode_blocks(contents, n_rows, encode_block, workspace, progress))
    embedded = embed(encoder, recipe.name, contents, n_rows, recipe.options, workspace, progress)
    unreadable = tuple(bad.row for bad in embedded.skipped)
    features = reduced_rows(embedded.rows, _ROW_LENGTH, workspace, unreadable)
    return EncodedItems(features, unreadable, embedded)


def _standardised_columns(
    columns: Sequence[str],
    items: Items,
    n_items: int,
    progress: Progress,
    workspace: Path | None,
) -> EncodedItems:
    """Columns of numbers with mean 0 and standard deviation 1."""

    def encode_block(block: list[tuple[str, Any]]) -> np.ndarray:
        return number_columns(block, columns)

    rows = _encode_blocks(items, n_items, encode_block, workspace, progress, "<f8")
    return EncodedItems(standardised_rows(rows, workspace))


def contents_of(items: Items, columns: Sequence[str], base: Path, kind: Kind | None) -> Items:
    """The input of an encoder for each item, with a name by which a person can find it."""

    def texts() -> Iterator[tuple[str, Any]]:
        for name, content in items():
            yield f"item {name!r}", "\n".join(str(content.get(column) or "") for column in columns)

    def images() -> Iterator[tuple[str, Any]]:
        for name, content in items():
            path = base / str(content.get(columns[0]) or "")
            yield f"image of item {name!r}, {path}", path

    if kind is None:
        return items
    return texts if kind == "text" else images


def _encode_blocks(
    items: Items,
    n_items: int,
    encode_block: Callable[[list[tuple[str, Any]]], np.ndarray],
    workspace: Path | None,
    progress: Progress,
    dtype: str = "<f4",
) -> np.ndarray:
    """Rows (N, D) in a file, encoded some thousand (name, item) at a time."""
    remaining = items()
    n_done = 0
    rows: np.ndarray | None = None
    while block := list(islice(remaining, ROWS)):
        encoded = encode_block(block)
        if rows is None:
            rows = scratch((n_items, encoded.shape[1]), workspace, dtype)
        rows[n_done : n_done + len(block)] = encoded
        release_pages(rows)
        n_done += len(block)
        progress("encoding", n_done, n_items)
    if rows is None:
        raise InputError("There are no items to encode.")
    return rows


def number_columns(
    items: Iterable[tuple[str, dict[str, Any]]], columns: Sequence[str]
) -> np.ndarray:
    """(n, D) float64 of columns of numbers; an error names the first cell that is none."""
    return np.array(
        [[_number(cells.get(column), name, column) for column in columns] for name, cells in items]
    )


def _number(value: Any, name: str, column: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(
            f"Item {name!r}, column {column!r}, is {value!r}, which is not a finite number; leave "
            "the column out, or correct the data and create the project again."
        )
    return number


def fit_table(items: Items, n_items: int, columns: Sequence[str]) -> TableEncoding:
    """Fit bins, categories and means to the items, to 20,000 evenly spaced ones of more."""
    step = max(1, -(-n_items // _MAX_FIT_ROWS))
    sample = columns_of((content for _, content in islice(items(), 0, None, step)), columns)
    return TableEncoding.fit(sample, keep_identifiers=True)


def _encode_table(
    items: Items, n_items: int, columns: Sequence[str], workspace: Path | None, progress: Progress
) -> EncodedItems:
    """Encode columns of a table; the notes are about columns that were left out."""
    encoding = fit_table(items, n_items, columns)

    def encode_block(block: list[tuple[str, Any]]) -> np.ndarray:
        return encoding.transform(columns_of((content for _, content in block), columns))

    rows = _encode_blocks(items, n_items, encode_block, workspace, progress)
    return EncodedItems(rows, notes=encoding.notes)


def _append_table(encoded: np.ndarray, table: np.ndarray, workspace: Path | None) -> np.ndarray:
    """Encoded rows with the table's rows beside them, centred and of the same length.

    Descriptions of classes, the last encoded rows, have no cells: their part is the mean, zero.
    """
    blocks = list(block_rows(len(table), ROWS))
    mean = sum(table[block].sum(axis=0, dtype=np.float64) for block in blocks) / len(table)
    total = sum(float(np.square(table[block] - mean).sum()) for block in blocks)
    factor = _ROW_LENGTH / np.sqrt(total / len(table)) if total else 1.0
    n_encoded = encoded.shape[1]
    rows = scratch((len(encoded), n_encoded + table.shape[1]), workspace)
    rows[len(table) :, :n_encoded] = encoded[len(table) :]
    for block in blocks:
        rows[block, :n_encoded] = encoded[block]
        rows[block, n_encoded:] = (table[block] - mean) * factor
        release_pages(rows)
    return rows


def columns_of(contents: Iterable[dict[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Column → cells; None where an item has no such column.

    >>> columns_of([{"a": 1}, {"a": 2, "b": 3}], ["a", "b"])
    {'a': [1, 2], 'b': [None, 3]}
    """
    table: dict[str, list[Any]] = {name: [] for name in names}
    for content in contents:
        for name, cells in table.items():
            cells.append(content.get(name))
    return table
