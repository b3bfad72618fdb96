"""Text files: detection of the encoding, and gzip."""

import codecs
import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar

from parbals.errors import InputError

from parbals_label.readers.source import check_growth, short, where

__all__ = [
    "GUESS",
    "LIMIT",
    "NUL",
    "UndecodableError",
    "decoding",
    "lines_of",
    "open_text",
    "replaced",
]

LIMIT = 1 << 26
"""Characters of a line or cell: a book fits, and an open quote does not fill the memory."""
GUESS = "cp1252"
"""The encoding of a file that is not UTF-8."""
NUL = (
    "contains a NUL character; it is damaged, or UTF-16 without a byte order mark (--encoding "
    "utf-16-le)"
)
REPLACED = "\ufffd"
"""The replacement character for bytes that cannot be decoded."""
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, with whose mark it begins
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY_FORMATS = {
    b"PAR1": "is a Parquet file: give it the extension .parquet",
    b"\x93NUMPY": "is a NumPy file: give it the extension .npy",
    b"PK\x03\x04": "is a zip file or a spreadsheet: unpack it, or save the sheet as CSV",
    b"ARROW1": "is an Arrow file: save it as .parquet",
    b"\x1f\x8b": "is compressed: unpack it first",
}


T = TypeVar("T")
"""A result that has ``rows()``."""


class UndecodableError(InputError):
    """A file contains bytes that cannot be decoded."""

    def __init__(self, location: str, encoding: str) -> None:
        self.encoding = encoding
        super().__init__(
            f"{location} holds bytes that are not {encoding}; name the encoding of the file "
            "(--encoding cp1252), or read \ufffd in their place (--encoding-errors replace)."
        )


def decoding(
    path: Path, requested: str | None, errors: str, read: Callable[[str | None, str], T]
) -> T:
    """Read a file in the requested encoding, or in a detected one.

    A byte order mark decides, which :func:`open_text` handles; otherwise UTF-8 if all or most
    characters beyond ASCII are valid; otherwise :data:`GUESS` if it fits; otherwise latin-1. If the
    requested encoding, the byte order mark or UTF-8 does not fit all bytes, ``errors`` ("strict" or
    "replace") decides. So ``read`` must read to the end, unless an encoding is requested.
    """
    try:
        return read(requested, "strict")
    except UndecodableError as error:
        if requested is not None or _is_mostly_valid(path, error.encoding):
            lenient = read(requested, "replace")
            if errors != "strict":
                return lenient
            raise UndecodableError(_first_replaced(path.name, lenient), error.encoding) from None
    with suppress(UndecodableError):
        return read(GUESS, "strict")
    return read("latin-1", "strict")


def _is_mostly_valid(path: Path, encoding: str) -> bool:
    """Whether a file has a byte order mark, or most characters beyond ASCII are valid UTF-8."""
    if encoding != "utf-8":
        return True
    n_invalid = 0
    n_beyond_ascii = 0
    with open_text(path, encoding, "replace") as file:
        while text := file.read(1 << 20):
            n_invalid += text.count(REPLACED)
            n_beyond_ascii += len(text) - len(text.encode("ascii", "ignore"))
    return n_beyond_ascii > 2 * n_invalid


def _first_replaced(name: str, opened: Any) -> str:
    """Return the location of the first cell with replaced bytes."""
    with suppress(InputError):
        for row, values in opened.rows():
            for column, cell in values.items():
                if REPLACED in str(cell):
                    return where(name, row, column)
    return where(name, 1)


def _marked_encoding(start: bytes) -> str | None:
    """Return the encoding of a byte order mark."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


@contextmanager
def open_text(path: Path, encoding: str | None, errors: str = "strict") -> Iterator[TextIO]:
    """Open a file as text with its own line ends.

    The encoding None stands for that of the byte order mark, or UTF-8.
    """
    with _explaining_errors(path), _open_bytes(path) as file:
        start = file.read(8)
        file.seek(0)
        for magic, fault in _BINARY_FORMATS.items():
            if start.startswith(magic):
                raise InputError(f"{path.name} is not text, but {fault}.")
        marked = _marked_encoding(start)
        try:
            codec = codecs.lookup(encoding or marked or "utf-8").name
            # utf-16-le would leave the byte order mark in the first column's name
            if marked and codec.startswith(marked.removesuffix("-sig")):
                codec = marked
            yield io.TextIOWrapper(file, encoding=codec, errors=errors, newline="")
        except LookupError:
            raise InputError(
                f"{short(encoding)} is not a text encoding; try utf-8, utf-16 or cp1252."
            ) from None


def _open_bytes(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return io.BufferedReader(_BoundedGzip(path))
    return path.open("rb")


class _BoundedGzip(io.RawIOBase):
    """A compressed file that is refused where it unpacks to more than data does."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._packed_size = path.stat().st_size
        self._file = gzip.GzipFile(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        content = self._file.read(len(buffer))
        check_growth(self._packed_size, self._file.tell(), self._name, "unpack it first")
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def _explaining_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into an InputError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path.name} cannot be read: it is damaged or truncated ({error})."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def replaced(name: str, encoding: str, errors: str) -> tuple[str, ...]:
    """Return a note about bytes that were replaced, if they were."""
    note = f"Bytes of {name} that are not {encoding} are read as {REPLACED}."
    return () if errors == "strict" else (note,)


def lines_of(file: TextIO) -> Iterator[str]:
    """Iterate over the lines of a file; one longer than the limit is refused."""
    while line := file.readline(LIMIT):
        if len(line) >= LIMIT:
            raise csv.Error("field larger than field limit")
        yield line
