"""Text files as people saved them: which encoding, and whether packed by gzip."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar, cast

from parbals.errors import InputError

from parbals_label.readers.source import short, where

__all__ = ["GUESS", "LIMIT", "NUL", "UndecodableError", "decoding", "lines_of"]
__all__ += ["open_text", "replaced"]

# The longest line or cell: a book fits, and a quote left open does not fill the memory.
LIMIT = 1 << 26
GUESS = "cp1252"
NUL = "contains a NUL character; it is damaged, or UTF-16 without a mark (--encoding utf-16-le)"
REPLACED = "\ufffd"
"""Stands for bytes that an encoding does not allow."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_TEXT = {
    b"PAR1": "is a Parquet file: give it the ending .parquet",
    b"\x93NUMPY": "is a NumPy file: give it the ending .npy",
    b"PK\x03\x04": "is a zip file or a spreadsheet: unpack it, or save the sheet as CSV",
    b"ARROW1": "is an Arrow file: save it as .parquet",
    b"\x1f\x8b": "is compressed: unpack it first",
}


T = TypeVar("T")
"""What has ``rows()``."""


class UndecodableError(InputError):
    """A file holds bytes that its encoding does not allow."""

    def __init__(self, place: str, encoding: str) -> None:
        self.encoding = encoding
        super().__init__(
            f"{place} holds bytes that are not {encoding}; name the encoding of the file "
            "(--encoding cp1252), or read \ufffd in their place (--encoding-errors replace)."
        )


def decoding(path: Path, asked: str | None, errors: str, read: Callable[[str | None, str], T]) -> T:
    """What ``read`` makes of a file in the encoding asked for, or in that of the file.

    The mark at the start decides, which :func:`open_text` sees; else UTF-8 if all bytes agree, or
    most that are not ASCII; else :data:`GUESS` if they do; else latin-1. Where the first two or the
    encoding asked for fail, ``errors`` (strict or replace) says what becomes of the rest. So
    ``read`` must read to the end, unless another encoding is asked for.
    """
    try:
        return read(asked, "strict")
    except UndecodableError as error:
        if asked is not None or _is_mostly(path, error.encoding):
            lenient = read(asked, "replace")
            if errors != "strict":
                return lenient
            raise UndecodableError(_place(path.name, lenient), error.encoding) from None
    with suppress(UndecodableError):
        return read(GUESS, "strict")
    return read("latin-1", "strict")


def _is_mostly(path: Path, encoding: str) -> bool:
    """Whether a file has a mark, or most of what is not ASCII can be read."""
    if encoding != "utf-8":
        return True
    n_bad = n_other = 0
    with open_text(path, encoding, "replace") as file:
        while text := file.read(1 << 20):
            n_bad += text.count(REPLACED)
            n_other += len(text) - len(text.encode("ascii", "ignore"))
    return n_other > 2 * n_bad


def _place(name: str, opened: Any) -> str:
    """The first cell with bytes that were replaced."""
    with suppress(InputError):
        for row, values in opened.rows():
            for column, cell in values.items():
                if REPLACED in str(cell):
                    return where(name, row, column)
    return where(name, 1)


def _mark(start: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


@contextmanager
def open_text(path: Path, encoding: str | None, errors: str = "strict") -> Iterator[TextIO]:
    """The file as text with its own line ends; None is what its mark says, or UTF-8."""
    with _explained(path), _open_bytes(path) as file:
        start = file.read(8)
        file.seek(0)
        for magic, fault in _NOT_TEXT.items():
            if start.startswith(magic):
                raise InputError(f"{path.name} is not text, but {fault}.")
        marked = _mark(start)
        try:
            asked = codecs.lookup(encoding or marked or "utf-8").name
            # utf-16-le read as such would leave the mark in the first column's name
            if marked and asked.startswith(marked.removesuffix("-sig")):
                asked = marked
            yield io.TextIOWrapper(file, encoding=asked, errors=errors, newline="")
        except LookupError:
            raise InputError(
                f"{short(encoding)} is not a text encoding; try utf-8, utf-16 or cp1252."
            ) from None


def _open_bytes(path: Path) -> IO[bytes]:
    packed = path.suffix.lower() == ".gz"
    return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """The reasons why a file cannot be read, in words."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path.name} cannot be read: it is damaged or cut short ({error})."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def replaced(name: str, encoding: str, errors: str) -> tuple[str, ...]:
    """The note about a file that was read although bytes of it could not be."""
    note = f"Bytes of {name} that are not {encoding} are read as {REPLACED}."
    return () if errors == "strict" else (note,)


def lines_of(file: TextIO) -> Iterator[str]:
    """Lines of the file, none longer than the limit."""
    while line := file.readline(LIMIT):
        if len(line) >= LIMIT:
            raise csv.Error("field larger than field limit")
        yield line
