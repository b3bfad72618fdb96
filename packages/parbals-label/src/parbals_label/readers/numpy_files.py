"""NumPy files from untrusted sources: headers are checked against the size of the file.

Nothing is unpickled, and nothing is unpacked before its size is known.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from parbals.errors import InputError

from parbals_label.readers.source import Row, Source, check_growth, head_of, short

__all__ = ["DAMAGED_ZIP", "arrays_in", "members_of", "open_npy", "open_npz", "read_member"]

DAMAGED_ZIP = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""Errors of unpacking a file that is damaged or not a zip file."""
_TEXT_ARRAYS = ("id", "text", "label")
_MAX_DEFLATE_RATIO = 1_040
"""Deflate compresses at most by about 1,032."""
_INSTEAD = "save it as .npy"


@dataclass(frozen=True)
class _Header:
    """The header of .npy data."""

    shape: tuple[int, ...]
    column_major: bool
    dtype: np.dtype
    start: int  # offset of the numbers in the .npy data

    @property
    def n_bytes(self) -> int:
        # Python integers: a huge shape does not wrap around
        return math.prod(self.shape) * self.dtype.itemsize


def _read_header(file: IO[bytes], n_bytes: int, name: str) -> _Header:
    """Read the header of .npy data of ``n_bytes``, checked before anything is allocated."""
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        reader = readers.get(version)
        if reader is None:
            raise InputError(
                f"{name} is a .npy file of version {version[0]}.{version[1]}, which holds no plain "
                "numbers."
            )
        shape, column_major, dtype = reader(file)
    except InputError:
        raise
    except Exception as error:  # parsing it as a Python literal can fail in many ways
        raise InputError(
            f"{name} is not a .npy file, or is damaged ({type(error).__name__} in its header)."
        ) from None
    if dtype.hasobject:
        raise InputError(
            f"{name} holds Python objects, which could run code when read; save numbers or strings "
            "instead."
        )
    header = _Header(shape, column_major, dtype, file.tell())
    if min(shape, default=0) < 0 or header.n_bytes != n_bytes - header.start:
        raise InputError(
            f"{name} says it holds {' × '.join(map(str, shape))} values of type {dtype}, but has "
            f"{n_bytes - header.start:,} bytes for them; it is damaged or cut short, so save it "
            "again."
        )
    return header


def _check_features(dtype: np.dtype, shape: tuple[int, ...], name: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{name} holds values of type {dtype}; features must be real numbers.")
    if len(shape) != 2:
        raise InputError(
            f"{name} has {len(shape)} axes; features must have two: one row per item, one column "
            "per feature."
        )
    if 0 in shape:
        raise InputError(
            f"{name} has {shape[0]} rows and {shape[1]} columns; at least one of each is needed."
        )


def arrays_in(path: Path, description: str) -> dict[str, np.ndarray]:
    """Return all arrays of an .npz file; ``description`` names its contents in errors."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name: read_member(archive, info, f"{path.name}, array {name!r}")
                for name, info in members_of(archive, path).items()
            }
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (*DAMAGED_ZIP, OSError) as error:
        raise InputError(f"{path} is not {description} ({error}).") from None


def open_npy(path: Path) -> Source:
    """Open a 2-D array of numbers, memory-mapped; its rows are the items."""
    with path.open("rb") as file:
        header = _read_header(file, path.stat().st_size, path.name)
    _check_features(header.dtype, header.shape, path.name)
    order: Any = "F" if header.column_major else "C"
    features = np.memmap(path, header.dtype, "r", header.start, header.shape, order)
    return _source({}, features, "npy", path.name)


def open_npz(path: Path) -> Source:
    """Open a 2-D array, the features, and optional 1-D arrays ``id``, ``label`` and ``text``."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = members_of(archive, path)
            texts = {
                key: _texts(archive, members[key], f"{path.name}, array {key!r}")
                for key in _TEXT_ARRAYS
                if key in members
            }
            feature_keys = [key for key in members if key not in _TEXT_ARRAYS]
            if len(feature_keys) > 1:
                raise InputError(
                    f"{path.name} holds {len(feature_keys)} arrays besides "
                    f"{', '.join(_TEXT_ARRAYS)} "
                    f"({', '.join(map(short, feature_keys[:5]))}); keep only the features."
                )
            features = None
            for key in feature_keys:
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
        raise InputError(f"{name} is empty; it needs one value per item.")
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


def members_of(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """Return name → member of the arrays; a probable zip bomb is refused."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise InputError(f"{path.name} holds two arrays of the same name; save it again.")
    file_size = path.stat().st_size
    for key, info in members.items():
        _check_member(info, file_size, f"{path.name}, array {key!r}")
    unpacked_size = sum(info.file_size for info in members.values())
    check_growth(file_size, unpacked_size, path.name, _INSTEAD)
    return members


def _check_member(info: zipfile.ZipInfo, file_size: int, name: str) -> None:
    """Refuse a member that claims more bytes than possible, or looks like a zip bomb."""
    is_stored = info.compress_type == zipfile.ZIP_STORED
    if info.flag_bits & 1 or (not is_stored and info.compress_type != zipfile.ZIP_DEFLATED):
        raise InputError(
            f"{name} is encrypted or compressed in an unknown way; save it with numpy.savez."
        )
    max_size = info.compress_size
    if not is_stored:
        max_size *= _MAX_DEFLATE_RATIO
    if info.compress_size > file_size or info.file_size > max_size:
        raise InputError(
            f"{name} claims {info.file_size:,} bytes, more than the file can hold; it is damaged "
            "or made to harm."
        )
    check_growth(info.compress_size, info.file_size, name, _INSTEAD)


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> np.ndarray:
    """Unpack one array; zipfile verifies its checksum at the end."""
    with archive.open(info) as file:
        _read_header(file, info.file_size, name)
    try:
        with archive.open(info) as file:
            return npy.read_array(file, allow_pickle=False)
    except ValueError:
        raise InputError(f"{name} is cut short; save it again.") from None
