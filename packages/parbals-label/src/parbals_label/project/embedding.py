"""The features of a whole project: encoded texts or images, a table, or both side by side."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parbals.errors import InputError

from parbals_label.encoders.base import Encoder, Options
from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.table import AUTO, default_encoder
from parbals_label.project.features import (
    COLUMNS,
    TABLE,
    Encoded,
    Items,
    encode_items,
    open_encoder,
    store_features,
)
from parbals_label.project.table import beside, encode_table
from parbals_label.store.store import Store

__all__ = ["Made", "embed_project", "encode_project", "item_pairs", "make_features"]


@dataclass(frozen=True)
class Made:
    """Features that were made, and what there is to say about them."""

    n_features: int
    notes: tuple[str, ...] = ()


def embed_project(
    store: Store,
    encoder: str,
    columns: list[str] | None,
    progress: Progress,
    *,
    table: list[str] | None = None,
    encode_with: Options | None = None,
) -> Made:
    """Make the features of a project again. Labels and batches stay.

    ``table``: further columns beside encoded texts or images; by default as last time.
    """
    settings = store.settings
    if encoder == AUTO:
        encoder = default_encoder(settings.encoded_kind or "text")
    how = encode_with or Options()
    chosen = columns or list(settings.encoded_columns or settings.columns)
    further = [] if encoder in (COLUMNS, TABLE) else list(table or settings.table_columns)
    known = settings.columns or chosen
    for column in (*chosen, *further):
        if column not in known:
            raise InputError(f"The project has no column {column!r}; it has {', '.join(known)}.")
    # The columns of last time hold what the last encoder could read.
    return make_features(
        store,
        encoder,
        open_encoder(encoder, how, None if columns else settings.encoded_kind),
        chosen,
        further,
        how,
        progress,
    )


def make_features(
    store: Store,
    name: str,
    encoder: Encoder | None,
    columns: list[str],
    table: list[str],
    how: Options,
    progress: Progress,
) -> Made:
    """Encode the items of a project, and keep the features in it."""
    settings = store.settings
    old = settings.features
    encoded = encode_project(
        lambda: item_pairs(store),
        store.n_items,
        name,
        encoder,
        columns,
        table,
        Path(settings.media or "."),
        how,
        progress,
        store.folder,
    )
    written = store_features(store.folder, encoded.features)
    store.update_settings(
        features=written,
        encoder=name,
        encoded_columns=columns,
        table_columns=table,
        encoded_kind=None if encoder is None else encoder.kind,
        unreadable=list(encoded.unreadable),
    )
    encoded.forget()
    if old is not None and old.file != written.file:
        (store.folder / old.file).unlink(missing_ok=True)
    return Made(int(encoded.features.shape[1]), encoded.notes)


def encode_project(
    items: Items,
    n_items: int,
    name: str,
    encoder: Encoder | None,
    columns: list[str],
    table: list[str],
    base: Path,
    how: Options,
    progress: Progress,
    workspace: Path,
) -> Encoded:
    """Features (N, D) of items: ``columns`` by the encoder, and the columns ``table`` beside."""
    if name == TABLE:
        rows, notes = encode_table(items, n_items, columns, workspace, progress)
        return Encoded(rows, notes=notes)
    encoded = encode_items(
        name,
        encoder,
        items,
        n_items,
        columns,
        base,
        progress,
        options=how,
        workspace=workspace,
    )
    notes = ()
    if n_bad := len(encoded.unreadable):
        notes = (f"{n_bad:,} of {n_items:,} items could not be read; their features are blank.",)
    if not table:
        return replace(encoded, notes=notes)
    rows, more = encode_table(items, n_items, table, workspace, progress)
    both = beside(encoded.features, rows, workspace)
    return replace(encoded, features=both, notes=(*notes, *more))


def item_pairs(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, columns) of every item."""
    for item in store.iter_items():
        yield item.id, item.content
