"""Text files as people saved them: which encoding, and whether packed by gzip."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, cast

from parbals.errors import InputError

from parbals_label.readers.source import short

__all__ = ["LIMIT", "NUL", "detect_encoding", "encoding_of", "lines_of", "open_text", "undecodable"]

# The longest line or cell: a book fits, and a quote left open does not fill the memory.
LIMIT = 1 << 26
NUL = "contains a NUL character; it is damaged, or UTF-16 without a mark: save the file as UTF-8"
_CHUNK = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"


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


def detect_encoding(path: Path) -> str:
    """The mark at the start decides; else UTF-8 if all bytes agree; else cp1252; else latin-1."""
    with _explained(path), _open_bytes(path) as file:
        chunk = file.read(_CHUNK)
        for mark, encoding in _MARKS:
            if chunk.startswith(mark):
                return encoding
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        is_utf8 = is_cp1252 = True
        while chunk:
            is_cp1252 = is_cp1252 and not any(byte in chunk for byte in _NOT_IN_CP1252)
            is_utf8 = is_utf8 and _decodes(decoder, chunk)
            chunk = file.read(_CHUNK)
    if is_utf8 and _decodes(decoder, b"", final=True):
        return "utf-8"
    return "cp1252" if is_cp1252 else "latin-1"


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True


def encoding_of(path: Path, asked: str | None) -> str:
    """The encoding a user named, if there is such a one, or the detected one."""
    if asked is None:
        return detect_encoding(path)
    try:
        asked = codecs.lookup(asked).name
    except LookupError:
        raise InputError(
            f"{short(asked)} is not a text encoding; try utf-8, utf-16 or cp1252."
        ) from None
    with _explained(path), _open_bytes(path) as file:
        start = file.read(4)
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "")
    # utf-16-le read as such would leave the mark in the first column's name
    return marked if marked and asked.startswith(marked.removesuffix("-sig")) else asked


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """The file as text with its own line ends."""
    with _explained(path), _open_bytes(path) as file:
        try:
            yield io.TextIOWrapper(file, encoding=encoding, newline="")
        except LookupError:
            raise InputError(
                f"{short(encoding)} is not a text encoding; try utf-8, utf-16 or cp1252."
            ) from None


def lines_of(file: TextIO) -> Iterator[str]:
    """Lines of the file, none longer than the limit."""
    while line := file.readline(LIMIT):
        if len(line) >= LIMIT:
            raise csv.Error("field larger than field limit")
        yield line


def undecodable(name: str, row: int, encoding: str) -> str:
    """The sentence for bytes that are not what the encoding allows."""
    return (
        f"{name} holds bytes that are not {encoding}, at or after row {row}; save it as UTF-8, or "
        "name its encoding."
    )
