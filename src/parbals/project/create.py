"""A new project from a user's data: items, first labels and features, all or nothing."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parbals.errors import InputError, ProjectError
from parbals.features.encoders.base import Encoder, Kind, Options
from parbals.features.encoders.embedding import Progress
from parbals.learner.audit import draw_audit
from parbals.learner.metric import METRICS
from parbals.project.features import (
    COLUMNS,
    GIVEN,
    encode_items,
    open_encoder,
    store_features,
)
from parbals.readers.items import classes_in, id_column_of, plan_items
from parbals.readers.numbers import feature_blocks
from parbals.readers.open import open_source
from parbals.readers.source import Source
from parbals.store.records import Submission
from parbals.store.store import Store

__all__ = ["Created", "Roles", "create_project", "embed_project"]


@dataclass(frozen=True)
class Roles:
    """Which columns are what; empty where the data tell. The ``id`` "" numbers the rows."""

    text: tuple[str, ...] = ()
    image: str | None = None
    features: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Created:
    """What a new project holds."""

    n_items: int
    n_labels: int
    n_features: int
    classes: tuple[str, ...]
    encoder: str
    encoding: str | None
    id_column: str | None
    """None where the items are named by the numbers of their rows."""
    n_audit: int = 0


def create_project(
    folder: Path,
    data: Path,
    roles: Roles,
    classes: list[str] | None,
    settings: dict[str, Any],
    *,
    audit: int = 0,
    encoder: str | None = None,
    encoding: str | None = None,
    split: str | None = None,
    encode_with: Options | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Created:
    """Read ``data`` into a new project; the folder appears only when everything is in it.

    An ``audit`` of so many items is drawn from those without a label. ``encode_with`` says how the
    encoder is run. If it is interrupted while it encodes, the same call goes on with the rows that
    were done.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{folder} is not empty; choose a new folder for the project.")
    source = open_source(data, encoding=encoding, split=split)
    known, columns = _encoder(source, roles, encoder)
    how = encode_with or Options()
    # Before a million rows are read: is the encoder there, and does it read what it will be given?
    loaded = None if known == GIVEN else open_encoder(known, how, _kind(source, roles))
    if classes is None:
        if roles.label is None:
            raise InputError(
                "Which classes are there? Name them: --classes spam,ham (or --label with a label "
                "column)."
            )
        classes = classes_in(source, roles.label)
    if settings.get("find") not in (None, *classes):
        raise InputError(
            f"{settings['find']!r}, which is to be found, is not one of the classes: "
            f"{', '.join(classes)}."
        )
    if known == COLUMNS:
        for _ in feature_blocks(source, columns):  # here a bad cell still has a row and a file
            pass
    # Never numbers in silence where there are ids: labels told by id would go to the wrong items.
    roles = replace(roles, id=id_column_of(source, roles.label) if roles.id is None else roles.id)
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = folder.with_name(f".{folder.name}.{os.getpid()}.building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        remembered = {"prior_scale": "auto", "loss": METRICS["accuracy"], **settings}
        remembered |= {"data": str(data.resolve()), "encoder": known}
        remembered |= {"encoded_columns": columns, "media": _media(source, data)}
        with Store.create(building, classes=classes, settings=remembered) as store:
            labels = _fill(store, source, roles, classes, progress)
            if audit:
                taken = list(store.votes())
                drawn = draw_audit(store.n_items, audit, store.settings.seed, taken)
                store.update_settings(audit=drawn.tolist())
            # What people see when they label: everything but the id and the label.
            store.update_settings(columns=list(store.items([0])[0].content))
            if source.features is not None and known == GIVEN:
                store.update_settings(features=store_features(store.folder, source.features))
                features = int(source.features.shape[1])
            else:
                features = _embed(store, known, loaded, columns, how, progress)
            created = Created(
                store.n_items,
                labels,
                features,
                store.classes,
                known,
                source.encoding,
                roles.id or None,
                len(store.settings.audit),
            )
        if folder.exists():
            folder.rmdir()
        os.rename(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return created


def embed_project(
    store: Store,
    encoder: str,
    columns: list[str] | None,
    progress: Progress,
    *,
    encode_with: Options | None = None,
) -> int:
    """Make the features of a project again; their number. Labels and batches stay."""
    settings = store.settings
    how = encode_with or Options()
    chosen = columns or list(settings.encoded_columns or settings.columns)
    known = settings.columns or chosen
    for column in chosen:
        if column not in known:
            raise InputError(f"The project has no column {column!r}; it has {', '.join(known)}.")
    # The columns of last time hold what the last encoder could read.
    return _embed(
        store,
        encoder,
        open_encoder(encoder, how, None if columns else settings.encoded_kind),
        chosen,
        how,
        progress,
    )


def _embed(
    store: Store,
    name: str,
    encoder: Encoder | None,
    columns: list[str],
    how: Options,
    progress: Progress,
) -> int:
    settings = store.settings
    old = settings.features
    encoded = encode_items(
        name,
        encoder,
        lambda: _pairs(store),
        store.n_items,
        columns,
        Path(settings.media or "."),
        progress,
        options=how,
        workspace=store.folder,
    )
    written = store_features(store.folder, encoded.features)
    store.update_settings(
        features=written,
        encoder=name,
        encoded_columns=columns,
        encoded_kind=None if encoder is None else encoder.kind,
        unreadable=list(encoded.unreadable),
    )
    encoded.forget()
    if old is not None and old.file != written.file:
        (store.folder / old.file).unlink(missing_ok=True)
    return int(encoded.features.shape[1])


def _kind(source: Source, roles: Roles) -> Kind | None:
    """What the encoded columns hold, where that is known already."""
    if roles.text:
        return "text"
    return "image" if roles.image or (source.kind == "images" and not roles.features) else None


def _encoder(source: Source, roles: Roles, encoder: str | None) -> tuple[str, list[str]]:
    """How items become features, and from which columns."""
    for column in (*roles.text, *roles.features, *([roles.image] if roles.image else [])):
        if column not in source.columns:
            raise InputError(
                f"{source.name} has no column {column!r}; it has "
                f"{', '.join(source.columns) or 'none'}."
            )
    if roles.text:
        return encoder or "tfidf", list(roles.text)
    if roles.image:
        return encoder or "pixels", [roles.image]
    if roles.features:
        return encoder or "columns", list(roles.features)
    if source.features is not None:
        return GIVEN, []
    if source.kind == "images":
        return encoder or "pixels", ["image"]
    others = [name for name in source.columns if name not in (roles.label, roles.id, "id", "ID")]
    if len(others) == 1:
        return encoder or "tfidf", others
    raise InputError(
        f"Which column of {source.name} tells the items apart? Say --text, --image or --features "
        f"with some of: {', '.join(others) or ', '.join(source.columns)}."
    )


def _fill(
    store: Store, source: Source, roles: Roles, classes: list[str], progress: Progress
) -> int:
    labels: list[Submission] = []

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        planned = plan_items(source, id_column=roles.id, label_column=roles.label, classes=classes)
        for position, (name, content, label) in enumerate(planned):
            if label is not None:
                labels.append(Submission(position, label))
            if position % 1000 == 0:
                progress("reading", position, source.n_rows)
            yield name, content

    store.add_items(rows())
    if labels:
        store.submit(labels, annotator="import", source="import")
    return len(labels)


def _pairs(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in store.iter_items():
        yield item.id, item.content


def _media(source: Source, data: Path) -> str:
    """The folder that image paths are relative to."""
    return str((data if data.is_dir() else data.parent).resolve())
