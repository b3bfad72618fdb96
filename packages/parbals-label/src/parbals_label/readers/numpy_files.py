"""NumPy files: a header counts as far as the file's bytes agree, and nothing is unpickled."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.npy import DAMAGED_ZIP, members_of, read_header, read_member

from parbals_label.readers.source import Row, Source, head_of, short

__all__ = ["open_npy", "open_npz"]

_TEXT_ARRAYS = ("id", "text")


def _check_features(dtype: np.dtype, shape: tuple[int, ...], name: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{name} holds values of type {dtype}; features must be real numbers.")
    if len(shape) != 2:
        raise InputError(
            f"{name} has {len(shape)} axes; features must have two: one row an item, one column a "
            "feature."
        )
    if 0 in shape:
        raise InputError(
            f"{name} has {shape[0]} rows and {shape[1]} columns; at least one of each is needed."
        )


def open_npy(path: Path) -> Source:
    """A 2-D array of numbers, memory-mapped; its rows are the items."""
    with path.open("rb") as file:
        header = read_header(file, path.stat().st_size, path.name)
    _check_features(header.dtype, header.shape, path.name)
    order: Any = "F" if header.column_major else "C"
    features = np.memmap(path, header.dtype, "r", header.start, header.shape, order)
    return _source({}, features, "npy", path.name)


def open_npz(path: Path, label: str | None = None) -> Source:
    """One 2-D array, the features, and perhaps 1-D arrays ``id``, ``label`` and ``text``.

    ``label``: the array with the labels, which must then be there; None is the one called "label",
    if any.
    """
    named = (*_TEXT_ARRAYS, label or "label")
    try:
        with zipfile.ZipFile(path) as archive:
            members = members_of(archive, path)
            if label is not None and label not in members:
                raise InputError(
                    f"{path.name} has no array {short(label)} with the labels; name the one that "
                    f"has them; there are: {', '.join(map(short, list(members)[:10])) or 'none'}."
                )
            texts = {
                key: _texts(archive, members[key], f"{path.name}, array {key!r}")
                for key in dict.fromkeys(named)
                if key in members
            }
            others = [key for key in members if key not in named]
            if len(others) > 1:
                raise InputError(
                    f"{path.name} holds {len(others)} arrays besides "
                    f"{', '.join(dict.fromkeys(named))} ({', '.join(map(short, others[:5]))}); "
                    "keep only the one with the features."
                )
            features = None
            for key in others:
                features = read_member(archive, members[key], f"{path.name}, array {key!r}")
                _check_features(features.dtype, features.shape, f"{path.name}, array {key!r}")
    except DAMAGED_ZIP as error:
        raise InputError(
            f"{path.name} is damaged or is not an .npz file ({error}); save it again."
        ) from None
    if not texts and features is None:
        raise InputError(f"{path.name} holds no arrays.")
    return _source(texts, features, "npz", path.name)


def _texts(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> list[Any]:
    array = read_member(archive, info, name)
    if array.dtype.kind not in "USiub" or array.ndim != 1:
        raise InputError(
            f"{name} has {array.ndim} axes and type {array.dtype}; it must be one axis of strings "
            "or integers."
        )
    if 0 in (len(array), array.dtype.itemsize):
        raise InputError(f"{name} is empty; it needs one value an item.")
    try:
        return list(array.tolist())
    except (ValueError, SystemError):
        raise InputError(f"{name} holds numbers that are not characters; save it again.") from None


def _source(
    texts: dict[str, list[Any]], features: np.ndarray | None, kind: str, name: str
) -> Source:
    lengths = {key: len(values) for key, values in texts.items()}
    if features is not None:
        lengths["features"] = len(features)
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise InputError(
            f"{name} holds arrays of different lengths: {listed} rows; they must describe the same "
            "items."
        )
    n_rows = next(iter(lengths.values()))

    def rows() -> Iterator[Row]:
        for index in range(n_rows):
            yield Row(index + 1, {key: values[index] for key, values in texts.items()})

    return Source(list(texts), n_rows, rows, kind, name, features, head=head_of(rows))
