"""From items to an array file: in blocks, resumable, with every unreadable item named."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.features.encoders.base import Encoder, Items
from parbals.features.encoders.prepared import (
    SHOWN,
    Prepared,
    UnreadableError,
    as_now,
    bad_of,
    clause,
    prepared,
    without_pillow_warnings,
)
from parbals.features.encoders.row_file import RowFile, sidecar_path

__all__ = ["Embedded", "UnreadableError", "block_digests", "embed", "find_unreadable"]

BLOCK_ROWS = 256
_CHUNK = 1 << 20
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Embedded:
    """A complete array file, how many of its rows were computed this time, and (row, name) of those
    skipped."""

    path: Path
    n_rows: int
    n_features: int
    n_computed: int
    skipped: tuple[tuple[int, str], ...]


def embed(
    encoder: Encoder,
    name: str,
    items: Items,
    n_items: int,
    target: Path,
    *,
    batch_size: int = 32,
    skip_bad: bool = False,
    block_rows: int = BLOCK_ROWS,
    digests: Sequence[str] | None = None,
    progress: Progress = lambda stage, done: None,
) -> Embedded:
    """Encode all items into ``target`` (.npy, one row an item), computing only what is not there
    yet.

    Rows are reused if they were made by the same encoder, model and precision of the same items:
    text, pixels or bytes of the image file. Within a block, items of similar length are encoded
    together; blocks always begin at the same rows, so a run that was interrupted ends with the very
    bytes of one that was not, given the same batch size and device. ``progress`` is told the stage
    and how many items are through.

    Items that cannot be read stop everything, all of them named, unless ``skip_bad``: then their
    rows are the mean of the others and the sidecar lists them under "skipped". Rows that an earlier
    call has skipped stop it as well.
    """
    if n_items < 1:
        raise InputError("There are no items to encode.")
    if not 1 <= batch_size <= block_rows:
        raise InputError(f"The batch size is {batch_size}; it must be 1 to {block_rows}.")
    known = (
        list(block_digests(items, n_items, block_rows, progress))
        if digests is None
        else list(digests)
    )
    made_of = {"encoder": name, "model": encoder.model, "dtype": encoder.dtype}
    file = RowFile(target, made_of, n_items, block_rows)
    computed = 0
    if file.is_complete(known):
        if file.skipped and not skip_bad:
            raise UnreadableError(
                clause(as_now(file.skipped, items), n_items, encoder.kind, sidecar_path(target))
            )
    else:
        with file.growing(known) as done, without_pillow_warnings():
            if file.skipped and not skip_bad:
                _refuse(file, encoder, as_now(file.skipped, items), done, items, n_items)
            rest = islice(items(), done, None)
            computed = n_items - done
            progress("encoding", done)
            waiting: list[tuple[int, list[Prepared]]] = []
            for number, block in enumerate(
                prepared(encoder, rest, block_rows), start=done // block_rows
            ):
                start = number * block_rows
                if not skip_bad and any(one.why is not None for one in block):
                    _refuse(file, encoder, bad_of(block, start), start + len(block), items, n_items)
                waiting.append((number, block))
                if file.width is None and all(one.why is not None for one in block):
                    continue  # how long a row is, is not known before the first good item
                rows = [
                    _encoded(encoder, held, batch_size, file.width) for _, held in reversed(waiting)
                ][::-1]
                for (place, held), made in zip(waiting, _same_width(rows), strict=True):
                    file.append(made, known[place], bad_of(held, place * block_rows))
                waiting.clear()
                progress("encoding", start + len(block))
            if waiting:
                raise InputError(f"None of the {n_items} {encoder.kind}s can be read.")
            file.finish()
    skipped = tuple((bad["row"], bad["name"]) for bad in as_now(file.skipped, items))
    return Embedded(target, n_items, int(file.width or 0), computed, skipped)


def block_digests(
    items: Items,
    n_items: int,
    block_rows: int = BLOCK_ROWS,
    progress: Progress = lambda stage, done: None,
) -> Iterator[str]:
    """A digest of each block's contents; of images the bytes in their files, whatever they are
    called."""
    walk, seen = items(), 0
    while block := list(islice(walk, block_rows)):
        digest = hashlib.blake2b(digest_size=8)
        for _, item in block:
            _add(digest, item)
        seen += len(block)
        progress("checking", seen)
        yield digest.hexdigest()
    if seen != n_items:
        raise InputError(f"There are {seen} items where {n_items} were announced.")


def _add(digest: Any, item: Any) -> None:
    if isinstance(item, str):
        content = item.encode("utf-8", "surrogatepass")
        digest.update(b"t%d\0" % len(content) + content)
    elif isinstance(item, np.ndarray):
        digest.update(
            f"a{item.dtype.str}{item.shape}\0".encode() + np.ascontiguousarray(item).tobytes()
        )
    elif isinstance(item, os.PathLike) and Path(item).is_file():
        try:
            with open(item, "rb") as file:
                digest.update(b"f%d\0" % os.fstat(file.fileno()).st_size)
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError:
            digest.update(b"unreadable\0")
    else:
        digest.update(b"missing\0")


def _encoded(
    encoder: Encoder, block: list[Prepared], batch_size: int, width: int | None
) -> np.ndarray:
    """Rows (B, D) of a block; of those that cannot be read, zeros for now."""
    good = [place for place, one in enumerate(block) if one.why is None]
    good.sort(key=lambda place: encoder.size(block[place].value))
    rows = np.zeros((len(block), width or 0), encoder.dtype)
    for start in range(0, len(good), batch_size):
        places = good[start : start + batch_size]
        found = np.asarray(encoder.encode([block[place].value for place in places]))
        if found.ndim != 2 or len(found) != len(places) or found.dtype.kind != "f":
            raise InputError(
                f"The encoder made {found.dtype} {found.shape} of {len(places)} items; rows are "
                "needed."
            )
        if not np.isfinite(found).all():
            place = places[int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])]
            raise InputError(
                f"The encoder made numbers that are not finite of {block[place].name}."
            )
        if not rows.shape[1]:
            rows = np.zeros((len(block), found.shape[1]), encoder.dtype)
        if found.shape[1] != rows.shape[1]:
            raise InputError(
                f"The encoder made rows of {found.shape[1]} numbers after rows of {rows.shape[1]}."
            )
        rows[places] = found
    return rows


def _same_width(blocks: list[np.ndarray]) -> list[np.ndarray]:
    """Blocks without any good item are as wide as the last, which has one."""
    width = blocks[-1].shape[1]
    return [
        block if block.shape[1] else np.zeros((len(block), width), block.dtype) for block in blocks
    ]


def find_unreadable(
    encoder: Encoder,
    name: str,
    items: Items,
    n_items: int,
    target: Path,
    *,
    progress: Progress = lambda stage, done: None,
) -> str | None:
    """A clause that names the items :func:`embed` would stop at; nothing is encoded.

    None where all can be read.
    """
    if target.is_file():
        made_of = {"encoder": name, "model": encoder.model, "dtype": encoder.dtype}
        file = RowFile(target, made_of, n_items, BLOCK_ROWS)
        if file.is_complete(list(block_digests(items, n_items, progress=progress))):
            bad = as_now(file.skipped, items)
            return clause(bad, n_items, encoder.kind, sidecar_path(target)) if bad else None
    bad = []
    with without_pillow_warnings():
        for number, block in enumerate(prepared(encoder, items(), BLOCK_ROWS)):
            bad += bad_of(block, number * BLOCK_ROWS)
            progress("checking", number * BLOCK_ROWS + len(block))
    return clause(bad, n_items, encoder.kind, None) if bad else None


def _refuse(
    file: RowFile,
    encoder: Encoder,
    bad: list[dict[str, Any]],
    looked_at: int,
    items: Items,
    n_items: int,
) -> None:
    """Look at what is left, without encoding it, so that every bad item is named at once."""
    for block in prepared(encoder, islice(items(), looked_at, None), BLOCK_ROWS):
        bad += bad_of(block, looked_at)
        looked_at += len(block)
    if len(bad) > SHOWN:
        file.note_bad(bad)
    raise UnreadableError(clause(bad, n_items, encoder.kind, sidecar_path(file.target)))
