"""Features of a project: one memory-mapped float32 matrix beside the database, named by its content.

Encoders turn the items' columns into rows of it. ``tfidf`` (text) and ``pixels`` (images) need no download;
``columns`` takes numbers as they are; ``given`` is a matrix the user already had.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parbals.errors import InputError, MissingDependencyError, ProjectDamagedError
from parbals.memory import release_pages

__all__ = ["ENCODERS", "encode", "load_features", "store_features"]

_ROWS = 8192
_DIRECTIONS = 256
_SIDE = 16
_LENGTH = 3.0
"""Length of encoded rows: with N(0, 1) weights, labels of short texts are predicted best at about this length."""


class Items(Protocol):
    """Items of a project, which can be gone through more than once."""

    def __call__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(id, columns) of every item, in order."""


Progress = Callable[[int], None]


def encode(encoder: str, items: Items, n_items: int, columns: list[str], base: Path, progress: Progress) -> np.ndarray:
    """Features (N, D) float32 of the given columns; ``progress`` is told how many items are done."""
    if encoder not in ENCODERS:
        raise InputError(f"There is no encoder {encoder!r}; choose one of: {', '.join(ENCODERS)}.")
    features = ENCODERS[encoder](items, n_items, columns, base, progress)
    if features.shape[1] == 0:
        raise InputError(f"The encoder {encoder} found nothing to distinguish the items by in {', '.join(columns)}.")
    return features


def _tfidf(items: Items, n_items: int, columns: list[str], base: Path, progress: Progress) -> np.ndarray:
    """TF-IDF of words and pairs of words, reduced by truncated SVD; rows of length 3."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    def texts() -> Iterator[str]:
        for done, (_, content) in enumerate(items()):
            if done % 1000 == 0:
                progress(done)
            yield "\n".join(str(content.get(column) or "") for column in columns)

    vectorizer = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), min_df=1 if n_items < 500 else 2, dtype=np.float32
    )
    vectorizer.set_params(max_features=50_000, token_pattern=r"(?u)\b\w+\b")
    try:
        weighted = vectorizer.fit_transform(texts())
    except ValueError:
        raise InputError(f"The text in {', '.join(columns)} has no words to tell the items apart by.") from None
    progress(n_items)
    n_directions = min(_DIRECTIONS, min(weighted.shape) - 1)
    if n_directions < 1:
        return _LENGTH * normalize(weighted.toarray())
    reduced = TruncatedSVD(n_directions, random_state=0).fit_transform(weighted)
    return (_LENGTH * normalize(reduced)).astype(np.float32)


def _pixels(items: Items, n_items: int, columns: list[str], base: Path, progress: Progress) -> np.ndarray:
    """Images shrunk to 16 × 16 colours, centred; enough to begin with, a real encoder is better."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingDependencyError("Reading images needs Pillow: pip install pillow") from None
    rows = np.empty((n_items, 3 * _SIDE * _SIDE), np.float32)
    for done, (name, content) in enumerate(items()):
        if done % 100 == 0:
            progress(done)
        path = base / str(content[columns[0]])
        try:
            with Image.open(path) as image:
                small = image.convert("RGB").resize((_SIDE, _SIDE))
        except (OSError, UnidentifiedImageError, ValueError) as error:
            raise InputError(f"The image of item {name!r}, {path}, cannot be read ({error}).") from None
        rows[done] = np.asarray(small, np.float32).ravel() / 255.0
    progress(n_items)
    rows -= rows.mean(axis=0)
    return _LENGTH * rows / max(float(np.sqrt(np.square(rows).sum(axis=1).mean())), 1e-12)


def _columns(items: Items, n_items: int, columns: list[str], base: Path, progress: Progress) -> np.ndarray:
    """Numbers as they are, each column scaled to mean 0 and deviation 1."""
    rows = np.empty((n_items, len(columns)), np.float64)
    for done, (name, content) in enumerate(items()):
        if done % 1000 == 0:
            progress(done)
        for place, column in enumerate(columns):
            rows[done, place] = _number(content.get(column), name, column)
    progress(n_items)
    deviation = rows.std(axis=0)
    return ((rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)


def _number(value: Any, name: str, column: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"Item {name!r}, column {column!r}, is {value!r}, which is not a finite number.")
    return number


ENCODERS: dict[str, Callable[..., np.ndarray]] = {"tfidf": _tfidf, "pixels": _pixels, "columns": _columns}


def store_features(folder: Path, features: np.ndarray, name: str = "features") -> dict[str, Any]:
    """Write a matrix, row block by row block, and return what the project must remember of them."""
    digest = hashlib.blake2b(digest_size=16)
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": features.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(features), _ROWS):
                block = np.ascontiguousarray(features[start : start + _ROWS], "<f4")
                if not np.isfinite(block).all():
                    row, column = np.argwhere(~np.isfinite(block))[0]
                    raise InputError(f"Feature {column} of item {start + row} is {block[row, column]}, not finite.")
                digest.update(block.tobytes())
                file.write(block.tobytes())
                release_pages(features)
            file.flush()
            os.fsync(file.fileno())
        file_name = f"{name}-{digest.hexdigest()[:12]}.npy"
        os.replace(temporary, folder / file_name)
    finally:
        temporary.unlink(missing_ok=True)
    return {"file": file_name, "digest": digest.hexdigest(), "shape": list(features.shape)}


def load_features(folder: Path, remembered: dict[str, Any], *, verify: bool = False) -> np.ndarray:
    """The memory-mapped matrix; with ``verify`` every byte is compared with what was written."""
    path = folder / remembered["file"]
    try:
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ProjectDamagedError(f"{path} is missing; run `parbals embed` to make the features again.") from None
    except (ValueError, OSError, EOFError) as error:
        raise ProjectDamagedError(f"{path} is damaged ({error}); run `parbals embed` to make it again.") from None
    if list(features.shape) != remembered["shape"] or features.dtype != np.dtype("<f4"):
        raise ProjectDamagedError(f"{path} has another shape than was written; run `parbals embed` to make it again.")
    if verify:
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, len(features), _ROWS):
            digest.update(np.ascontiguousarray(features[start : start + _ROWS]).tobytes())
            release_pages(features)
        if digest.hexdigest() != remembered["digest"]:
            raise ProjectDamagedError(f"{path} is not what was written; run `parbals embed` to make it again.")
    return features
