"""What can still be read of a damaged project, without SQLite's help.

SQLite opens a file as a whole or not at all. Here every page of the file, and of the committed part
of its -wal file, is looked through by itself for rows of the tables ``answers`` and ``items``.
Answers are never changed, and each carries a checksum keyed by the project's number, so any row
that passes is one that was stored. The layout read here is the published one:
https://www.sqlite.org/fileformat2.html.
"""

from collections.abc import Container, Iterator
from io import BytesIO
from os import SEEK_END
from pathlib import Path
from struct import unpack_from
from typing import BinaryIO

from parbals.errors import ProjectError
from parbals.store.database import FILE_NAME
from parbals.store.records import Answer
from parbals.store.rows import checksum
from parbals.store.schema import PAGE_SIZE
from parbals.store.witness import Witness

__all__ = ["salvage"]

_Row = list[str | int | None]
_MAX_LOCAL = PAGE_SIZE - 35
_MIN_LOCAL = (PAGE_SIZE - 12) * 32 // 255 - 23
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_OTHER_PAGES = (2, 5, 10)
"""First bytes of pages that hold no rows."""


def salvage(path: Path) -> Iterator[Answer]:
    """Every answer that can be read and proved, by number, with the id of its item where that can
    be proved too."""
    file = path if path.is_file() else path / FILE_NAME
    wal = Path(f"{file}-wal")
    try:
        log = wal.read_bytes() if wal.exists() else b""
        with BytesIO() if log and not file.exists() else file.open("rb") as content:
            yield from _answers(_Pages(content, log), Witness(file.parent))
    except OSError as error:
        raise ProjectError(
            f"{file} cannot be read ({error.strerror}), so there is nothing to salvage."
        ) from None


def _answers(pages: "_Pages", witness: Witness) -> Iterator[Answer]:
    answers: dict[int, _Row] = {}
    project = ""
    for project in _projects(pages, witness):
        for number, row in pages.rows(10):
            fields = [number, *row[1:9]]
            # The first one wins: what lies further back in a -wal file was never committed.
            if number not in answers and checksum(project, "answers", fields) == row[9]:
                answers[number] = fields
        if answers:
            break
    wanted = {fields[1] for fields in answers.values()}
    names: dict[int, str | None] = {}
    for position, row in pages.rows(4, wanted):
        if checksum(project, "items", [position, *row[1:3]]) == row[3]:
            names[position] = str(row[1])
    for _, fields in sorted(answers.items()):
        yield Answer(*[*fields, names.get(fields[1])])  # type: ignore[arg-type]


def _projects(pages: "_Pages", witness: Witness) -> list[str]:
    """Numbers the project may have: the witness knows one, and so do the settings."""
    testimony = witness.read()
    found = [testimony.project] if testimony else []
    for _, row in pages.rows(3):
        key, value, proof = row
        if key == "project" and isinstance(value, str):
            project = value.strip('"')
            if len(project) == 32 and checksum(project, "meta", (key, value)) == proof:
                found.append(project)
    return found


class _Pages:
    """The pages of a file and of the committed frames of its -wal file."""

    def __init__(self, file: BinaryIO, wal: bytes) -> None:
        self.file = file
        self.n_bytes = file.seek(0, SEEK_END)
        self.frames = _committed(wal)
        self.newest = dict(self.frames)

    def rows(
        self, n_columns: int, wanted: Container[object] | None = None
    ) -> Iterator[tuple[int, _Row]]:
        """(number, columns) of everything that looks like a row of so many columns."""
        for number in range(2, 2 + self.n_bytes // PAGE_SIZE):  # page 1 lists the tables
            yield from self._page_rows(self._main(number), n_columns, wanted)
        for number, page in self.frames:
            if number != 1:
                yield from self._page_rows(page, n_columns, wanted)

    def _main(self, number: int) -> bytes:
        self.file.seek((number - 1) * PAGE_SIZE)
        return self.file.read(PAGE_SIZE)

    def _page_rows(
        self, page: bytes, n_columns: int, wanted: Container[object] | None
    ) -> Iterator[tuple[int, _Row]]:
        if len(page) < 8 or page[0] in _OTHER_PAGES:
            return
        # The number of cells is not trusted: pointers go on until the first cell begins.
        place, first_cell = 8, len(page)
        while place + 2 <= first_cell:
            (start,) = unpack_from(">H", page, place)
            place += 2
            if not place <= start < len(page):
                continue
            first_cell = min(first_cell, start)
            try:
                size, at = _varint(page, start)
                number, at = _varint(page, at)
                if wanted is not None and number not in wanted:
                    continue
                row = _record(self._payload(page, at, size), n_columns)
            except (IndexError, ValueError):
                continue
            if row is not None:
                yield number, row

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        """The bytes of a row; long ones go on in other pages."""
        if size <= _MAX_LOCAL:
            return page[at : at + size]
        if size > self.n_bytes + len(self.frames) * PAGE_SIZE:
            raise ValueError("the row is longer than the file")
        local = _MIN_LOCAL + (size - _MIN_LOCAL) % (PAGE_SIZE - 4)
        if local > _MAX_LOCAL:
            local = _MIN_LOCAL
        parts, left = [page[at : at + local]], size - local
        following = int.from_bytes(page[at + local : at + local + 4])
        while left > 0:
            part = self.newest.get(following) or (self._main(following) if following > 0 else b"")
            if len(part) < 5:
                raise ValueError("the row goes on in a page that is not there")
            parts.append(part[4 : 4 + left])
            left -= PAGE_SIZE - 4
            following = int.from_bytes(part[:4])
        return b"".join(parts)


def _committed(data: bytes) -> list[tuple[int, bytes]]:
    """(page number, page) of a -wal file's frames up to the last commit."""
    frames, last = [], 0
    for start in range(32, len(data) - PAGE_SIZE - 23, PAGE_SIZE + 24):
        number, commit = unpack_from(">II", data, start)
        if data[start + 8 : start + 16] != data[16:24]:  # of an earlier round through the same file
            continue
        frames.append((number, data[start + 24 : start + 24 + PAGE_SIZE]))
        if commit:
            last = len(frames)
    return frames[:last]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(9):
        byte = data[at + step]
        if step == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + step + 1
    raise ValueError("not a number")


def _record(payload: bytes, n_columns: int) -> _Row | None:
    """The columns of a row of text, integers and nothing else; None if it is of another kind."""
    header, at = _varint(payload, 0)
    kinds = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
        if len(kinds) > n_columns:
            return None
    if len(kinds) != n_columns:
        return None
    row: _Row = []
    for kind in kinds:
        if kind == 0:
            row.append(None)
        elif kind in (8, 9):
            row.append(kind - 8)
        elif kind in _INTEGER_BYTES:
            size = _INTEGER_BYTES[kind]
            row.append(int.from_bytes(payload[at : at + size], signed=True))
            at += size
        elif kind >= 13 and kind % 2:
            size = (kind - 13) // 2
            row.append(payload[at : at + size].decode())
            at += size
        else:
            return None
    return row if at == len(payload) else None
