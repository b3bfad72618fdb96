"""The beginning of a download, and what is known of it: which version of which file, and the digest
of its bytes."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from parbals.files import replacing

__all__ = ["Partial"]

_CHUNK = 1 << 18


class Partial:
    """``.NAME.part`` and ``.NAME.part.json``, as an earlier call has left them.

    Bytes that are no longer those that came are thrown away here: a rest that is put behind them
    would not help.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f".{target.name}.part")
        self._state = target.with_name(f".{target.name}.part.json")
        self.url, self.validator = "", ""
        self._forget_bytes()
        if self.path.exists():
            self._look()

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def restart(self, url: str, validator: str) -> None:
        """No bytes yet, of this version of the file; never a new description beside old bytes."""
        self.path.unlink(missing_ok=True)
        self._forget_bytes()
        self.url, self.validator = url, validator
        self.save()

    def add(self, chunk: bytes) -> None:
        """These bytes have been written."""
        self._digest.update(chunk)
        self._n_bytes += len(chunk)

    def save(self) -> None:
        """Tell the next call what is here."""
        facts = {"url": self.url, "validator": self.validator}
        with replacing(self._state) as file:
            file.write(
                json.dumps(
                    {**facts, "bytes": self._n_bytes, "sha256": self._digest.hexdigest()}
                ).encode()
            )

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)
        self._forget_bytes()

    def rename(self, target: Path) -> None:
        os.replace(self.path, target)
        self._state.unlink(missing_ok=True)

    def _forget_bytes(self) -> None:
        self._n_bytes, self._digest = 0, hashlib.sha256()

    def _look(self) -> None:
        state = self._read_state()
        self.url, self.validator = (str(state.get(key) or "") for key in ("url", "validator"))
        n_known, known = state.get("bytes"), state.get("sha256")
        with self.path.open("rb") as file:
            # What follows the known bytes came before the program was killed; there is nothing to
            # compare it with.
            n_known = n_known if isinstance(n_known, int) and n_known >= 0 else 0
            self._read(file, n_known)
            is_same = self._n_bytes == n_known and known in (None, self._digest.hexdigest())
            if is_same:
                self._read(file, self.size)
        if not is_same:
            self.discard()

    def _read(self, file: IO[bytes], stop: int) -> None:
        while chunk := file.read(min(_CHUNK, stop - self._n_bytes)):
            self.add(chunk)

    def _read_state(self) -> dict[str, Any]:
        """Unreadable is the same as unknown."""
        with suppress(OSError, ValueError):
            found = json.loads(self._state.read_text("utf-8"))
            if isinstance(found, dict):
                return found
        return {}
