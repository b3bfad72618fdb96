"""A learner in one file: a zip of one JSON document and plain arrays.

No pickle; nothing in it can run.

    learner.json    format, version, settings, classes, ids, the history of every item, reports
    X_pool.npy      features as the model sees them, unless left out
    X_target.npy
    encoding/*.npy  what was learnt of sparse rows or of words, if there are any

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
from parbals.learner.evaluation.report import Report
from parbals.learner.features import FeatureTable
from parbals.learner.ledger import Event
from parbals.learner.state import Setup
from parbals.randomness import table_digest

__all__ = ["Saved", "read_learner", "write_learner"]

_FORMAT, _VERSION = "parbals-learner", 1
_SETTINGS = (
    *("strategy", "metric", "options", "n_samples", "prior_scale", "inference"),
    *("n_universes", "standardise", "n_candidates", "n_targets"),
)
_ROWS = 16_384


@dataclass(frozen=True)
class Saved:
    """What a file holds: arguments of the learner, what happened, and all that was written."""

    path: Path
    arguments: dict[str, Any]
    events: list[Event]
    reports: list[Report]
    document: dict[str, Any]

    def check(self, setup: Setup) -> None:
        """Refuse features that are not those that were saved; give the pool its column names."""
        for name, table in (("pool", setup.pool), ("target", setup.target)):
            if table is not None and _digest(table) != self.document["digests"][name]:
                raise InputError(
                    f"The features of the {name} are not those that {self.path} was saved with."
                )
        if setup.pool.names is None and self.document["columns"] is not None:
            setup.pool.names = tuple(self.document["columns"])


def write_learner(
    path: Path,
    setup: Setup,
    ids: list[Any] | None,
    events: Sequence[Event],
    reports: Sequence[Report],
    include_features: bool,
) -> None:
    """Write a learner; a file that is there already is replaced only by a whole one."""
    pool, target = setup.pool, setup.target
    encoding, learnt = stored(pool.encoding)
    own = getattr(setup.model, "ensemble", setup.model)  # an ensemble comes wrapped
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "seed": setup.seed,
        "classes": list(setup.classes),
        "ids": ids,
        "settings": {"task": setup.task.name} | {name: getattr(setup, name) for name in _SETTINGS},
        "find": None if setup.find is None else setup.classes[setup.find],
        "own_model": None if own is None else type(own).__name__,
        "digests": {"pool": _digest(pool), "target": None if target is None else _digest(target)},
        "columns": None if pool.names is None else list(pool.names),
        "encoding": encoding,
        "audit": setup.audit.tolist(),
        "described": setup.described and [part.tolist() for part in setup.described],
        "held_out": setup.held_out and [part.tolist() for part in setup.held_out],
        "events": [[e.position, e.action, e.label, *filter(None, [e.annotator])] for e in events],
        "reports": [report.to_dict() for report in reports],
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
            for name, array in learnt.items():
                with archive.open(f"encoding/{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
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
            document = _document(archive, path)
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            arrays = {name: _array(archive, name) for name in names}
        X_pool = arrays.get("X_pool.npy") if X_pool is None else X_pool
        X_target = arrays.get("X_target.npy") if X_target is None else X_target
        learnt = {Path(name).stem: array for name, array in arrays.items() if "/" in name}
        ids = None if document["ids"] is None else [_name(name) for name in document["ids"]]

        def named(positions: list[int]) -> list[Any]:
            return positions if ids is None else [ids[p] for p in positions]

        held_out, described = document.get("held_out"), document.get("described")
        told = described and {document["classes"][c]: r for c, r in zip(*described, strict=True)}
        arguments = {
            "X_pool": X_pool,
            "classes": document["classes"] or None,
            "X_target": X_target,
            "random_state": document["seed"],
            "ids": ids,
            "model": model,
            "features": restored(document["encoding"], learnt),
            "find": document["find"],
            "audit": named(document["audit"]),
            "class_descriptions": told,
            "held_out": held_out and (named(held_out[0]), held_out[1]),
            **document["settings"],
        }
        events = [Event(*event) for event in document["events"]]
        reports = [Report.from_dict(report) for report in document["reports"]]
        saved = Saved(path, arguments, events, reports, document)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:  # a flipped byte can surface anywhere in the readers
        raise InputError(f"{path} is damaged or is not a saved learner ({error}).") from None
    for name, table in (("pool", X_pool), ("target", X_target)):
        if table is None and document["digests"][name] is not None:
            raise InputError(f"{path} was saved without features; pass X_{name}=... to load it.")
    if document["own_model"] is not None and model is None:
        raise InputError(
            f"{path} was saved with your own model, {document['own_model']}; pass it again: "
            "model=..."
        )
    return saved


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _document(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    """The JSON of a file that is a saved learner, and takes no more memory than its own size."""
    infos = archive.infolist()
    compressed = any(info.compress_type != zipfile.ZIP_STORED for info in infos)
    if compressed or sum(info.file_size for info in infos) > path.stat().st_size:
        raise InputError(
            f"{path} is compressed, as no saved learner is; it was changed, or made to harm."
        )
    document = json.loads(archive.read("learner.json"))
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InputError(f"{path} is not a saved learner.")
    if document["version"] != _VERSION:
        raise InputError(
            f"{path} was written by another version of parbals (format {document['version']}); "
            "upgrade."
        )
    return document


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
