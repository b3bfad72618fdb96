"""Features of texts and images: an encoder's cached array, TF-IDF, or pixels."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from parbals.errors import InputError
from parbals.features.pca import float_blocks, principal_components
from parbals.features.text import CANONICAL, Tfidf
from parbals.files import replacing
from parbals_label.encoders.base import Options
from parbals_label.encoders.embedding import BadRow, embed
from parbals_label.encoders.table import load_encoder
from threadpoolctl import threadpool_limits

from parbals_bench.datasets.base import Data, Part, Raw, halves
from parbals_bench.datasets.files import find, read_matrix

__all__ = ["FeatureFile", "Progress", "TextFeatures", "embed_parts", "embedded", "reduced"]

Progress = Callable[[str, float, float | None], None]
"""Called with a stage, the number of finished rows, and the number of all rows."""

_FILE_ENDINGS = ("_f16.npy", "_f32.npy", ".npy")
_DIRECTIONS = 256
_POOL_NORM = 3.0
_VARIANCE_SHARE = 0.99


class TextFeatures:
    """Features of short messages: TF-IDF in ``n_features`` directions, centred, on one scale.

    The directions keep their relative size (a whitened tail would be mostly noise), and the rows of
    the pool get a root mean square norm of 3. With a N(0, 1) prior on the weights that is the scale
    at which randomly labelled messages predict the others best (log loss, 20 to 100 labels).
    """

    def __init__(self, n_features: int = 64, seed: int = 0) -> None:
        self._tfidf = Tfidf(n_features, seed=seed, **CANONICAL, min_df=2)

    def fit(self, pool_texts: Sequence[str]) -> Self:
        """Learn from the pool; a ValueError where it has no words."""
        with threadpool_limits(1):  # several threads would mostly wait for each other
            rows = self._tfidf.fit_transform(pool_texts)
        self._centre = rows.mean(axis=0)
        self._factor = _POOL_NORM / np.sqrt(np.square(rows - self._centre).sum(axis=1).mean())
        return self

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """(N, n_features) features for the model."""
        return (self._tfidf.transform(texts) - self._centre) * self._factor


def embedded(raw: Raw, folder: Path, features: str, seed: int, paper_encoder: str) -> Data:
    """Pool, target and test of a dataset that has no columns; PCA to 99 % of the pool's variance.

    The parts are ``train`` and either ``val`` and ``test``, or only ``test``, which is then halved.
    ``features`` is an encoder's name, "tfidf" for texts, "pixels" for images that are arrays, or
    "auto": the paper's encoder if its features are there, else those that are.
    """
    name = features
    notes: tuple[str, ...] = ()
    if features == "auto":
        name, notes = _automatic(raw, folder, paper_encoder)
    if name == "tfidf":
        X = _tfidf(raw, seed)
    else:
        uses_raw_pixels = name == "pixels" and raw.kind != "image"
        matrices = _pixels(raw) if uses_raw_pixels else _cached(raw, folder, name)
        X = reduced(matrices, "train")
    X = {part: np.ascontiguousarray(matrix, np.float32) for part, matrix in X.items()}
    X_target = X.get("val")
    X_test = X["test"]
    y_test = raw.parts["test"].y
    if X_target is None:
        target_rows, test_rows = halves(len(X_test), raw.name)
        X_target = X_test[target_rows]
        X_test = X_test[test_rows]
        y_test = y_test[test_rows]
    return Data(
        name=raw.name,
        X_pool=X["train"],
        y_pool=raw.parts["train"].y,
        X_target_source=X_target,
        X_test=X_test,
        y_test=y_test,
        classes=raw.classes,
        notes=(*raw.notes, *notes),
    )


def reduced(matrices: Mapping[str, np.ndarray], pool: str) -> dict[str, np.ndarray]:
    """PCA of the pool: the fewest directions with 99 % of its variance; nothing is rescaled.

    Rows are read in blocks, so that memory-mapped arrays of any size work. Features are as precise
    as the arrays, at least float32.
    """
    components = principal_components(matrices[pool], _VARIANCE_SHARE)
    if not len(components.directions):
        raise InputError("Every column of the pool is constant, so its rows are all alike.")
    features = {}
    for part, matrix in matrices.items():
        dtype = np.float64 if matrix.dtype.itemsize == 8 else np.float32
        blocks = (block - components.mean for block in float_blocks(matrix))
        rows = [(block @ components.directions.T).astype(dtype) for block in blocks]
        features[part] = np.concatenate(rows)
    return features


def _slug(encoder: str) -> str:
    """An encoder's name as it stands in the names of files."""
    return re.sub(r"[^a-z0-9]+", "_", encoder.lower()).strip("_")


def _file(folder: Path, encoder: str, stem: str) -> Path | None:
    return find(folder, (f"{_slug(encoder)}_{stem}{ending}" for ending in _FILE_ENDINGS))


def _encoders_there(folder: Path, stems: Sequence[str]) -> list[str]:
    """Encoders whose features of every part are in the folder."""
    tails = [f"_{stems[0]}{ending}" for ending in _FILE_ENDINGS]
    paths = [(path.name, tail) for path in folder.glob("*.npy") for tail in tails]
    names = {name.removesuffix(tail) for name, tail in paths if name.endswith(tail)}
    names -= {"y", "labels"}
    return sorted(name for name in names if all(_file(folder, name, stem) for stem in stems))


def _automatic(raw: Raw, folder: Path, paper_encoder: str) -> tuple[str, tuple[str, ...]]:
    stems = _stems(raw)
    if all(_file(folder, paper_encoder, stem) for stem in stems):
        return paper_encoder, ()
    there = _encoders_there(folder, stems)
    if len(there) == 1:
        return there[0], (f"features are of {there[0]}, the paper's are of {paper_encoder}",)
    if there:
        how = _how_to_choose(raw.name, folder, there[0])
        raise InputError(
            f"{folder} holds features of {', '.join(there)}; choose one of them by name: {how}."
        )
    raise _no_features(raw, folder, paper_encoder)


@dataclass(frozen=True)
class FeatureFile:
    """A file of features, the number of rows computed now, and the rows left blank."""

    path: Path
    n_rows: int
    n_features: int
    n_computed: int
    skipped: tuple[BadRow, ...] = ()


def embed_parts(
    raw: Raw,
    folder: Path,
    encoder: str,
    *,
    options: Options | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> list[FeatureFile]:
    """Encode every part of a dataset into the file where :func:`embedded` looks for it.

    Existing files are kept, whichever program wrote them.
    """
    if encoder == "tfidf" or (encoder == "pixels" and raw.kind == "pixels"):
        raise InputError(
            f"Features {encoder} of {raw.name} are made when it is loaded; there is nothing to "
            "embed."
        )
    for part in raw.parts.values():
        if part.items is None:
            items = "texts" if raw.kind == "text" else "images"
            raise InputError(
                f"{folder} holds the labels of {raw.name} ({part.stem}) but not its {items}, to "
                "encode."
            )
    loaded = load_encoder(encoder, options, "text" if raw.kind == "text" else "image")
    loaded.fit(_named(raw.parts["train"]), len(raw.parts["train"].y))
    feature_files: list[FeatureFile] = []
    for part in raw.parts.values():
        path = _file(folder, encoder, part.stem)
        if path is not None:
            rows = read_matrix(path, len(part.y), f"{raw.name} ({part.stem})")
            feature_files.append(FeatureFile(path, len(rows), rows.shape[1], n_computed=0))
            continue
        path = folder / _cache_name(encoder, part.stem)

        def show(stage: str, rows: int, total: int | None, stem: str = part.stem) -> None:
            progress(f"{stage} {stem}", rows, total)

        embedding = embed(loaded, encoder, _named(part), len(part.y), options, folder, show)
        with replacing(path) as file:
            np.save(file, embedding.rows)
        n_rows, n_features = embedding.rows.shape
        feature_file = FeatureFile(
            path, n_rows, n_features, embedding.n_computed, embedding.skipped
        )
        feature_files.append(feature_file)
        embedding.discard_cache()
    return feature_files


def _cache_name(encoder: str, stem: str) -> str:
    return f"{_slug(encoder)}_{stem}.npy"


def _how_to_choose(name: str, folder: Path, features: str) -> str:
    """How features are asked for by name, in Python and in a suite; part of a sentence."""
    return (
        f'in Python load_dataset("{name}", "{folder}", features="{features}"), in a suite of '
        f'`parbals bench run` a table [data.NAME] with dataset = "{name}" and features = '
        f'"{features}"'
    )


def _named(part: Part) -> Callable[[], Iterator[tuple[str, Any]]]:
    def items() -> Iterator[tuple[str, Any]]:
        for row, item in enumerate(part.items if part.items is not None else ()):
            yield str(item) if isinstance(item, Path) else f"{part.stem}, row {row}", item

    return items


def _no_features(raw: Raw, folder: Path, encoder: str) -> InputError:
    wanted = " and ".join(str(folder / _cache_name(encoder, stem)) for stem in _stems(raw))
    if any(part.items is None for part in raw.parts.values()):
        return InputError(
            f"{raw.name} has no features of {encoder} yet, and its "
            f"{'texts' if raw.kind == 'text' else 'images'} are not in {folder}: put them there, "
            f"or features made elsewhere as {wanted}."
        )
    plain = {"text": "tfidf", "pixels": "pixels"}.get(raw.kind)
    other = ""
    if plain:
        how = _how_to_choose(raw.name, folder, plain)
        other = f"; features {plain} need no encoder: {how}"
    return InputError(
        f"{raw.name} has no features of {encoder} yet: run `parbals bench data embed {raw.name} "
        f"--encoder {shlex.quote(encoder)} --data {shlex.quote(str(folder))}`, which writes "
        f"{wanted}{other}."
    )


def _stems(raw: Raw) -> list[str]:
    return [part.stem for part in raw.parts.values()]


def _cached(raw: Raw, folder: Path, encoder: str) -> dict[str, np.ndarray]:
    """Rows of an encoder's files."""
    X: dict[str, np.ndarray] = {}
    for name, part in raw.parts.items():
        path = _file(folder, encoder, part.stem)
        if path is None:
            raise _no_features(raw, folder, encoder)
        X[name] = read_matrix(path, len(part.y), f"{raw.name} ({part.stem})")
    if len({matrix.shape[1] for matrix in X.values()}) != 1:
        shown = ", ".join(f"{name} {matrix.shape[1]}" for name, matrix in X.items())
        raise InputError(
            f"The features of {encoder} for {raw.name} differ in length ({shown}); make them again."
        )
    return X


def _tfidf(raw: Raw, seed: int) -> dict[str, np.ndarray]:
    """TF-IDF and SVD of the pool's texts; up to 256 directions, fewer where it has few words."""
    if raw.kind != "text":
        raise InputError(f"{raw.name} has no texts, so there are no tfidf features of it.")
    texts = {name: tuple(part.items or ()) for name, part in raw.parts.items()}
    n_features = max(1, min(_DIRECTIONS, len(texts["train"]) // 4))
    try:
        encoder = TextFeatures(n_features, seed=seed).fit(texts["train"])
    except ValueError as error:
        raise InputError(f"{raw.name} has too few words for tfidf features ({error}).") from None
    return {name: encoder.transform(part).astype(np.float32) for name, part in texts.items()}


def _pixels(raw: Raw) -> dict[str, np.ndarray]:
    matrices = {}
    for name, part in raw.parts.items():
        if not isinstance(part.items, np.ndarray):
            raise InputError(
                f"{raw.name} ({part.stem}) has no pixels here; put the images into its folder."
            )
        matrices[name] = part.items.reshape(len(part.items), -1).astype(np.float32) / 255.0
    return matrices
