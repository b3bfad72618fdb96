"""An array file that grows block by block, survives being killed, and knows what it was made of.

Beside ``NAME.npy`` lies ``NAME.npy.json``, the sidecar. While rows are missing they are in
``NAME.npy.partial``. A block of rows is on disk before the sidecar counts it, so after a kill -9 or
a power cut it never counts what is not there.
"""

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError
from parbals.files import replacing, sync_folder

from parbals_label.encoders.scratch import reserve
from parbals_label.files import locked

__all__ = ["RowFile", "alone", "read_sidecar", "sidecar_path"]

_FORMAT = 1


def sidecar_path(path: Path) -> Path:
    """The small file that says what ``path`` holds."""
    return path.with_name(f"{path.name}.json")


def read_sidecar(path: Path) -> dict[str, Any] | None:
    """What is known about an array that was made here; None where it came from elsewhere."""
    try:
        note = json.loads(sidecar_path(path).read_text("utf-8"))
        if not isinstance(note, dict) or note.get("format") != _FORMAT:
            return None
        return note | {"blocks": list(note["blocks"]), "skipped": list(note["skipped"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise InputError(
            f"{sidecar_path(path)} is damaged; delete it and {path.name}, and embed again."
        ) from None


class RowFile:
    """Rows (N, D) that grow block by block; ``note`` is what the sidecar says of them."""

    def __init__(self, path: Path, made_of: dict[str, Any], digests: Sequence[str]) -> None:
        """Keep the blocks that are made of the same; the others are None in ``note["blocks"]``."""
        self.path, self.partial = path, path.with_name(f"{path.name}.partial")
        self._digests = digests
        self._rows: np.memmap | None = None
        known = read_sidecar(path)
        if known is None and path.is_file():
            raise InputError(
                f"{path} is there already and was not made by this command; move it away first."
            )
        self.note: dict[str, Any] = {"format": _FORMAT, **made_of, "complete": False, "skipped": []}
        blocks: list[str] = []
        if known is not None and made_of.items() <= known.items() and self._holds(known):
            self.note |= {"columns": known["columns"], "skipped": known["skipped"]}
            blocks = known["blocks"]
        pairs = zip_longest(blocks[: len(digests)], digests)
        self.note["blocks"] = [digest if kept == digest else None for kept, digest in pairs]

    def _holds(self, known: dict[str, Any]) -> bool:
        try:
            held = self.path if self.path.is_file() else self.partial
            rows = np.load(held, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return False
        return rows.shape == (known["rows"], known.get("columns")) and rows.dtype == known["dtype"]

    def write(self, number: int, rows: np.ndarray | None, bad: list[dict[str, Any]]) -> None:
        """One block; on return it is on disk and counted. No rows: all of its items are bad."""
        start, size = number * self.note["block_rows"], self.note["block_rows"]
        if rows is not None:
            held = self._open(rows.shape[1])
            held[start : start + size] = rows
            held.flush()
            release_pages(held)
        others = [one for one in self.note["skipped"] if not start <= one["row"] < start + size]
        self.note["skipped"] = sorted(others + bad, key=lambda one: one["row"])
        self.note["blocks"][number] = self._digests[number]
        if self._rows is not None:  # before the first good item the width is not known
            self._save()

    def finish(self) -> None:
        """Skipped rows become the mean of the others, and the array takes its name."""
        if self._rows is None and self.path.is_file():
            return
        rows = self._open(self.note["columns"])
        bad = [one["row"] for one in self.note["skipped"]]
        total = np.zeros(rows.shape[1])
        for part in block_rows(len(rows), self.note["block_rows"]) if bad else ():
            good = np.setdiff1d(np.arange(part.start, part.stop), bad)
            total += rows[good].sum(axis=0, dtype=np.float64)
        rows[bad] = total / (len(rows) - len(bad))
        rows.flush()
        del rows
        self._rows = None  # Windows renames no file that is open
        self.note["complete"] = True
        self._save()
        os.replace(self.partial, self.path)
        sync_folder(self.path.parent)

    def _open(self, width: int) -> np.memmap:
        if self._rows is None:
            if self.path.is_file():  # some of its blocks are outdated
                os.replace(self.path, self.partial)
            if "columns" not in self.note:
                self.note["columns"] = width
                header = {"descr": self.note["dtype"], "fortran_order": False}
                shape = (self.note["rows"], width)
                with open(self.partial, "wb") as file:
                    np.lib.format.write_array_header_1_0(file, header | {"shape": shape})
                    n_bytes = math.prod(shape) * np.dtype(self.note["dtype"]).itemsize
                    reserve(file, file.tell() + n_bytes, self.partial.parent)
            self._save()  # an outdated block counts no more before it is written over
            self._rows = np.lib.format.open_memmap(self.partial, "r+")
        return self._rows

    def _save(self) -> None:
        with replacing(sidecar_path(self.path)) as file:
            file.write(json.dumps(self.note, ensure_ascii=False).encode("utf-8", "replace"))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """No other process writes ``path`` meanwhile; what the system refuses becomes one sentence."""
    lock = path.with_name(f"{path.name}.lock")
    busy = InputError(f"Another process is writing {path}; wait until it is done.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock, busy):
            try:
                yield
            finally:
                with suppress(OSError):  # Windows removes no file that is open
                    lock.unlink()
    except OSError as error:
        raise InputError(
            f"{path} cannot be made ({error.strerror or error}); what is done is kept."
        ) from error
