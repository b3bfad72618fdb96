"""Text files as people saved them: which encoding, and whether packed by gzip."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, TypeVar, cast

from parbals.errors import InputError

from parbals_label.readers.source import short

__all__ = ["GUESS", "LIMIT", "NUL", "UndecodableError", "decoding", "lines_of", "open_text"]

# The longest line or cell: a book fits, and a quote left open does not fill the memory.
LIMIT = 1 << 26
GUESS = "cp1252"
NUL = "contains a NUL character; it is damaged, or UTF-16 without a mark: save the file as UTF-8"
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


class UndecodableError(InputError):
    """A file holds bytes that its encoding does not allow."""

    def __init__(self, name: str, row: int, encoding: str) -> None:
        super().__init__(
            f"{name} holds bytes that are not {encoding}, at or after row {row}; save it as UTF-8, "
            "or name its encoding."
        )


def decoding(path: Path, asked: str | None, read: Callable[[str | None], T]) -> T:
    """What ``read`` makes of a file in the encoding asked for, or in that of the file.

    The mark at the start decides, which :func:`open_text` sees; else UTF-8 if all bytes agree; else
    :data:`GUESS` if they do; else latin-1. So ``read`` must read to the end, unless another
    encoding is asked for.
    """
    for guess in (None, GUESS):
        try:
            return read(asked or guess)
        except UndecodableError:
            if asked is not None or _marked(path) is not None:
                raise
    return read("latin-1")


def _marked(path: Path) -> str | None:
    with _explained(path), _open_bytes(path) as file:
        return _mark(file.read(4))


def _mark(start: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


@contextmanager
def open_text(path: Path, encoding: str | None) -> Iterator[TextIO]:
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
            yield io.TextIOWrapper(file, encoding=asked, newline="")
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


def lines_of(file: TextIO) -> Iterator[str]:
    """Lines of the file, none longer than the limit."""
    while line := file.readline(LIMIT):
        if len(line) >= LIMIT:
            raise csv.Error("field larger than field limit")
        yield line
