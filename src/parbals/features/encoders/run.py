"""From items to an array file: in blocks, resumable, with every unreadable item named."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.features.encoders.base import BadItem, Encoder, Items
from parbals.features.encoders.row_file import RowFile, sidecar_path

__all__ = ["Embedded", "block_digests", "embed"]

BLOCK_ROWS = 256
_CHUNK = 1 << 20
_SHOWN = 5
_THREADS = 8
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Embedded:
    """A complete array file, how many of its rows were computed this time, and (row, name) of those skipped."""

    path: Path
    n_rows: int
    n_features: int
    n_computed: int
    skipped: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class _Prepared:
    """One item after ``prepare``, or why it cannot be used."""

    name: str
    value: Any = None
    why: str | None = None


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
    """Encode all items into ``target`` (.npy, one row an item), computing only what is not there yet.

    Rows are reused if they were made by the same encoder, model and precision of the same items: text, pixels or bytes
    of the image file. Within a block, items of similar length are encoded together; blocks always begin at the same
    rows, so a run that was interrupted ends with the very bytes of one that was not, given the same batch size and
    device. ``progress`` is told the stage and how many items are through.

    Items that cannot be read stop everything, all of them named, unless ``skip_bad``: then their rows are the mean of
    the others and the sidecar lists them under "skipped".
    """
    if n_items < 1:
        raise InputError("There are no items to encode.")
    if not 1 <= batch_size <= block_rows:
        raise InputError(f"The batch size is {batch_size}; it must be 1 to {block_rows}.")
    known = list(block_digests(items, n_items, block_rows, progress)) if digests is None else list(digests)
    made_of = {"encoder": name, "model": encoder.model, "dtype": encoder.dtype}
    file = RowFile(target, made_of, n_items, block_rows)
    computed = 0
    if not file.is_complete(known):
        with file.growing(known) as done, _without_pillow_warnings():
            rest = islice(items(), done, None)
            computed = n_items - done
            progress("encoding", done)
            waiting: list[tuple[int, list[_Prepared]]] = []
            for number, block in enumerate(_prepared(encoder, rest, block_rows), start=done // block_rows):
                start = number * block_rows
                if not skip_bad and any(one.why is not None for one in block):
                    _refuse(file, encoder, block, start, islice(items(), start + len(block), None), n_items)
                waiting.append((number, block))
                if file.width is None and all(one.why is not None for one in block):
                    continue  # how long a row is, is not known before the first good item
                rows = [_encoded(encoder, held, batch_size, file.width) for _, held in reversed(waiting)][::-1]
                for (place, held), made in zip(waiting, _same_width(rows), strict=True):
                    file.append(made, known[place], _bad(held, place * block_rows))
                waiting.clear()
                progress("encoding", start + len(block))
            if waiting:
                raise InputError(f"None of the {n_items} {encoder.kind}s can be read.")
            file.finish()
    skipped = tuple((bad["row"], bad["name"]) for bad in file.skipped)
    return Embedded(target, n_items, int(file.width or 0), computed, skipped)


def block_digests(
    items: Items, n_items: int, block_rows: int = BLOCK_ROWS, progress: Progress = lambda stage, done: None
) -> Iterator[str]:
    """A digest of each block's contents; of images the bytes in their files, whatever they are called."""
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
        digest.update(f"a{item.dtype.str}{item.shape}\0".encode() + np.ascontiguousarray(item).tobytes())
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


def _prepared(encoder: Encoder, items: Iterable[tuple[str, Any]], block_rows: int) -> Iterator[list[_Prepared]]:
    """Blocks of prepared items; the next one is being prepared while the last is used."""

    def one(pair: tuple[str, Any]) -> _Prepared:
        try:
            return _Prepared(pair[0], encoder.prepare(pair[1]))
        except BadItem as error:
            return _Prepared(pair[0], why=str(error))

    walk = iter(items)
    if encoder.kind == "text":  # cut into words where it is encoded; there is nothing to wait for
        while block := [one(pair) for pair in islice(walk, block_rows)]:
            yield block
        return
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:

        def begin() -> list[Future[_Prepared]]:
            return [pool.submit(one, pair) for pair in islice(walk, block_rows)]

        try:
            coming = begin()
            while coming:
                ready, coming = coming, begin()
                yield [future.result() for future in ready]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _encoded(encoder: Encoder, block: list[_Prepared], batch_size: int, width: int | None) -> np.ndarray:
    """Rows (B, D) of a block; of those that cannot be read, zeros for now."""
    good = [place for place, one in enumerate(block) if one.why is None]
    good.sort(key=lambda place: encoder.size(block[place].value))
    rows = np.zeros((len(block), width or 0), encoder.dtype)
    for start in range(0, len(good), batch_size):
        places = good[start : start + batch_size]
        found = np.asarray(encoder.encode([block[place].value for place in places]))
        if found.ndim != 2 or len(found) != len(places) or found.dtype.kind != "f":
            raise InputError(f"The encoder made {found.dtype} {found.shape} of {len(places)} items; rows are needed.")
        if not np.isfinite(found).all():
            place = places[int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])]
            raise InputError(f"The encoder made numbers that are not finite of {block[place].name}.")
        if not rows.shape[1]:
            rows = np.zeros((len(block), found.shape[1]), encoder.dtype)
        if found.shape[1] != rows.shape[1]:
            raise InputError(f"The encoder made rows of {found.shape[1]} numbers after rows of {rows.shape[1]}.")
        rows[places] = found
    return rows


def _same_width(blocks: list[np.ndarray]) -> list[np.ndarray]:
    """Blocks without any good item are as wide as the last, which has one."""
    width = blocks[-1].shape[1]
    return [block if block.shape[1] else np.zeros((len(block), width), block.dtype) for block in blocks]


def _bad(block: list[_Prepared], start: int) -> list[dict[str, Any]]:
    return [
        {"row": start + place, "name": one.name, "why": one.why}
        for place, one in enumerate(block)
        if one.why is not None
    ]


def _refuse(
    file: RowFile, encoder: Encoder, block: list[_Prepared], start: int, rest: Iterable[tuple[str, Any]], n_items: int
) -> None:
    """Look at what is left, without encoding it, so that every bad item is named at once."""
    bad, place = _bad(block, start), start + len(block)
    for following in _prepared(encoder, rest, BLOCK_ROWS):
        bad += _bad(following, place)
        place += len(following)
    if len(bad) > _SHOWN:
        file.note_bad(bad)
    named = ", ".join(f"{one['name']} ({one['why']})" for one in bad[:_SHOWN])
    more = f" and {len(bad) - _SHOWN} more, listed in {sidecar_path(file.target)}" if len(bad) > _SHOWN else ""
    raise InputError(
        f"{len(bad)} of {n_items} {encoder.kind}s cannot be read: {named}{more}; replace them and run it again (what "
        "is done is kept), or leave them out with --skip-bad."
    )


class _without_pillow_warnings(warnings.catch_warnings):
    """Pillow warns about what is then refused, or is harmless; its threads share the filters set here."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", module=r"PIL\b.*")
