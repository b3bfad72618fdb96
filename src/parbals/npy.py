"""The header of .npy data, which may come from anybody: it counts as far as the bytes agree."""

import math
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.lib import format as npy

from parbals.errors import InputError

__all__ = ["NpyHeader", "read_header"]


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
