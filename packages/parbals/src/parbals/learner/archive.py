"""A learner in one file: a zip of one JSON document and plain arrays.

No pickle; nothing in it can run.

    learner.json    format, version, settings, classes, ids, and the history of every item
    X_pool.npy      features as the model sees them, unless left out
    X_target.npy
    encoding.npy    the directions of sparse rows or of words, if there are any

Written whole or not at all; every member carries the checksum of the zip format, verified on
loading. Members are stored as they are, so that a file from somebody else takes no more memory than
its own size: one that is compressed is refused.
"""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.features.frames import restored, stored
from parbals.files import replacing
from parbals.learner.features import FeatureTable
from parbals.learner.ledger import Event
from parbals.learner.state import Setup
from parbals.npy import read_header
from parbals.randomness import table_digest

__all__ = ["Saved", "read_learner", "write_learner"]

_FORMAT, _VERSION = "parbals-learner", 1
_SETTINGS = (
    *("strategy", "metric", "options", "n_samples", "prior_scale", "inference", "n_universes"),
    *("standardise", "pca", "n_candidates", "n_targets"),
)
_ROWS = 16_384


@dataclass(frozen=True)
class Saved:
    """What a file holds: arguments of the learner, what happened, and digests of its features."""

    path: Path
    arguments: dict[str, Any]
    events: list[Event]
    digests: dict[str, str | None]
    columns: list[str] | None

    def check(self, setup: Setup) -> None:
        """Refuse features that are not those that were saved; give the pool its column names."""
        for name, table in (("pool", setup.pool), ("target", setup.target)):
            if table is not None and _digest(table) != self.digests[name]:
                raise InputError(
                    f"The features of the {name} are not those that {self.path} was saved with."
                )
        if setup.pool.names is None and self.columns is not None:
            setup.pool.names = tuple(self.columns)


def write_learner(
    path: Path,
    setup: Setup,
    ids: list[Any] | None,
    events: Sequence[Event],
    include_features: bool,
) -> None:
    """Write a learner; a file that is there already is replaced only by a whole one."""
    pool, target = setup.pool, setup.target
    encoding, directions = stored(pool.encoding)
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "seed": setup.seed,
        "classes": list(setup.classes),
        "ids": _plain_ids(ids),
        "settings": {name: getattr(setup, name) for name in _SETTINGS},
        "find": None if setup.find is None else setup.classes[setup.find],
        "own_model": None if setup.model is None else _own_name(setup.model),
        "digests": {"pool": _digest(pool), "target": None if target is None else _digest(target)},
        "columns": None if pool.names is None else list(pool.names),
        "encoding": encoding,
        "audit": setup.audit.tolist(),
        "events": [[e.position, e.action, e.label] for e in events],
    }
    try:
        text = json.dumps(document)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The options of this learner cannot be saved: they are not plain data ({error})."
        ) from None
    try:
        with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("learner.json", text)
            if directions is not None:
                with archive.open("encoding.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, directions, allow_pickle=False)
            if include_features:
                _write_table(archive, "X_pool.npy", pool)
                if target is not None:
                    _write_table(archive, "X_target.npy", target)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); nothing was changed."
        ) from None


def _own_name(model: Any) -> str:
    """What the user's own model is called; an ensemble comes wrapped."""
    return type(getattr(model, "ensemble", model)).__name__


def read_learner(path: Path, X_pool: Any, X_target: Any, model: Any) -> Saved:
    """Read a learner back; features left out and a model of one's own are passed again."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read(_member(archive, "learner.json", path)))
            _check_format(document, path)
            members = set(archive.namelist())
            directions = None
            if "encoding.npy" in members:
                directions = _features(archive, members, "encoding", None, path)
            encoding = restored(document["encoding"], directions)
            X_pool = _features(archive, members, "X_pool", X_pool, path)
            if document["digests"]["target"] is not None:
                X_target = _features(archive, members, "X_target", X_target, path)
        events = [Event(*event) for event in document["events"]]
        ids = document["ids"]
        ids = None if ids is None else [tuple(i) if isinstance(i, list) else i for i in ids]
        arguments = {
            "X_pool": X_pool,
            "classes": document["classes"],
            "X_target": X_target,
            "random_state": document["seed"],
            "ids": ids,
            "model": model,
            "features": encoding,
            "find": document["find"],
            "audit": _audit(document["audit"], ids),
            **document["settings"],
        }
        saved = Saved(path, arguments, events, document["digests"], document["columns"])
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:  # a flipped byte can surface anywhere in the readers
        raise InputError(f"{path} is damaged or is not a saved learner ({error}).") from None
    if document["own_model"] is not None and model is None:
        raise InputError(
            f"{path} was saved with your own model, {document['own_model']}; pass it again: "
            "model=..."
        )
    return saved


def _check_format(document: Any, path: Path) -> None:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InputError(f"{path} is not a saved learner.")
    if document["version"] != _VERSION:
        raise InputError(
            f"{path} was written by another version of parbals (format {document['version']}); "
            "upgrade."
        )


def _features(
    archive: zipfile.ZipFile, members: set[str], name: str, given: Any, path: Path
) -> Any:
    if given is not None:
        return given
    if f"{name}.npy" not in members:
        raise InputError(f"{path} was saved without features; pass {name}=... to load it.")
    info = _member(archive, f"{name}.npy", path)
    with archive.open(info) as file:
        header = read_header(file, info.file_size, f"{path}, {info.filename}")
        flat = np.frombuffer(file.read(), header.dtype)
    return flat.reshape(header.shape, order="F" if header.column_major else "C")


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> zipfile.ZipInfo:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > path.stat().st_size:
        raise InputError(
            f"{path} holds {name} compressed, as no saved learner does; it was changed, or made to "
            "harm."
        )
    return info


def _audit(positions: list[int], ids: list[Any] | None) -> list[Any]:
    """The audit's items, by the names that the learner is made with."""
    if len(set(positions)) < len(positions) or min(positions, default=0) < 0:
        raise InputError("The audit names items twice, or items that are not in the pool.")
    return positions if ids is None else [ids[position] for position in positions]


def _write_table(archive: zipfile.ZipFile, name: str, table: FeatureTable) -> None:
    """Row blocks, so that a memory-mapped pool is never in memory as a whole."""
    dtype = table.rows(np.zeros(1, int)).dtype
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (table.n_rows, table.n_columns),
    }
    with archive.open(name, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_2_0(file, header)
        for _, rows in table.blocks(_ROWS):
            file.write(np.ascontiguousarray(rows, dtype).tobytes())


def _digest(table: FeatureTable) -> str:
    return table_digest(rows for _, rows in table.blocks(_ROWS))


def _plain_ids(ids: list[Any] | None) -> list[Any] | None:
    for name in ids or []:
        parts = name if isinstance(name, tuple) else (name,)
        if not all(isinstance(part, str | int | float) for part in parts):
            raise InputError(
                f"The id {name!r} cannot be saved; use strings, numbers or tuples of them."
            )
    return ids
