"""Features of a project: a memory-mapped float32 matrix beside the database.

Encoders turn the items' columns into rows of it: those of :mod:`parbals_label.encoders`, of
which ``words`` (text) and ``shapes`` (images) need nothing else, and ``columns``, which takes
numbers as they are; ``table`` is in :mod:`parbals_label.project.table`. ``given`` is a matrix the
user already had. Whatever grows with the number of items lies in files, not in memory.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from parbals.arrays import release_pages
from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals.files import TEMPORARY_SUFFIX, cache_folder

from parbals_label.encoders.base import Encoder, Kind, Options, slug
from parbals_label.encoders.embedding import Progress, embed
from parbals_label.encoders.row_file import sidecar_path
from parbals_label.encoders.scratch import ROWS, reduced_rows, scratch, standardised_rows
from parbals_label.encoders.table import load_encoder
from parbals_label.store.folder import file_mode
from parbals_label.store.settings import MatrixFile
from parbals_label.store.store import Store

__all__ = [
    "Encoded",
    "embed_advice",
    "encode_items",
    "features_of",
    "load_features",
    "open_encoder",
    "store_features",
]

COLUMNS, TABLE = "columns", "table"
GIVEN = "given"
"""The matrix came with the data."""
_LENGTH = 3.0
"""Length of encoded rows: with N(0, 1) weights, labels of texts and photos are predicted best at
about this length."""
_FORGOTTEN_AFTER = 30 * 24 * 3600


class Items(Protocol):
    """Items of a project, which can be gone through more than once."""

    def __call__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(id, columns) of every item, in order."""


@dataclass(frozen=True)
class Encoded:
    """Features (N, D) float32, in a file if they are many; positions of items not read are listed.

    Such an item's row is zero, the mean of all. ``notes`` are sentences for people. ``forget``
    removes what was kept so that an interrupted run could go on; call it when the features are
    stored.
    """

    features: np.ndarray
    unreadable: tuple[int, ...] = ()
    cached: Path | None = None
    notes: tuple[str, ...] = ()

    def forget(self) -> None:
        if self.cached is not None:
            for path in (self.cached, sidecar_path(self.cached)):
                path.unlink(missing_ok=True)


def open_encoder(name: str, options: Options, kind: Kind | None = None) -> Encoder | None:
    """The encoder, loaded; None for ``columns`` and ``table``, which need none."""
    if name in (COLUMNS, TABLE):
        return None
    return load_encoder(name, options, kind, (COLUMNS, TABLE))


def encode_items(
    name: str,
    encoder: Encoder | None,
    items: Items,
    n_items: int,
    columns: list[str],
    base: Path,
    progress: Progress,
    *,
    options: Options | None = None,
    workspace: Path | None = None,
) -> Encoded:
    """Encode the given columns; ``workspace`` is a folder with room for the features once more.

    Rows have length 3 on the average. Those of encoders that are not ``reduced`` already are first
    brought to 99 % of their variance by PCA; they are written to parbals' cache, where an
    interrupted run finds them again.
    """
    if encoder is None:
        encoded = Encoded(_numbers(items, n_items, columns, workspace, progress))
    elif encoder.reduced:
        encoded = Encoded(
            _reduced(
                encoder, _contents(items, columns, base, encoder.kind), n_items, workspace, progress
            )
        )
    else:
        contents = _contents(items, columns, base, encoder.kind)
        encoder.fit(contents, n_items)
        # The same data, encoded again: where an interrupted run, or one that was refused, goes on.
        parts = [encoder.model, str(base.resolve()), str(n_items), *columns]
        key = hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
        target = cache_folder() / "embeddings" / f"{slug(name)[:60]}-{key}.npy"
        _sweep(target.parent)
        made = embed(encoder, name, contents, n_items, target, options, progress=progress)
        unreadable = tuple(row for row, _ in made.skipped)
        rows = reduced_rows(
            np.load(target, mmap_mode="r", allow_pickle=False), _LENGTH, workspace, unreadable
        )
        encoded = Encoded(rows, unreadable, target)
    progress("encoding", n_items, n_items)
    if encoded.features.shape[1] == 0:
        raise InputError(
            f"The encoder {name} found nothing to distinguish the items by in {', '.join(columns)}."
        )
    return encoded


def _contents(
    items: Items, columns: list[str], base: Path, kind: Kind
) -> Callable[[], Iterator[tuple[str, Any]]]:
    """What an encoder reads of each item, under the name a person would look for."""

    def texts() -> Iterator[tuple[str, Any]]:
        for name, content in items():
            yield f"item {name!r}", "\n".join(str(content.get(column) or "") for column in columns)

    def images() -> Iterator[tuple[str, Any]]:
        for name, content in items():
            path = base / str(content.get(columns[0]) or "")
            yield f"image of item {name!r}, {path}", path

    return texts if kind == "text" else images


def _reduced(
    encoder: Encoder,
    contents: Any,
    n_items: int,
    workspace: Path | None,
    progress: Progress,
) -> np.ndarray:
    """Rows of an encoder that learns from the items itself, of length 3 on the average."""
    encoder.fit(contents, n_items)
    walk, done = contents(), 0
    rows = None
    while block := [encoder.prepare(item) for _, item in islice(walk, ROWS)]:
        codes = encoder.encode(block)
        rows = scratch((n_items, codes.shape[1]), workspace) if rows is None else rows
        rows[done : done + len(block)] = _LENGTH * codes
        release_pages(rows)
        done += len(block)
        progress("encoding", done, n_items)
    if rows is None:
        raise InputError("There are no items to encode.")
    return rows


def _numbers(
    items: Items,
    n_items: int,
    columns: list[str],
    workspace: Path | None,
    progress: Progress,
) -> np.ndarray:
    """Numbers as they are, each column scaled to mean 0 and deviation 1."""
    rows = scratch((n_items, len(columns)), workspace, "<f8")
    for done, (name, content) in enumerate(items()):
        if done % ROWS == 0:
            progress("encoding", done, n_items)
            release_pages(rows)
        for place, column in enumerate(columns):
            rows[done, place] = _number(content.get(column), name, column)
    return standardised_rows(rows, workspace)


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


def _sweep(folder: Path) -> None:
    """Rows of projects that were given up: nobody came back for them in a month."""
    for path in folder.glob("*.npy*") if folder.is_dir() else ():
        if path.stat().st_mtime < time.time() - _FORGOTTEN_AFTER:
            path.unlink(missing_ok=True)


def store_features(folder: Path, features: np.ndarray, name: str = "features") -> MatrixFile:
    """Write a matrix, row block by row block; what the project must remember of it."""
    digest = hashlib.blake2b(digest_size=16)
    temporary = folder / f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    try:
        with open(temporary, "xb") as file:
            os.chmod(temporary, file_mode(folder))
            header = {"descr": "<f4", "fortran_order": False, "shape": features.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(features), ROWS):
                block = np.ascontiguousarray(features[start : start + ROWS], "<f4")
                if not np.isfinite(block).all():
                    row, column = np.argwhere(~np.isfinite(block))[0]
                    raise InputError(
                        f"Feature {column} of item {start + row} is {block[row, column]}, not "
                        "finite."
                    )
                digest.update(block.tobytes())
                file.write(block.tobytes())
                release_pages(features)
            file.flush()
            os.fsync(file.fileno())
        file_name = f"{name}-{digest.hexdigest()[:12]}.npy"
        os.replace(temporary, folder / file_name)
    finally:
        temporary.unlink(missing_ok=True)
    return MatrixFile(file_name, digest.hexdigest(), features.shape)


def embed_advice(folder: Path, encoder: str | None) -> str:
    """How features that are missing or damaged are made again."""
    if encoder == GIVEN:
        return (
            "put back a copy, or make the project again with `parbals init` (its features came "
            "with the data)"
        )
    return f"run `parbals embed {folder} --encoder {encoder or 'NAME'}` to make the features again"


def _advice(folder: Path, file: str, encoder: str | None) -> str:
    if file.startswith("predictions-"):
        return f"run `parbals export {folder} --renew` to predict again"
    if file.startswith("map-"):
        return "remove it, and the labelling page makes it again"
    return embed_advice(folder, encoder)


def features_of(store: Store) -> np.ndarray:
    """The features (N, D) of a project, memory-mapped."""
    settings = store.settings
    if settings.features is None:
        raise ProjectError(
            f"This project has no features yet; {embed_advice(store.folder, settings.encoder)}."
        )
    return load_features(store.folder, settings.features, encoder=settings.encoder)


def load_features(
    folder: Path, matrix: MatrixFile, *, verify: bool = False, encoder: str | None = None
) -> np.ndarray:
    """The memory-mapped matrix; with ``verify`` every byte is compared with what was written.

    ``encoder`` is the project's own, for the advice in an error.
    """
    path = folder / matrix.file
    advice = _advice(folder, matrix.file, encoder)
    try:
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ProjectDamagedError(f"{path} is missing; {advice}.") from None
    except (ValueError, OSError, EOFError) as error:
        raise ProjectDamagedError(f"{path} is damaged ({error}); {advice}.") from None
    if features.shape != matrix.shape or features.dtype != np.dtype("<f4"):
        raise ProjectDamagedError(f"{path} has another shape than was written; {advice}.")
    if verify:
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, len(features), ROWS):
            digest.update(np.ascontiguousarray(features[start : start + ROWS]).tobytes())
            release_pages(features)
        if digest.hexdigest() != matrix.digest:
            raise ProjectDamagedError(f"{path} is not what was written; {advice}.")
    return features
