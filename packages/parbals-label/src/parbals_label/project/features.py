"""The matrices of a project: features, predictions and map, memory-mapped files of float32.

:mod:`parbals_label.project.embedding` computes the features.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from parbals.arrays import release_pages
from parbals.errors import InputError, ProjectDamagedError, ProjectError, first_line
from parbals.files import TEMPORARY_SUFFIX
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.encoders.scratch import ROWS
from parbals_label.store.folder import file_mode
from parbals_label.store.settings import MatrixFile, ProjectSettings
from parbals_label.store.store import Store

__all__ = [
    "ADAPTATION_FILE",
    "adaptation_record",
    "adapted_files",
    "certified_predictions",
    "class_information_of",
    "embed_advice",
    "encoder_name",
    "features_of",
    "held_out_of",
    "is_adapted",
    "load_features",
    "predictions_of",
    "prior_scale_of",
    "remove_matrices",
    "store_features",
    "uses_table_features",
]

COLUMNS = "columns"
"""In place of an encoder's name: columns of numbers as they are."""
TABLE = "table"
"""In place of an encoder's name: columns of a table, encoded."""
GIVEN = "given"
"""In place of an encoder's name: a matrix that came with the data."""
ADAPTATION_FILE = "parbals.json"
"""In the folder of an adapted encoder: its training labels and held-out predictions."""
_ADAPTED_NAME = re.compile(r"encoder-[0-9a-f]{12}")


def is_adapted(encoder: str | None) -> bool:
    """Whether an encoder was adapted to the project's labels; its name is that of its folder.

    >>> is_adapted("encoder-0123456789ab"), is_adapted("words")
    (True, False)
    """
    return _ADAPTED_NAME.fullmatch(encoder or "") is not None


def uses_table_features(settings: ProjectSettings) -> bool:
    """Whether features are columns of a table, with tree features or without."""
    has_trees = is_adapted(settings.encoder) and settings.encoded_kind is None
    return has_trees or settings.encoder in (COLUMNS, TABLE)


def store_features(folder: Path, features: np.ndarray, name: str = "features") -> MatrixFile:
    """Write a matrix block by block; the record that the settings must store."""
    digest = hashlib.blake2b(digest_size=16)
    temporary = folder / f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
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
    """How to recompute features that are missing or damaged."""
    if encoder == GIVEN:
        return (
            "put back a copy, or create the project again with `parbals init` (its features came "
            "with the data)"
        )
    return f"run `parbals embed {folder} --encoder {encoder or 'NAME'}` to recompute the features"


def _advice(folder: Path, file: str, encoder: str | None) -> str:
    """How to recompute a file that is missing or damaged."""
    if file.startswith("predictions-"):
        return f"run `parbals export {folder} --renew` to predict again"
    if file.startswith("target-"):
        return f"put back a copy, or add the target set again: parbals target add {folder} TARGET"
    if file.startswith("map-"):
        return "remove it, and the labelling page computes it again"
    return embed_advice(folder, encoder)


def features_of(store: Store) -> np.ndarray:
    """The features (N, D) of a project, memory-mapped."""
    features = _current(store, "features")
    if features is None:
        raise ProjectError(
            "This project has no features yet; "
            f"{embed_advice(store.folder, store.settings.encoder)}."
        )
    return features


def predictions_of(store: Store) -> np.ndarray | None:
    """The stored predictions (N, C), memory-mapped; None where there are none."""
    return _current(store, "predictions")


def _current(store: Store, name: str) -> np.ndarray | None:
    """Load the matrix that a setting names, again if another program replaces it meanwhile."""
    while (stored := getattr(store.settings, name)) is not None:
        try:
            return load_features(store.folder, stored, encoder=store.settings.encoder)
        except ProjectDamagedError:
            if getattr(store.settings, name) == stored:  # it was not replaced
                raise
    return None


def load_features(
    folder: Path, matrix: MatrixFile, *, verify: bool = False, encoder: str | None = None
) -> np.ndarray:
    """Map a matrix into memory.

    Args:
        folder: the project's.
        matrix: the record in the settings.
        verify: compare every byte with the digest.
        encoder: the project's, for the advice in an error.
    """
    path = folder / matrix.file
    advice = _advice(folder, matrix.file, encoder)
    try:
        features: np.ndarray = open_memmap(path, mode="r")
    except FileNotFoundError:
        raise ProjectDamagedError(f"{path} is missing; {advice}.") from None
    except Exception as error:  # parsing the header as a Python literal can fail in many ways
        raise ProjectDamagedError(f"{path} is damaged ({first_line(error)}); {advice}.") from None
    if features.shape != matrix.shape or features.dtype != np.dtype("<f4"):
        raise ProjectDamagedError(f"{path} has not the shape that was written; {advice}.")
    if verify:
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, len(features), ROWS):
            digest.update(np.ascontiguousarray(features[start : start + ROWS]).tobytes())
            release_pages(features)
        if digest.hexdigest() != matrix.digest:
            raise ProjectDamagedError(f"{path} is not what was written; {advice}.")
    return features


def certified_predictions(store: Store) -> MatrixFile | None:
    """The predictions that the latest random sample evaluates; newer ones do not replace them."""
    samples = store.batches(CERTIFY)
    if not samples:
        return None
    record = samples[-1].settings["predictions"]
    return MatrixFile(record["file"], record["digest"], tuple(record["shape"]))


def remove_matrices(store: Store, *old: MatrixFile | None) -> None:
    """Remove files that neither the settings nor a certificate name any more."""
    settings = store.settings
    needed = (
        settings.features,
        settings.described,
        settings.scores,
        settings.predictions,
        settings.map,
        settings.target_map,
        certified_predictions(store),
        settings.target and settings.target.features,
    )
    needed_files = {matrix.file for matrix in needed if matrix}
    for matrix in old:
        if matrix is not None and matrix.file not in needed_files:
            (store.folder / matrix.file).unlink(missing_ok=True)


def held_out_of(store: Store) -> tuple[list[int], np.ndarray] | None:
    """Positions of labels that trained the encoder, and their held-out predictions (n, C).

    None where the encoder is not adapted. The classes are the current ones: a class that was added
    later has probability zero, a class that was merged adds to the other.
    """
    if not is_adapted(store.settings.encoder):
        return None
    record = adaptation_record(store)
    classes = store.classes
    probs = np.zeros((len(record["positions"]), len(classes)))
    for name, column in zip(record["classes"], np.array(record["held_out"]).T, strict=True):
        current_name = store.former_classes.get(name, name)
        if current_name in classes:
            probs[:, classes.index(current_name)] += column
    return record["positions"], probs / np.maximum(probs.sum(axis=1, keepdims=True), 1e-12)


def prior_scale_of(settings: ProjectSettings, *, adapted: bool) -> float | str:
    """The learner's prior scale: "even" on rows of a fine-tuned network, not of tree features."""
    is_network = adapted and settings.encoded_kind is not None
    if is_network and settings.prior_scale == "auto":
        return "even"
    return settings.prior_scale


def adaptation_record(store: Store) -> Any:
    """The record of how the project's encoder was adapted."""
    path = store.folder / str(store.settings.encoder) / ADAPTATION_FILE
    try:
        if path.is_symlink() or path.parent.is_symlink():
            raise OSError("it is a link")
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        frozen_encoder = TABLE if store.settings.encoded_kind is None else "auto"
        raise ProjectDamagedError(
            f"{path} is damaged ({error}); put back a copy, or return to features that were not "
            f"adapted: parbals embed {store.folder} --encoder {frozen_encoder}."
        ) from None


def class_information_of(store: Store) -> dict[str, Any]:
    """Arguments of the learner about its classes: scores of another model, or descriptions."""
    settings = store.settings
    if settings.scores is not None:
        scores = load_features(store.folder, settings.scores)
        n_classes = len(store.classes)
        # Items that were added later have no scores: all classes are equally likely.
        uniform = np.full((store.n_items - len(scores), n_classes), 1.0 / n_classes)
        return {"class_scores": np.concatenate([scores, uniform])}
    if settings.described is None:
        return {}
    rows = load_features(store.folder, settings.described, encoder=settings.encoder)
    return {"class_descriptions": dict(zip(settings.descriptions, rows, strict=True))}


def adapted_files(folder: Path, name: str) -> list[Path]:
    """The files of an adapted encoder in a project's folder, verified.

    Its name is a digest of them. A link is refused, wherever it leads: what it leads to may change.
    """
    encoder = folder / name
    paths = [encoder, *encoder.rglob("*")]
    has_link = any(path.is_symlink() for path in paths)
    files = [] if has_link else [path for path in paths if path.is_file()]
    if name != encoder_name(files):
        raise ProjectDamagedError(
            f"{encoder} is not what was written; put back a copy, or return to features that were "
            f"not adapted: parbals embed {folder} --encoder auto."
        )
    return files


def encoder_name(files: Iterable[Path]) -> str:
    """The name of an adapted encoder: a digest of all files in its folder."""
    from parbals_label.encoders.torch_models import file_digest

    return f"encoder-{file_digest(files)[:12]}"
