"""Features of a project: a memory-mapped float32 matrix beside the database.

So are its predictions and its map. :mod:`parbals_label.project.embedding` makes the features.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from parbals.arrays import release_pages
from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals.files import TEMPORARY_SUFFIX
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.encoders.scratch import ROWS
from parbals_label.encoders.torch_models import file_digest
from parbals_label.store.folder import file_mode
from parbals_label.store.settings import MatrixFile, ProjectSettings
from parbals_label.store.store import Store

__all__ = ["ADAPTATION_FILE", "adaptation_record", "adapted_files", "class_information_of"]
__all__ += ["certified_predictions", "embed_advice", "encoder_name", "features_of", "held_out_of"]
__all__ += ["is_adapted", "load_features", "predictions_of", "remove_matrices", "store_features"]
__all__ += ["prior_scale_of", "uses_table_features"]

COLUMNS, TABLE = "columns", "table"
"""Columns of numbers as they are, and columns of a table, in place of an encoder's name."""
GIVEN = "given"
"""The matrix came with the data."""
ADAPTATION_FILE = "parbals.json"
"""In the folder of an adapted encoder: what taught it, and what held-out labels say of it."""
_ADAPTED = re.compile(r"encoder-[0-9a-f]{12}")


def is_adapted(encoder: str | None) -> bool:
    """Whether the project's labels have taught it; it is called by the name of its folder there."""
    return _ADAPTED.fullmatch(encoder or "") is not None


def uses_table_features(settings: ProjectSettings) -> bool:
    """Whether features are made of cells; without an encoder, or by trees that labels taught."""
    is_taught = is_adapted(settings.encoder) and settings.encoded_kind is None
    return is_taught or settings.encoder in (COLUMNS, TABLE)


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
    found = _current(store, "features")
    if found is None:
        raise ProjectError(
            "This project has no features yet; "
            f"{embed_advice(store.folder, store.settings.encoder)}."
        )
    return found


def predictions_of(store: Store) -> np.ndarray | None:
    """The stored predictions (N, C), memory-mapped; None where there are none."""
    return _current(store, "predictions")


def _current(store: Store, name: str) -> np.ndarray | None:
    while (stored := getattr(store.settings, name)) is not None:
        try:
            return load_features(store.folder, stored, encoder=store.settings.encoder)
        except ProjectDamagedError:
            if getattr(store.settings, name) == stored:  # else another program has replaced them
                raise
    return None


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


def certified_predictions(store: Store) -> MatrixFile | None:
    """Those that the latest sample was drawn by: they stay when newer ones are made."""
    for record in store.batches(CERTIFY)[-1:]:
        found = record.settings["predictions"]
        return MatrixFile(found["file"], found["digest"], tuple(found["shape"]))
    return None


def remove_matrices(store: Store, *old: MatrixFile | None) -> None:
    """Remove files that neither the settings nor a certificate name any more."""
    settings = store.settings
    named = (settings.features, settings.described, settings.scores, settings.predictions)
    needed = (*named, settings.map, certified_predictions(store))
    for file in {m.file for m in old if m} - {m.file for m in needed if m}:
        (store.folder / file).unlink(missing_ok=True)


def held_out_of(store: Store) -> tuple[list[int], np.ndarray] | None:
    """Positions whose labels taught the project's encoder, and predictions (n, C) without them.

    None where none did. Classes are those of today: one that was added since has no probability,
    one that was merged into another adds to its.
    """
    if not is_adapted(store.settings.encoder):
        return None
    about = adaptation_record(store)
    classes, former = store.classes, store.former_classes
    probs = np.zeros((len(about["positions"]), len(classes)))
    for name, column in zip(about["classes"], np.array(about["held_out"]).T, strict=True):
        if (now := former.get(name, name)) in classes:
            probs[:, classes.index(now)] += column
    return about["positions"], probs / np.maximum(probs.sum(axis=1, keepdims=True), 1e-12)


def prior_scale_of(settings: ProjectSettings, *, taught: bool) -> float | str:
    """The learner's; even on rows of a network that labels have taught, not beside trees."""
    even = taught and settings.encoded_kind and settings.prior_scale == "auto"
    return "even" if even else settings.prior_scale


def adaptation_record(store: Store) -> Any:
    """What is known of the encoder that the project's labels have taught."""
    path = store.folder / str(store.settings.encoder) / ADAPTATION_FILE
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        back = TABLE if store.settings.encoded_kind is None else "auto"
        raise ProjectDamagedError(
            f"{path} is damaged ({error}); put back a copy, or go back to features that were not "
            f"adapted: parbals embed {store.folder} --encoder {back}."
        ) from None


def class_information_of(store: Store) -> dict[str, Any]:
    """What the project's learner is told of its classes; nothing where nobody described them."""
    settings = store.settings
    if settings.scores is not None:
        known = load_features(store.folder, settings.scores)
        n_new, n_classes = store.n_items - len(known), len(store.classes)
        new = np.full((n_new, n_classes), 1.0 / n_classes)  # items that came later: nothing is said
        return {"class_scores": np.concatenate([known, new])}
    if settings.described is None:
        return {}
    rows = load_features(store.folder, settings.described, encoder=settings.encoder)
    return {"class_descriptions": dict(zip(settings.descriptions, rows, strict=True))}


def adapted_files(folder: Path, name: str) -> list[Path]:
    """The files of an adapted encoder in a project's folder; its name is a digest of them."""
    home = folder / name
    files = [] if home.is_symlink() else [path for path in home.rglob("*") if path.is_file()]
    if name != encoder_name(files):
        raise ProjectDamagedError(
            f"{home} is not what was written; put back a copy, or go back to features that were "
            f"not adapted: parbals embed {folder} --encoder auto."
        )
    return files


def encoder_name(files: Iterable[Path]) -> str:
    """What an adapted encoder is called: a digest of everything in its folder."""
    return f"encoder-{file_digest(files)[:12]}"
