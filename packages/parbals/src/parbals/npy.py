"""Arrays in .npy and .npz files from anybody: a header counts as far as the bytes agree.

Nothing is unpickled, and nothing is unpacked before it is known how much it would become.
"""

import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.lib import format as npy

from parbals.errors import InputError

__all__ = ["DAMAGED_ZIP", "NpyHeader", "members_of", "read_header", "read_member"]

DAMAGED_ZIP = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What unpacking raises where a file is damaged, or is not a zip file."""
_CHUNK = 1 << 20
# Deflate does no better than about 1,032 to 1. Features reach 10 to 1, one-hot columns perhaps 50.
_DEFLATE_LIMIT = 1_040
_BOMB_RATIO, _BOMB_BYTES = 100, 1 << 28


@dataclass(frozen=True)
class NpyHeader:
    """What .npy data says of itself."""

    shape: tuple[int, ...]
    column_major: bool
    dtype: np.dtype
    start: int  # where the numbers begin, from the start of the .npy data

    @property
    def n_bytes(self) -> int:
        # Python integers: a huge shape does not wrap around
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], n_bytes: int, name: str) -> NpyHeader:
    """The header of .npy data that is ``n_bytes`` long, checked before anything is allocated."""
    try:
        version = npy.read_magic(file)
        reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if reader is None:
            raise InputError(
                f"{name} is a .npy file of version {version[0]}.{version[1]}, which holds no plain "
                "numbers."
            )
        shape, column_major, dtype = reader(file)
    except InputError:
        raise
    except Exception as error:  # it is parsed as a Python literal, which can fail in many ways
        raise InputError(
            f"{name} is not a .npy file, or is damaged ({type(error).__name__} in its header)."
        ) from None
    if dtype.hasobject:
        raise InputError(
            f"{name} holds Python objects, which could run code when read; save numbers or strings "
            "instead."
        )
    header = NpyHeader(shape, column_major, dtype, file.tell())
    if min(shape, default=0) < 0 or header.n_bytes != n_bytes - header.start:
        raise InputError(
            f"{name} says it holds {' × '.join(map(str, shape))} values of type {dtype}, but has "
            f"{n_bytes - header.start:,} bytes for them; it is damaged or cut short, so save it "
            "again."
        )
    return header


def members_of(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """Array's name → where it is; refused where one, or all together, look like a bomb."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise InputError(f"{path.name} holds two arrays of the same name; save it again.")
    file_size = path.stat().st_size
    for key, info in members.items():
        _check_member(info, file_size, f"{path.name}, array {key!r}")
    _check_growth(file_size, sum(info.file_size for info in members.values()), path.name)
    return members


def _check_member(info: zipfile.ZipInfo, file_size: int, name: str) -> None:
    """Refuse what claims more than its compressed bytes can hold, and what only a bomb holds."""
    stored = info.compress_type == zipfile.ZIP_STORED
    if info.flag_bits & 1 or (not stored and info.compress_type != zipfile.ZIP_DEFLATED):
        raise InputError(
            f"{name} is encrypted or compressed in an unknown way; save it with numpy.savez."
        )
    most = info.compress_size if stored else info.compress_size * _DEFLATE_LIMIT
    if info.compress_size > file_size or info.file_size > most:
        raise InputError(
            f"{name} claims {info.file_size:,} bytes, more than the file can hold; it is damaged "
            "or made to harm."
        )
    _check_growth(info.compress_size, info.file_size, name)


def _check_growth(small: int, large: int, name: str) -> None:
    if large > max(_BOMB_BYTES, small * _BOMB_RATIO):
        raise InputError(
            f"{name} would grow from {small:,} to {large:,} bytes, which looks like a zip bomb; if "
            "the data is real, save it as .npy."
        )


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> np.ndarray:
    """Unpack one array; zipfile checks its checksum when the last byte is read."""
    with archive.open(info) as file:
        header = read_header(file, info.file_size, name)
        data = np.empty(header.n_bytes, np.uint8)
        view, filled = data.data, 0
        while chunk := file.read(_CHUNK):
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
    if filled != header.n_bytes:
        raise InputError(f"{name} is cut short; save it again.")
    order: Literal["F", "C"] = "F" if header.column_major else "C"
    return np.ndarray(header.shape, header.dtype, data, order=order)
