"""Encode items block by block: resumable, with every unreadable item named.

Each encoded block is a file in parbals' cache (:mod:`parbals_label.encoders.cache`), named by a
digest of its input, until the caller discards it. A file gets its name only when it is on disk, so
that a kill -9 or a power cut leaves no partial block.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError

from parbals_label.encoders.base import BadItem, Encoder, Items, Options
from parbals_label.encoders.cache import private_folder, read_rows, write_rows
from parbals_label.encoders.scratch import ROWS, scratch
from parbals_label.files import DAY, sweep

__all__ = ["BadRow", "Embedded", "embed", "encoded_rows", "prepared_item"]

BLOCK = 256
"""Items in a cached block."""
_CACHE_SECONDS = 30 * DAY
"""Age after which the blocks of an interrupted run are removed: a month."""
_MAX_NAMED = 10
"""Unreadable items that an error names."""
_MAX_THREADS = 8
Progress = Callable[[str, int, int | None], None]


class BadRow(NamedTuple):
    """An item that cannot be read: its row, the name by which a person finds it, and the reason."""

    row: int
    name: str
    why: str


@dataclass(frozen=True)
class Embedded:
    """Encoded rows.

    Attributes:
        rows: (N, D) in a temporary file without a name.
        n_computed: rows that were not in the cache.
        skipped: items that cannot be read.
        blocks: cached files by which an interrupted run would continue.
    """

    rows: np.ndarray
    n_computed: int
    skipped: tuple[BadRow, ...]
    blocks: tuple[Path, ...]

    def discard_cache(self) -> None:
        """Remove the cached blocks."""
        for path in self.blocks:
            path.unlink(missing_ok=True)


def embed(
    encoder: Encoder,
    name: str,
    items: Items,
    n_items: int,
    options: Options | None = None,
    workspace: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Embedded:
    """Encode all items, computing only what is not in the cache.

    A cached block is used if it was made by the same encoder, model and precision from the same
    items: text, pixels or bytes of the image file. Within a block, items of similar length are
    encoded together; an interrupted run ends with the same bytes as an uninterrupted one, given the
    same batch size and device.

    Items that cannot be read are an error at the end that names them, unless ``options.skip_bad``:
    then their rows are the mean of the others. ``workspace`` is a folder with room for the rows.
    """
    options = options or Options()
    if n_items < 1:
        raise InputError("There are no items to encode.")
    if not 1 <= options.batch_size <= BLOCK:
        raise InputError(f"The batch size is {options.batch_size}; it must be 1 to {BLOCK}.")
    folder = private_folder("embeddings")
    cache_key = f"{name}\0{encoder.model}\0{encoder.dtype}\0".encode()
    rows: np.ndarray | None = None
    n_done = 0
    n_computed = 0
    skipped: list[BadRow] = []
    files: list[Path] = []
    with warnings.catch_warnings():
        # Pillow warns about files that are refused anyway; its threads share these filters.
        warnings.filterwarnings("ignore", module=r"PIL\b.*")
        sweep(folder, "*.npy", _CACHE_SECONDS)
        for block in _blocks(encoder, cache_key, items, folder):
            encoded = block.cached_rows
            if encoded is None:
                unreadable = [
                    BadRow(row, item.name, item.why)
                    for row, item in enumerate(block.prepared, start=n_done)
                    if item.why is not None
                ]
                width = None if rows is None else rows.shape[1]
                encoded = encoded_rows(encoder, block.prepared, options.batch_size, width)
                if encoded is not None and not unreadable:  # else the next run has to name them
                    write_rows(block.file, encoded)
                skipped += unreadable
                n_computed += block.size
            files.append(block.file)
            if encoded is not None and n_done + block.size <= n_items:
                if rows is None:
                    rows = scratch((n_items, encoded.shape[1]), workspace, encoder.dtype)
                if encoded.shape[1] != rows.shape[1]:  # the encoder changed, and not its model
                    raise InputError(
                        f"{block.file} has rows of {encoded.shape[1]} numbers after rows of "
                        f"{rows.shape[1]}; remove the file."
                    )
                rows[n_done : n_done + block.size] = encoded
                release_pages(rows)
            n_done += block.size
            progress("encoding", n_done, n_items)
    if n_done != n_items:
        raise InputError(f"There are {n_done} items where {n_items} were announced.")
    if skipped and not options.skip_bad:
        raise _unreadable_error(skipped, n_items, encoder)
    if rows is None:
        raise InputError(f"None of the {n_items} {encoder.kind}s can be read.")
    if skipped:
        _fill_with_mean(rows, [bad.row for bad in skipped])
    return Embedded(rows, n_computed, tuple(skipped), tuple(files))


def _unreadable_error(skipped: list[BadRow], n_items: int, encoder: Encoder) -> InputError:
    """The error that names items that cannot be read."""
    named = ", ".join(f"{bad.name} ({bad.why})" for bad in skipped[:_MAX_NAMED])
    more = f" and {len(skipped) - _MAX_NAMED} more" if len(skipped) > _MAX_NAMED else ""
    return InputError(
        f"{len(skipped)} of {n_items} {encoder.kind}s cannot be read: {named}{more}; replace them "
        "and run it again (finished items are kept), or leave them blank with --skip-bad."
    )


def _fill_with_mean(rows: np.ndarray, blank: list[int]) -> None:
    """Set blank rows, which are zero so far, to the mean of the others."""
    blocks = block_rows(len(rows), ROWS)
    total = sum(rows[block].sum(axis=0, dtype=np.float64) for block in blocks)
    rows[blank] = total / (len(rows) - len(blank))


class _Item(NamedTuple):
    """One item after ``prepare``, or the reason why it cannot be used."""

    name: str
    value: Any = None
    why: str | None = None


def prepared_item(encoder: Encoder, name: str, item: Any) -> _Item:
    """Prepare an item for encoding."""
    try:
        return _Item(name, encoder.prepare(item))
    except BadItem as error:
        return _Item(name, why=str(error))


class _Block(NamedTuple):
    """A block of items: its cache file, and either its cached rows or its prepared items."""

    file: Path
    cached_rows: np.ndarray | None
    prepared: list[_Item]

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.prepared) if self.cached_rows is None else len(self.cached_rows)


class _PendingBlock(NamedTuple):
    """A block whose items are being prepared."""

    file: Path
    cached_rows: np.ndarray | None
    futures: list[Future[_Item]]

    def result(self) -> _Block:
        prepared = [future.result() for future in self.futures]
        return _Block(self.file, self.cached_rows, prepared)


def _blocks(encoder: Encoder, cache_key: bytes, items: Items, folder: Path) -> Iterator[_Block]:
    """The blocks in order; the next one is prepared while the current one is used."""
    remaining = items()
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:

        def start_next() -> _PendingBlock | None:
            pairs = list(islice(remaining, BLOCK))
            if not pairs:
                return None
            digest = hashlib.blake2b(cache_key, digest_size=16)
            for _, item in pairs:
                digest.update(_content(item))
            file = folder / f"{digest.hexdigest()}.npy"
            cached_rows = read_rows(file, len(pairs))
            uncached = pairs if cached_rows is None else []
            futures = [pool.submit(prepared_item, encoder, *pair) for pair in uncached]
            return _PendingBlock(file, cached_rows, futures)

        current = start_next()
        while current:
            following = start_next()
            yield current.result()
            current = following


def _content(item: Any) -> bytes:
    """The bytes by which two items are the same."""
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


def encoded_rows(
    encoder: Encoder, prepared: list[_Item], batch_size: int, width: int | None = None
) -> np.ndarray | None:
    """Rows (B, D) of a block, zeros for items that cannot be read; None where none can."""
    readable = [index for index, item in enumerate(prepared) if item.why is None]
    readable.sort(key=lambda index: encoder.size(prepared[index].value))
    rows: np.ndarray | None = None
    for start in range(0, len(readable), batch_size):
        indices = readable[start : start + batch_size]
        batch = np.asarray(encoder.encode([prepared[index].value for index in indices]))
        if batch.ndim != 2 or len(batch) != len(indices) or batch.dtype.kind != "f":
            shape = f"{batch.dtype} {batch.shape}"
            raise InputError(f"The encoder made {shape} of {len(indices)} items; rows are needed.")
        width = width or batch.shape[1]
        if batch.shape[1] != width:
            raise InputError(
                f"The encoder made rows of {batch.shape[1]} numbers after rows of {width}."
            )
        if not np.isfinite(batch).all():
            index = indices[int(np.flatnonzero(~np.isfinite(batch).all(axis=1))[0])]
            raise InputError(
                f"The encoder made numbers that are not finite of {prepared[index].name}."
            )
        if rows is None:
            rows = np.zeros((len(prepared), width), encoder.dtype)
        rows[indices] = batch
    return rows
