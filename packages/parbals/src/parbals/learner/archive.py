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
    own = getattr(setup.model, "ensemble", setup.model)  # an ensemble comes wrapped
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "seed": setup.seed,
        "classes": list(setup.classes),
        "ids": ids,
        "settings": {name: getattr(setup, name) for name in _SETTINGS},
        "find": None if setup.find is None else setup.classes[setup.find],
        "own_model": None if own is None else type(own).__name__,
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
            f"This learner cannot be saved: its options or ids are not plain data ({error})."
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


def read_learner(path: Path, X_pool: Any, X_target: Any, model: Any) -> Saved:
    """Read a learner back; features left out and a model of one's own are passed again."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read(_member(archive, "learner.json", path)))
            _check_format(document, path)
            directions = _array(archive, "encoding", path)
            if X_pool is None:
                X_pool = _array(archive, "X_pool", path)
            if X_target is None:
                X_target = _array(archive, "X_target", path)
        ids = None if document["ids"] is None else [_name(name) for name in document["ids"]]
        arguments = {
            "X_pool": X_pool,
            "classes": document["classes"],
            "X_target": X_target,
            "random_state": document["seed"],
            "ids": ids,
            "model": model,
            "features": restored(document["encoding"], directions),
            "find": document["find"],
            "audit": document["audit"] if ids is None else [ids[p] for p in document["audit"]],
            **document["settings"],
        }
        events = [Event(*event) for event in document["events"]]
        saved = Saved(path, arguments, events, document["digests"], document["columns"])
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:  # a flipped byte can surface anywhere in the readers
        raise InputError(f"{path} is damaged or is not a saved learner ({error}).") from None
    for name, table in (("pool", X_pool), ("target", X_target)):
        if table is None and saved.digests[name] is not None:
            raise InputError(f"{path} was saved without features; pass X_{name}=... to load it.")
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


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> np.ndarray | None:
    """An array of the file; None where it has none of that name."""
    if f"{name}.npy" not in archive.namelist():
        return None
    with archive.open(_member(archive, f"{name}.npy", path)) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> zipfile.ZipInfo:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > path.stat().st_size:
        raise InputError(
            f"{path} holds {name} compressed, as no saved learner does; it was changed, or made to "
            "harm."
        )
    return info


def _name(value: Any) -> Any:
    """An id, which may be a tuple, as it was before it was written as JSON."""
    return tuple(map(_name, value)) if isinstance(value, list) else value


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
