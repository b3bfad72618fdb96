"""A learner in one file: a zip archive of a JSON document and plain arrays.

It has no pickles, so loading a file runs no code of its author.

    learner.json    format, version, settings, classes, ids, the history of every item, reports
    X_pool.npy      features as the model sees them, unless left out
    X_target.npy
    encoding/*.npy  arrays of the encoding of sparse rows or of words, if there is one

The file is written atomically. The zip format has a checksum of every member, which is verified on
loading. Members are not compressed, and compressed ones are refused, so that a file from somebody
else cannot take more memory than its size.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.features.frames import restore_encoding, store_encoding
from parbals.files import replacing
from parbals.learner.evaluation.report import Report
from parbals.learner.features import FeatureTable
from parbals.learner.ledger import Event
from parbals.learner.setup import Setup
from parbals.randomness import table_digest

__all__ = ["SavedLearner", "read_learner", "write_learner"]

_FORMAT = "parbals-learner"
_VERSION = 1
_SETTINGS = (
    "strategy",
    "metric",
    "options",
    "n_samples",
    "prior_scale",
    "inference",
    "n_universes",
    "standardise",
    "n_candidates",
    "n_targets",
)
"""Fields of a setup that are stored as they are."""
_BLOCK_ROWS = 16_384


@dataclass(frozen=True)
class SavedLearner:
    """The content of a file.

    Attributes:
        path: of the file.
        arguments: of :class:`parbals.ActiveLearner`.
        events: the history of all items.
        reports: all reports.
        n_measurements: number of samples that :meth:`ActiveLearner.certify` has drawn.
        document: the JSON document.
    """

    path: Path
    arguments: dict[str, Any]
    events: list[Event]
    reports: list[Report]
    n_measurements: int
    document: dict[str, Any]

    def check(self, setup: Setup) -> None:
        """Refuse features other than the saved ones; restore the names of the pool's columns."""
        for name, table in (("pool", setup.pool), ("target", setup.target)):
            if table is not None and _digest(table) != self.document["digests"][name]:
                raise InputError(
                    f"The features of the {name} are not those that {self.path} was saved with."
                )
        if setup.pool.names is None and self.document["columns"] is not None:
            setup.pool.names = tuple(self.document["columns"])


# -- writing


def write_learner(
    path: Path,
    setup: Setup,
    ids: list[Any] | None,
    events: Sequence[Event],
    reports: Sequence[Report],
    n_measurements: int,
    include_features: bool,
) -> None:
    """Write a learner; an existing file is replaced only when the new one is complete."""
    encoding_record, encoding_arrays = store_encoding(setup.pool.encoding)
    document = _learner_document(setup, encoding_record, ids, events, reports)
    document["n_measurements"] = n_measurements
    try:
        text = json.dumps(document)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"This learner cannot be saved: its options or ids are not plain data ({error})."
        ) from None
    try:
        with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("learner.json", text)
            for name, array in encoding_arrays.items():
                with archive.open(f"encoding/{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            if include_features:
                _write_table(archive, "X_pool.npy", setup.pool)
                if setup.target is not None:
                    _write_table(archive, "X_target.npy", setup.target)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); nothing was changed."
        ) from None


def _learner_document(
    setup: Setup,
    encoding_record: dict[str, Any] | None,
    ids: list[Any] | None,
    events: Sequence[Event],
    reports: Sequence[Report],
) -> dict[str, Any]:
    """Return the JSON document of a learner; its keys are part of the file format."""
    pool = setup.pool
    target = setup.target
    settings = {name: getattr(setup, name) for name in _SETTINGS}
    settings["pool_structure"] = setup.structure is not None
    model = getattr(setup.model, "ensemble", setup.model)  # ensembles are wrapped
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "seed": setup.seed,
        "classes": list(setup.classes),
        "ids": ids,
        "settings": {"task": setup.task.name, **settings},
        "find": None if setup.find is None else setup.classes[setup.find],
        "own_model": None if model is None else type(model).__name__,
        "digests": {"pool": _digest(pool), "target": None if target is None else _digest(target)},
        "columns": None if pool.names is None else list(pool.names),
        "encoding": encoding_record,
        "audit": setup.audit.tolist(),
        "audit_excluded": setup.audit_excluded.tolist(),
        "described": _array_lists(setup.class_descriptions),
        "held_out": _array_lists(setup.held_out),
        "events": [_event_document(event) for event in events],
        "reports": [report.to_dict() for report in reports],
    }


def _array_lists(arrays: tuple[np.ndarray, ...] | None) -> list[Any] | None:
    """Return arrays as nested lists for JSON; None stays None."""
    return None if arrays is None else [array.tolist() for array in arrays]


def _event_document(event: Event) -> list[Any]:
    """Return [position, action, label], followed by the annotator if there is one."""
    document = [event.position, event.action, event.label]
    if event.annotator:
        document.append(event.annotator)
    return document


def _write_table(archive: zipfile.ZipFile, name: str, table: FeatureTable) -> None:
    """Write a table block by block: a memory-mapped pool is never in memory as a whole."""
    dtype = table.rows(np.zeros(1, int)).dtype
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (table.n_rows, table.n_columns),
    }
    with archive.open(name, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_2_0(file, header)
        for _, rows in table.blocks(_BLOCK_ROWS):
            file.write(np.ascontiguousarray(rows, dtype).tobytes())


def _digest(table: FeatureTable) -> str:
    return table_digest(rows for _, rows in table.blocks(_BLOCK_ROWS))


# -- reading


def read_learner(path: Path, X_pool: Any, X_target: Any, model: Any) -> SavedLearner:
    """Read a saved learner; features that were left out, and a user's model, are passed again."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = _read_document(archive, path)
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            arrays = {name: _read_array(archive, name) for name in names}
        X_pool = arrays.get("X_pool.npy") if X_pool is None else X_pool
        X_target = arrays.get("X_target.npy") if X_target is None else X_target
        encoding_arrays = {Path(name).stem: arrays[name] for name in arrays if "/" in name}
        saved = SavedLearner(
            path=path,
            arguments={
                "X_pool": X_pool,
                "X_target": X_target,
                "model": model,
                "features": restore_encoding(document["encoding"], encoding_arrays),
                **_saved_arguments(document),
            },
            events=[Event(*event) for event in document["events"]],
            reports=[Report.from_dict(report) for report in document["reports"]],
            n_measurements=int(document.get("n_measurements", 0)),
            document=document,
        )
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


def _saved_arguments(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of :class:`parbals.ActiveLearner` that the JSON document holds."""
    ids = None
    if document["ids"] is not None:
        ids = [_restored_id(name) for name in document["ids"]]

    def items_at(positions: list[int]) -> list[Any]:
        return positions if ids is None else [ids[position] for position in positions]

    class_descriptions = None
    if document.get("described"):
        class_numbers, rows = document["described"]
        described_classes = [document["classes"][number] for number in class_numbers]
        class_descriptions = dict(zip(described_classes, rows, strict=True))
    held_out = None
    if document.get("held_out"):
        positions, probs = document["held_out"]
        held_out = (items_at(positions), probs)
    return {
        "classes": document["classes"] or None,
        "random_state": document["seed"],
        "ids": ids,
        "find": document["find"],
        "audit": items_at(document["audit"]),
        "audit_excluded": items_at(document.get("audit_excluded", [])),
        "class_descriptions": class_descriptions,
        "held_out": held_out,
        **document["settings"],
    }


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _read_document(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    """Read the JSON document, unless the archive is compressed or is no saved learner."""
    members = archive.infolist()
    is_compressed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    total_size = sum(member.file_size for member in members)
    if is_compressed or total_size > path.stat().st_size:
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


def _restored_id(value: Any) -> Any:
    """Return an id as it was before it was written as JSON, which has lists instead of tuples."""
    return tuple(map(_restored_id, value)) if isinstance(value, list) else value
