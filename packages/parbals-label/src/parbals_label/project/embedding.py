"""The features of a whole project: encoded texts or images, a table, or both side by side.

Encoders turn the items' columns into rows: those of :mod:`parbals_label.encoders`, ``columns``,
which takes numbers as they are, and ``table``, which reads numbers, categories, dates, yes and no,
with gaps. Whatever grows with the number of items lies in files, not in memory.
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
    is_adapted,
    remove_matrices,
    store_features,
    uses_table_features,
)
from parbals_label.readers.numpy_files import arrays_in
from parbals_label.store.settings import ProjectSettings
from parbals_label.store.store import Store

__all__ = ["EncodedItems", "Recipe", "check_descriptions", "columns_of", "contents_of"]
__all__ += ["embed_project", "encode", "fit_table", "item_pairs", "replace_features"]
__all__ += ["make_features", "number_columns", "open_adapted", "open_encoder"]

_LENGTH = 3.0
"""Length of encoded rows: with N(0, 1) weights, labels of texts and photos are predicted best at
about this length. A table beside them gets it too, so that neither drowns the other."""
_LEARN_FROM = 20_000
"""Rows from which a table's bins and values are learnt: memory must not grow with the items."""


@dataclass(frozen=True)
class Recipe:
    """How items become features.

    Attributes:
        name: the encoder's, or ``columns`` or ``table``, for which ``encoder`` is None.
        columns: what it reads; table: further columns, whose features stand beside.
        base: the folder that paths of images start from.
    """

    name: str
    encoder: Encoder | None
    columns: Sequence[str]
    table: Sequence[str] = ()
    base: Path = Path()
    options: Options = field(default_factory=Options)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Of classes: each becomes a row as a text of the items does."""

    @classmethod
    def of(
        cls, settings: ProjectSettings, name: str, encoder: Encoder | None, options: Options
    ) -> Self:
        """That of a project as it is, by an encoder."""
        columns, table = settings.encoded_columns, settings.table_columns
        return cls(name, encoder, columns, table, Path(settings.media or "."), options)


@dataclass(frozen=True)
class EncodedItems:
    """Features (N, D) float32, in a file if they are many; positions of items not read are listed.

    Such an item's row is zero, the mean of all. ``notes`` are sentences for people, ``described``
    the features (k, D) of classes' descriptions. ``forget`` removes what was kept so that an
    interrupted run could go on; call it when the features are stored.
    """

    features: np.ndarray
    unreadable: tuple[int, ...] = ()
    made: Embedded | None = None
    notes: tuple[str, ...] = ()
    described: np.ndarray | None = None

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    def forget(self) -> None:
        if self.made is not None:
            self.made.forget()


def open_encoder(
    name: str, options: Options, kind: Kind | None = None, home: Path | None = None
) -> Encoder | None:
    """The encoder, loaded; None for ``columns``, ``table`` and given features, which need none.

    ``home``: the project's folder, where one that was adapted to its labels lies.
    """
    if name in (COLUMNS, TABLE, GIVEN):
        return None
    if home is not None and is_adapted(name):
        return open_adapted(home / name, options)
    return load_encoder(name, options, kind, (COLUMNS, TABLE))


def open_adapted(folder: Path, options: Options) -> Encoder:
    """What labels have taught, a network or the trees of a table, in its folder."""
    if (trees := folder / FILE).is_file():
        return TableTrees.from_arrays(arrays_in(trees, "a file of trees"), trees)
    return load_folder(folder, options)


def embed_project(
    store: Store,
    encoder: str,
    columns: list[str] | None,
    progress: Progress,
    *,
    table: list[str] | None = None,
    encode_with: Options | None = None,
) -> EncodedItems:
    """Make the features of a project again. Labels and batches stay.

    ``table``: further columns beside encoded texts or images; by default as last time.
    """
    settings, how = store.settings, encode_with or Options()
    if encoder == AUTO and uses_table_features(settings):
        is_taught = is_adapted(settings.encoder)
        encoder = str(adaptation_record(store)["base"] if is_taught else settings.encoder)
    elif encoder == AUTO:
        encoder = default_encoder(settings.encoded_kind or "text")
    chosen = columns or list(settings.encoded_columns or settings.columns)
    further = [] if encoder in (COLUMNS, TABLE) else list(table or settings.table_columns)
    known = settings.columns or chosen
    for column in (*chosen, *further):
        if column not in known:
            raise InputError(f"The project has no column {column!r}; it has {', '.join(known)}.")
    # The columns of last time hold what the last encoder could read.
    kind = None if columns else settings.encoded_kind
    loaded = open_encoder(encoder, how, kind, store.folder)
    base = Path(settings.media or ".")
    return make_features(store, Recipe(encoder, loaded, chosen, further, base, how), progress)


def make_features(store: Store, recipe: Recipe, progress: Progress) -> EncodedItems:
    """Encode the items of a project, and keep the features in it.

    They take the place of the old ones in one step. Predictions of the old features go with them.
    """
    before = store.settings
    check_descriptions(before.descriptions, store.classes, recipe.encoder)
    recipe = replace(recipe, descriptions=before.descriptions)
    encoded = encode(recipe, lambda: item_pairs(store), store.n_items, progress, store.folder)

    def made_by() -> None:
        columns = {"encoded_columns": recipe.columns, "table_columns": recipe.table}
        kind = None if recipe.encoder is None else recipe.encoder.kind
        store.update_settings(encoder=recipe.name, encoded_kind=kind, **columns)

    replace_features(store, encoded, before, made_by)
    if before.encoder != recipe.name and is_adapted(before.encoder):
        shutil.rmtree(store.folder / str(before.encoder), ignore_errors=True)
    return encoded


def replace_features(
    store: Store, encoded: EncodedItems, before: ProjectSettings, change: Callable[[], object]
) -> None:
    """Store the features of all items, in one step with what else is to ``change``.

    They take the place of those that settings named ``before``.
    """
    written = store_features(store.folder, encoded.features)
    rows = encoded.described
    described = None if rows is None else store_features(store.folder, rows, name="described")
    with store.together():
        predictions = store.settings.predictions  # may have been renewed since the beginning
        is_same = store.settings.features == before.features
        change()
        if store.n_items != len(encoded.features) or not is_same:
            raise ProjectError(
                f"{store.folder} was changed by another program meanwhile; nothing was changed "
                "here, run it again."
            )
        store.update_settings(
            features=written,
            described=described,
            predictions=None,
            unreadable=list(encoded.unreadable),
        )
    encoded.forget()
    remove_matrices(store, before.features, before.described, predictions)


def check_descriptions(
    descriptions: Mapping[str, str], classes: Sequence[str], encoder: Encoder | None
) -> None:
    """Refuse descriptions of what is no class, and those that no encoder can read."""
    for label in descriptions:
        if label not in classes:
            raise InputError(
                f"The description of {label!r} is of no class; they are {', '.join(classes)}."
            )
    if descriptions and (encoder is None or encoder.kind != "text"):
        raise InputError(
            "Classes can be described where items are texts: the same encoder reads both."
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
    """Features (N, D) of items; ``workspace`` is a folder with room for the features once more."""
    if recipe.name == TABLE:
        return _encode_table(items, n_items, recipe.columns, workspace, progress)
    encoded = _encode_columns(recipe, items, n_items, progress, workspace)
    n_rows = len(encoded.features)  # descriptions of classes are the last
    progress("encoding", n_items, n_items)
    if encoded.features.shape[1] == 0:
        raise InputError(
            f"The encoder {recipe.name} found nothing to distinguish the items by in "
            f"{', '.join(recipe.columns)}."
        )
    notes: tuple[str, ...] = ()
    if n_bad := len(encoded.unreadable):
        notes = (f"{n_bad:,} of {n_items:,} items could not be read; their features are blank.",)
    features = encoded.features
    if recipe.table:
        table = _encode_table(items, n_items, recipe.table, workspace, progress)
        features, notes = _beside(features, table.features, workspace), (*notes, *table.notes)
    described = np.array(features[n_items:]) if n_rows > n_items else None
    return replace(encoded, features=features[:n_items], notes=notes, described=described)


def _encode_columns(
    recipe: Recipe, items: Items, n_items: int, progress: Progress, workspace: Path | None
) -> EncodedItems:
    """What the encoder makes of its columns.

    Rows have length 3 on the average. Those of encoders that are not ``reduced`` already are first
    brought to 99 % of their variance by PCA.
    """
    encoder, columns = recipe.encoder, recipe.columns
    if encoder is None:
        rows = _made_rows(
            items, n_items, lambda part: number_columns(part, columns), workspace, progress, "<f8"
        )
        return EncodedItems(standardised_rows(rows, workspace))
    own = contents_of(items, columns, recipe.base, encoder.kind)
    encoder.fit(own, n_items)
    told = [(f"description of {label!r}", text) for label, text in recipe.descriptions.items()]
    n_items += len(told)

    def contents() -> Iterator[tuple[str, Any]]:
        return chain(own(), told)

    if encoder.reduced:
        length = 1.0 if encoder.kind is None else _LENGTH

        def make(part: list[tuple[str, Any]]) -> np.ndarray:
            return length * encoder.encode([encoder.prepare(item) for _, item in part])

        return EncodedItems(_made_rows(contents, n_items, make, workspace, progress))
    made = embed(encoder, recipe.name, contents, n_items, recipe.options, workspace, progress)
    unreadable = tuple(bad.row for bad in made.skipped)
    return EncodedItems(reduced_rows(made.rows, _LENGTH, workspace, unreadable), unreadable, made)


def contents_of(items: Items, columns: Sequence[str], base: Path, kind: Kind | None) -> Items:
    """What an encoder reads of each item, under the name a person would look for."""

    def texts() -> Iterator[tuple[str, Any]]:
        for name, content in items():
            yield f"item {name!r}", "\n".join(str(content.get(column) or "") for column in columns)

    def images() -> Iterator[tuple[str, Any]]:
        for name, content in items():
            path = base / str(content.get(columns[0]) or "")
            yield f"image of item {name!r}, {path}", path

    return items if kind is None else texts if kind == "text" else images


def _made_rows(
    items: Items,
    n_items: int,
    make: Callable[[list[tuple[str, Any]]], np.ndarray],
    workspace: Path | None,
    progress: Progress,
    dtype: str = "<f4",
) -> np.ndarray:
    """Rows (N, D) in a file: what ``make`` makes of some thousand (name, item) at a time."""
    walk, done, rows = items(), 0, None
    while part := list(islice(walk, ROWS)):
        made = make(part)
        rows = scratch((n_items, made.shape[1]), workspace, dtype) if rows is None else rows
        rows[done : done + len(part)] = made
        release_pages(rows)
        done += len(part)
        progress("encoding", done, n_items)
    if rows is None:
        raise InputError("There are no items to encode.")
    return rows


def number_columns(
    items: Iterable[tuple[str, dict[str, Any]]], columns: Sequence[str]
) -> np.ndarray:
    """(n, D) float64: columns of numbers as they are."""
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
            "the column out, or correct the data and make the project again."
        )
    return number


def fit_table(items: Items, n_items: int, columns: Sequence[str]) -> TableEncoding:
    """Bins, values and means of the items, of 20,000 evenly spread where there are more."""
    step = max(1, -(-n_items // _LEARN_FROM))
    sample = columns_of((content for _, content in islice(items(), 0, None, step)), columns)
    return TableEncoding.fit(sample, is_asked_for=True)


def _encode_table(
    items: Items, n_items: int, columns: Sequence[str], workspace: Path | None, progress: Progress
) -> EncodedItems:
    """Features (N, D) float32 in a file, and what is to be said about the columns."""
    encoding = fit_table(items, n_items, columns)

    def make(part: list[tuple[str, Any]]) -> np.ndarray:
        return encoding.transform(columns_of((content for _, content in part), columns))

    return EncodedItems(_made_rows(items, n_items, make, workspace, progress), notes=encoding.notes)


def _beside(encoded: np.ndarray, table: np.ndarray, workspace: Path | None) -> np.ndarray:
    """Both side by side; the table's rows are centred and get the length that encoded rows have.

    Descriptions of classes, the last encoded rows, have no cells: theirs are the mean, zero.
    """
    blocks = list(block_rows(len(table), ROWS))
    centre = sum(table[block].sum(axis=0, dtype=np.float64) for block in blocks) / len(table)
    total = sum(float(np.square(table[block] - centre).sum()) for block in blocks)
    factor = _LENGTH / np.sqrt(total / len(table)) if total else 1.0
    n_encoded = encoded.shape[1]
    rows = scratch((len(encoded), n_encoded + table.shape[1]), workspace)
    rows[len(table) :, :n_encoded] = encoded[len(table) :]
    for block in blocks:
        rows[block, :n_encoded] = encoded[block]
        rows[block, n_encoded:] = (table[block] - centre) * factor
        release_pages(rows)
    return rows


def columns_of(contents: Iterable[dict[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Name → cells; None where an item has none."""
    table: dict[str, list[Any]] = {name: [] for name in names}
    for content in contents:
        for name, cells in table.items():
            cells.append(content.get(name))
    return table
