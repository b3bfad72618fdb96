"""An array file that grows block by block, survives being killed, and knows what its rows were made
of.

Beside ``NAME.npy`` lies ``NAME.npy.json`` (the sidecar). While rows are missing they are in
``NAME.npy.partial``. A block of rows reaches the disk before the sidecar counts it, and the sidecar
is replaced in one step, so after a kill -9 or a power cut it never counts what is not there. The
array takes its name when it is complete.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from parbals.errors import InputError
from parbals.files import replacing

__all__ = ["RowFile", "read_sidecar", "sidecar_path"]

_FORMAT = 1


def sidecar_path(target: Path) -> Path:
    """The small file that says what ``target`` holds."""
    return target.with_name(f"{target.name}.json")


def read_sidecar(target: Path) -> dict[str, Any] | None:
    """What is known about an array that was made here; None where it came from elsewhere."""
    try:
        found = json.loads(sidecar_path(target).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        raise InputError(
            f"{sidecar_path(target)} is damaged; delete it and {target.name}, and embed again."
        ) from None
    return found if isinstance(found, dict) and found.get("format") == _FORMAT else None


class RowFile:
    """Rows (N, D) of one target; ``made_of`` (encoder, model, dtype) and the items' digests are its
    key."""

    def __init__(self, target: Path, made_of: dict[str, str], n_rows: int, block_rows: int) -> None:
        self.target, self.partial = target, target.with_name(f"{target.name}.partial")
        self._key: dict[str, Any] = {**made_of, "rows": n_rows, "block_rows": block_rows}
        self._state: dict[str, Any] = {}

    @property
    def skipped(self) -> list[dict[str, Any]]:
        """Rows whose items could not be read: {"row", "name", "why"}."""
        return list(self._state["skipped"])

    @property
    def width(self) -> int | None:
        """D, once the first block has come."""
        return self._state.get("columns")

    @property
    def _done(self) -> int:
        return min(len(self._state["blocks"]) * self._key["block_rows"], self._key["rows"])

    def is_complete(self, digests: Sequence[str]) -> bool:
        """Whether the target is there and was made of exactly this."""
        found = read_sidecar(self.target) if self.target.is_file() else None
        if self.target.is_file() and found is None:
            raise InputError(
                f"{self.target} is there already and was not made by this command; move it away "
                "first."
            )
        if (
            found is None
            or not self._fits(found)
            or [block[0] for block in found["blocks"]] != list(digests)
        ):
            return False
        self._state = found
        return True

    @contextmanager
    def growing(self, digests: Sequence[str]) -> Iterator[int]:
        """Hold the partial file, alone; yields how many of its rows are made of these items and
        whole."""
        with _said(self.partial):
            self.target.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what the disk refuses must not be tried again when the file is closed.
            self._file = open(self.partial, "a+b", buffering=0)  # noqa: SIM115 - closed below, whatever happens
        is_ours = False
        try:
            with self._file:
                _lock(self._file, self.partial)
                is_ours = True
                with _said(self.partial):
                    self._resume(digests)
                yield self._done
        finally:
            if is_ours:
                self._put_away()

    def append(self, rows: np.ndarray, digest: str, skipped: Sequence[dict[str, Any]]) -> None:
        """One block; on return it is on disk and counted."""
        rows = np.ascontiguousarray(rows, self._key["dtype"])
        if self.width is None:
            self._state["columns"] = int(rows.shape[1])
            self._write(0, self._header())
        elif rows.shape[1] != self.width:
            raise InputError(
                f"The encoder made rows of {rows.shape[1]} numbers after rows of {self.width}."
            )
        self._write(self._offset(self._done), rows.tobytes())
        self._state["skipped"] += list(skipped)
        self._state["blocks"].append([digest, _digest(rows.tobytes())])
        self._save()

    def note_bad(self, bad: Sequence[dict[str, Any]]) -> None:
        """Leave the whole list of what cannot be read where a person can look."""
        self._state["unreadable"] = list(bad)
        self._save()

    def finish(self) -> None:
        """Every row is there: fill those that were skipped; the array takes its name when the file
        is let go."""
        with _said(self.partial):
            if self.skipped:
                self._fill()
            self._state["complete"] = True
            self._save()

    def _put_away(self) -> None:
        """After the file is closed: Windows renames and removes none that is open."""
        with _said(self.partial):
            if self._state.get("complete"):
                os.replace(self.partial, self.target)
            elif not self._state.get("blocks"):
                self.partial.unlink(missing_ok=True)

    def _fits(self, found: dict[str, Any]) -> bool:
        blocks = found.get("blocks")
        shaped = isinstance(blocks, list) and all(
            isinstance(block, list) and len(block) == 2 for block in blocks
        )
        return shaped and all(found.get(key) == value for key, value in self._key.items())

    def _resume(self, digests: Sequence[str]) -> None:
        """Keep the leading blocks that are made of the same items and whose bytes are as they were
        written."""
        found = read_sidecar(self.target)
        usable = found is not None and self._fits(found) and isinstance(found.get("columns"), int)
        if self.target.is_file():  # outdated, or is_complete would have said so
            self.target.unlink()
        self._state = {
            "format": _FORMAT,
            **self._key,
            "complete": False,
            "skipped": [],
            "blocks": [],
        }
        if found is not None and usable:
            self._state["columns"] = found["columns"]
            kept = 0
            for (items, rows), digest in zip(found["blocks"], digests, strict=False):
                if items != digest or rows != _digest(self._read_block(kept)):
                    break
                kept += 1
            self._state["blocks"] = found["blocks"][:kept]
            self._state["skipped"] = [bad for bad in found["skipped"] if bad["row"] < self._done]
            if not kept:
                del self._state["columns"]
        self._file.truncate(self._offset(self._done) if self.width is not None else 0)

    def _header(self) -> bytes:
        held = io.BytesIO()
        shape = (self._key["rows"], self._state["columns"])
        np.lib.format.write_array_header_1_0(
            held, {"descr": self._key["dtype"], "fortran_order": False, "shape": shape}
        )
        return held.getvalue()

    def _offset(self, row: int) -> int:
        return (
            len(self._header())
            + row * self._state["columns"] * np.dtype(self._key["dtype"]).itemsize
        )

    def _read_block(self, block: int) -> bytes:
        start = block * self._key["block_rows"]
        stop = min(start + self._key["block_rows"], self._key["rows"])
        self._file.seek(self._offset(start))
        return self._file.read(self._offset(stop) - self._offset(start))

    def _write(self, offset: int, content: bytes) -> None:
        # The file is only ever cut or appended to; "a" keeps what is there when it is opened.
        with _said(self.partial):
            self._file.truncate(offset)
            rest = memoryview(content)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())

    def _fill(self) -> None:
        """Skipped rows become the mean of the others, so that whoever reads the array alone meets
        no NaN or outlier."""
        bad = {entry["row"] for entry in self.skipped}
        width, dtype = self._state["columns"], np.dtype(self._key["dtype"])
        total = np.zeros(width)
        for block in range(len(self._state["blocks"])):
            rows = np.frombuffer(self._read_block(block), dtype).reshape(-1, width)
            start = block * self._key["block_rows"]
            total += rows[[start + row not in bad for row in range(len(rows))]].sum(
                axis=0, dtype=np.float64
            )
        mean = (total / (self._key["rows"] - len(bad))).astype(dtype).tobytes()
        with open(self.partial, "r+b") as file:
            for row in sorted(bad):
                file.seek(self._offset(row))
                file.write(mean)
            file.flush()
            os.fsync(file.fileno())

    def _save(self) -> None:
        path = sidecar_path(self.target)
        with _said(path), replacing(path) as file:
            file.write(json.dumps(self._state, ensure_ascii=False).encode("utf-8", "replace"))


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What the system refuses becomes one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); what is done is kept."
        ) from error


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _lock(file: IO[bytes], path: Path) -> None:
    """One process at a time; the system lets go when it ends, however it ends.

    Without fcntl there is no guard.
    """
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"Another process is writing {path}; wait until it is done.") from None
