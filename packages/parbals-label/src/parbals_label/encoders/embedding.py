"""From items to rows: in blocks, resumable, with every unreadable item named.

Each block of rows that was made is a file in parbals' cache, called by what it was made of, until
whoever asked for it has no more use for it. It takes its name only when it is on disk, so that
after a kill -9 or a power cut there is no half of one.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError
from parbals.files import replacing

from parbals_label.encoders.base import BadItem, Encoder, Items, Options
from parbals_label.encoders.scratch import ROWS, scratch
from parbals_label.files import DAY, cache_folder, sweep

__all__ = ["BadRow", "Embedded", "embed", "encoded_rows", "prepared_item"]

BLOCK = 256
_FORGOTTEN_AFTER = 30 * DAY
"""Seconds after which the rows of an interrupted run are removed: a month."""
_SHOWN = 10
_THREADS = 8
Progress = Callable[[str, int, int | None], None]


class BadRow(NamedTuple):
    """An item that cannot be read, by what a person would look for, and why."""

    row: int
    name: str
    why: str


@dataclass(frozen=True)
class Embedded:
    """Rows (N, D) in a file without a name, how many were computed now, and what was skipped.

    ``blocks`` are the files by which an interrupted run would go on; ``forget`` removes them.
    """

    rows: np.ndarray
    n_computed: int
    skipped: tuple[BadRow, ...]
    blocks: tuple[Path, ...]

    def forget(self) -> None:
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
    """Encode all items, computing only what is not there yet; ``workspace`` has room for the rows.

    A block of rows is kept if it was made by the same encoder, model and precision of the same
    items: text, pixels or bytes of the image file. Within a block, items of similar length are
    encoded together; a run that was interrupted ends with the very bytes of one that was not, given
    the same batch size and device.

    Items that cannot be read are an error at the end that names them, unless ``options.skip_bad``:
    then their rows are the mean of the others.
    """
    how, folder = options or Options(), cache_folder() / "embeddings"
    if n_items < 1:
        raise InputError("There are no items to encode.")
    if not 1 <= how.batch_size <= BLOCK:
        raise InputError(f"The batch size is {how.batch_size}; it must be 1 to {BLOCK}.")
    made_of = f"{name}\0{encoder.model}\0{encoder.dtype}\0".encode()
    rows, done, n_computed = None, 0, 0
    skipped, files = list[BadRow](), list[Path]()
    with warnings.catch_warnings():
        # Pillow warns about what is then refused, or is harmless; its threads share these filters.
        warnings.filterwarnings("ignore", module=r"PIL\b.*")
        sweep(folder, "*.npy", _FORGOTTEN_AFTER)
        for file, codes, prepared in _blocks(encoder, made_of, items, folder):
            size = len(prepared) if codes is None else len(codes)
            if codes is None:
                bad = [
                    BadRow(row, item.name, item.why)
                    for row, item in enumerate(prepared, start=done)
                    if item.why is not None
                ]
                width = None if rows is None else rows.shape[1]
                codes = encoded_rows(encoder, prepared, how.batch_size, width)
                if codes is not None and not bad:  # else the next run has to name them again
                    _keep(file, codes)
                skipped += bad
                n_computed += size
            files.append(file)
            if codes is not None and done + size <= n_items:
                if rows is None:
                    rows = scratch((n_items, codes.shape[1]), workspace, encoder.dtype)
                rows[done : done + size] = codes
                release_pages(rows)
            done += size
            progress("encoding", done, n_items)
    if done != n_items:
        raise InputError(f"There are {done} items where {n_items} were announced.")
    if skipped and not how.skip_bad:
        named = ", ".join(f"{bad.name} ({bad.why})" for bad in skipped[:_SHOWN])
        more = f" and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
        counts = f"{len(skipped)} of {n_items} {encoder.kind}s"
        raise InputError(
            f"{counts} cannot be read: {named}{more}; replace them and run it again (what is done "
            "is kept), or leave them blank with --skip-bad."
        )
    if rows is None:
        raise InputError(f"None of the {n_items} {encoder.kind}s can be read.")
    if skipped:  # their rows are zero so far
        total = sum(rows[part].sum(axis=0, dtype=np.float64) for part in block_rows(n_items, ROWS))
        rows[[bad.row for bad in skipped]] = total / (n_items - len(skipped))
    return Embedded(rows, n_computed, tuple(skipped), tuple(files))


def _keep(file: Path, codes: np.ndarray) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as out:
            np.save(out, codes)
    except OSError as error:
        raise InputError(
            f"{file} cannot be made ({error.strerror or error}); what is done is kept."
        ) from error


def _kept(file: Path) -> np.ndarray | None:
    """The rows of a block; None where it was not made yet, or is damaged."""
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None


class _Item(NamedTuple):
    """One item after ``prepare``, or why it cannot be used."""

    name: str
    value: Any = None
    why: str | None = None


def prepared_item(encoder: Encoder, name: str, item: Any) -> _Item:
    """What the encoder makes of an item before it is encoded."""
    try:
        return _Item(name, encoder.prepare(item))
    except BadItem as error:
        return _Item(name, why=str(error))


def _blocks(
    encoder: Encoder, made_of: bytes, items: Items, folder: Path
) -> Iterator[tuple[Path, np.ndarray | None, list[_Item]]]:
    """The file of each block, its rows where they were made, else its items, prepared.

    The next block is being prepared while the last is used.
    """

    walk = items()
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:

        def begin() -> tuple[Path, np.ndarray | None, list[Any]] | None:
            pairs = list(islice(walk, BLOCK))
            digest = hashlib.blake2b(made_of, digest_size=16)
            for _, item in pairs:
                digest.update(_content(item))
            file = folder / f"{digest.hexdigest()}.npy"
            codes = _kept(file)
            new = pairs if codes is None else []
            waiting = [pool.submit(prepared_item, encoder, *pair) for pair in new]
            return (file, codes, waiting) if pairs else None

        coming = begin()
        while coming:
            (file, codes, waiting), coming = coming, begin()
            yield file, codes, [future.result() for future in waiting]


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


def encoded_rows(
    encoder: Encoder, prepared: list[_Item], batch_size: int, width: int | None = None
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
