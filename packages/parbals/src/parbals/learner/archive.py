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
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.files import replacing
from parbals.learner.encoding import restored, stored
from parbals.learner.features import FeatureTable
from parbals.learner.ledger import Event
from parbals.learner.metric import METRICS
from parbals.npy import read_header
from parbals.randomness import table_digest

__all__ = ["load_learner", "save_learner"]

_FORMAT, _VERSION = "parbals-learner", 3
_SETTINGS = (
    *("strategy", "loss", "options", "n_samples", "prior_scale", "inference", "n_universes"),
    *("standardise", "pca", "n_candidates", "n_targets", "find"),
)
_ROWS = 16_384


def save_learner(learner: Any, path: Path, include_features: bool) -> None:
    """Write the learner; a file that is there already is replaced only by a whole one."""
    encoding, directions = stored(learner.pool.encoding)
    document = {
        "format": _FORMAT,
        "version": _version(encoding),
        "seed": learner.seed,
        "classes": list(learner.classes),
        "ids": _plain_ids(learner.ids),
        "settings": _settings(learner),
        "own_model": None if learner.model is None else _own_name(learner.model),
        "pool_digest": _digest(learner.pool),
        "columns": None if learner.pool.names is None else list(learner.pool.names),
        "target_digest": None if learner.target is None else _digest(learner.target),
        "encoding": encoding,
        "audit": learner.audit.tolist(),
        "events": [[e.position, e.action, e.label] for e in learner.events],
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
                _write_table(archive, "X_pool.npy", learner.pool)
                if learner.target is not None:
                    _write_table(archive, "X_target.npy", learner.target)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); nothing was changed."
        ) from None


def _own_name(model: Any) -> str:
    """What the user's own model is called; an ensemble comes wrapped."""
    return type(getattr(model, "ensemble", model)).__name__


def _settings(learner: Any) -> dict[str, Any]:
    settings = {name: getattr(learner, name) for name in _SETTINGS}
    # Where the loss says it all an older parbals reads the file too.
    return settings if learner.metric in METRICS else {**settings, "metric": learner.metric}


def load_learner(cls: type, path: Path, X_pool: Any, X_target: Any, model: Any) -> Any:
    """Read a learner back; features left out and a model of one's own are passed again."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read(_member(archive, "learner.json", path)))
            _check_format(document, path)
            members = set(archive.namelist())
            directions = None
            if "encoding.npy" in members:
                directions = _features(archive, members, "encoding", None, path)
            # A file without one was saved with a matrix of numbers, or before there were any.
            encoding = restored(document.get("encoding"), directions)
            X_pool = _features(archive, members, "X_pool", X_pool, path)
            if document["target_digest"] is not None:
                X_target = _features(archive, members, "X_target", X_target, path)
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
    ids = document["ids"]
    learner = cls(
        X_pool,
        document["classes"],
        X_target,
        random_state=document["seed"],
        ids=None if ids is None else [tuple(i) if isinstance(i, list) else i for i in ids],
        model=model,
        features=encoding,
        **{"inference": "smc", "prior_scale": 1.0} | document["settings"],  # older files: as it was
    )
    for name, table in (("pool", learner.pool), ("target", learner.target)):
        if table is not None and _digest(table) != document[f"{name}_digest"]:
            raise InputError(
                f"The features of the {name} are not those that {path} was saved with."
            )
    columns = document.get("columns")  # older files do not hold them
    if learner.pool.names is None and columns is not None:
        learner.pool.names = tuple(columns)
    learner.audit = _audit(document.get("audit", []), learner.pool.n_rows)
    learner._ledger.replay([Event(*event) for event in document["events"]])
    return learner


def _version(encoding: dict[str, Any] | None) -> int:
    """The oldest version that reads this: texts came with 3, other encodings with 2."""
    if encoding is None:
        return 1
    return _VERSION if "texts" in encoding else 2


def _check_format(document: Any, path: Path) -> None:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InputError(f"{path} is not a saved learner.")
    if document["version"] > _VERSION:
        raise InputError(
            f"{path} was written by a newer version of parbals (format {document['version']}); "
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


def _audit(positions: list[int], n_items: int) -> np.ndarray:
    audit = np.array(positions, np.int64)
    if len(np.unique(audit)) < len(audit) or not ((audit >= 0) & (audit < n_items)).all():
        raise InputError("The audit names items twice, or items that are not in the pool.")
    return audit


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
