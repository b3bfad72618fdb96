"""From items to an array file: in blocks, resumable, with every unreadable item named."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from parbals.errors import InputError

from parbals_label.encoders.base import BadItem, Encoder, Items, Options
from parbals_label.encoders.row_file import RowFile, alone

__all__ = ["Embedded", "UnreadableError", "embed"]

BLOCK = 256
_SHOWN = 10
_THREADS = 8
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Embedded:
    """A complete array file, how many rows were computed now, and (row, name) of those skipped."""

    path: Path
    n_rows: int
    n_features: int
    n_computed: int
    skipped: tuple[tuple[int, str], ...]


class UnreadableError(InputError):
    """Items that cannot be read, in clauses such as "2 of 30 images cannot be read: ..."."""

    def __init__(self, *clauses: str) -> None:
        self.clauses = clauses
        super().__init__(
            f"{'; '.join(clauses)}; replace them and run it again (what is done is kept), or leave "
            "them out with --skip-bad."
        )


def embed(
    encoder: Encoder,
    name: str,
    items: Items,
    n_items: int,
    path: Path,
    options: Options | None = None,
    *,
    block: int = BLOCK,
    progress: Progress = lambda stage, done, total: None,
) -> Embedded:
    """Encode all items into ``path`` (.npy, one row an item), computing only what is not there yet.

    A block of rows is kept if it was made by the same encoder, model and precision of the same
    items: text, pixels or bytes of the image file. Within a block, items of similar length are
    encoded together; a run that was interrupted ends with the very bytes of one that was not, given
    the same batch size and device.

    Items that cannot be read are an error at the end that names them, unless ``options.skip_bad``:
    then their rows are the mean of the others, and the sidecar lists them under "skipped".
    """
    how = options or Options()
    if n_items < 1:
        raise InputError("There are no items to encode.")
    if not 1 <= how.batch_size <= block:
        raise InputError(f"The batch size is {how.batch_size}; it must be 1 to {block}.")
    digests = _digests(items, n_items, block, progress)
    made_of = {"encoder": name, "model": encoder.model, "dtype": encoder.dtype}
    with alone(path), warnings.catch_warnings():
        # Pillow warns about what is then refused, or is harmless; its threads share these filters.
        warnings.filterwarnings("ignore", module=r"PIL\b.*")
        file = RowFile(path, made_of | {"rows": n_items, "block_rows": block}, digests)
        kept = list(file.note["blocks"])
        missing = [number for number, digest in enumerate(kept) if digest is None]
        walk = (pair for row, pair in enumerate(items()) if kept[row // block] is None)
        n_computed = sum(min(block, n_items - number * block) for number in missing)
        done = n_items - n_computed
        progress("encoding", done, n_items)
        for number, prepared in zip(missing, _prepared(encoder, walk, block), strict=True):
            bad = [
                {"row": row, "name": item.name, "why": item.why}
                for row, item in enumerate(prepared, start=number * block)
                if item.why is not None
            ]
            rows = _encoded(encoder, prepared, how.batch_size, file.note.get("columns"))
            file.write(number, rows, bad)
            done += len(prepared)
            progress("encoding", done, n_items)
        skipped = file.note["skipped"]
        if skipped and not how.skip_bad:
            named = ", ".join(f"{bad['name']} ({bad['why']})" for bad in skipped[:_SHOWN])
            more = f" and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
            counts = f"{len(skipped)} of {n_items} {encoder.kind}s"
            raise UnreadableError(f"{counts} cannot be read: {named}{more}")
        if len(skipped) == n_items:
            raise InputError(f"None of the {n_items} {encoder.kind}s can be read.")
        file.finish()
    named_rows = tuple((bad["row"], bad["name"]) for bad in skipped)
    return Embedded(path, n_items, file.note["columns"], n_computed, named_rows)


def _digests(items: Items, n_items: int, block: int, progress: Progress) -> list[str]:
    """A digest of each block's contents; of images the bytes in their files, not the names."""
    walk, seen, digests = items(), 0, []
    while contents := [item for _, item in islice(walk, block)]:
        digest = hashlib.blake2b(digest_size=8)
        for item in contents:
            digest.update(_content(item))
        digests.append(digest.hexdigest())
        seen += len(contents)
        progress("checking", seen, n_items)
    if seen != n_items:
        raise InputError(f"There are {seen} items where {n_items} were announced.")
    return digests


def _content(item: Any) -> bytes:
    if isinstance(item, str):
        text = item.encode("utf-8", "surrogatepass")
        return b"t%d\0" % len(text) + text
    if isinstance(item, np.ndarray):
        return f"a{item.dtype.str}{item.shape}\0".encode() + item.tobytes()
    try:
        file = Path(item).read_bytes() if Path(item).is_file() else None  # a pipe would never end
    except OSError:
        return b"unreadable\0"
    return b"missing\0" if file is None else b"f%d\0" % len(file) + file


class _Item(NamedTuple):
    """One item after ``prepare``, or why it cannot be used."""

    name: str
    value: Any = None
    why: str | None = None


def _prepared(
    encoder: Encoder, items: Iterable[tuple[str, Any]], block: int
) -> Iterator[list[_Item]]:
    """Blocks of prepared items; the next one is being prepared while the last is used."""

    def one(pair: tuple[str, Any]) -> _Item:
        try:
            return _Item(pair[0], encoder.prepare(pair[1]))
        except BadItem as error:
            return _Item(pair[0], why=str(error))

    walk = iter(items)
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:

        def begin() -> list[Future[_Item]]:
            return [pool.submit(one, pair) for pair in islice(walk, block)]

        coming = begin()
        while coming:
            ready, coming = coming, begin()
            yield [future.result() for future in ready]


def _encoded(
    encoder: Encoder, prepared: list[_Item], batch_size: int, width: int | None
) -> np.ndarray | None:
    """Rows (B, D) of a block, zeros for items that cannot be read; None where none can."""
    good = [place for place, item in enumerate(prepared) if item.why is None]
    good.sort(key=lambda place: encoder.size(prepared[place].value))
    rows = None
    for start in range(0, len(good), batch_size):
        places = good[start : start + batch_size]
        batch = np.asarray(encoder.encode([prepared[place].value for place in places]))
        if batch.ndim != 2 or len(batch) != len(places) or batch.dtype.kind != "f":
            shape = f"{batch.dtype} {batch.shape}"
            raise InputError(f"The encoder made {shape} of {len(places)} items; rows are needed.")
        if batch.shape[1] != (width := width or batch.shape[1]):
            raise InputError(
                f"The encoder made rows of {batch.shape[1]} numbers after rows of {width}."
            )
        if not np.isfinite(batch).all():
            place = places[int(np.flatnonzero(~np.isfinite(batch).all(axis=1))[0])]
            raise InputError(
                f"The encoder made numbers that are not finite of {prepared[place].name}."
            )
        rows = np.zeros((len(prepared), width), encoder.dtype) if rows is None else rows
        rows[places] = batch
    return rows
