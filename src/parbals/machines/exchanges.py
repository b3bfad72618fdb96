"""One batch out and its lines back: a thread listens, so that the one who asks can always stop."""

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from parbals.machines.protocol import MAX_LINE
from parbals.store.records import Item

__all__ = ["Annotator", "Ending", "Exchange", "Lines"]

Lines = list[bytes | None]
"""Whole lines without their end; None stands for one that was too long."""

_PER_ITEM = 1 << 16
_WAITING = 64


@dataclass(frozen=True, slots=True)
class Ending:
    """How an exchange ended.

    Attributes:
        fault: what went wrong, as a phrase; None if nothing did.
        wait: seconds that the other side asked for before the next try.
        final: another try cannot help.
    """

    fault: str | None = None
    wait: float = 0.0
    final: bool = False


class Exchange(ABC):
    """A batch under way.

    ``receive`` and ``abort`` belong to the asking thread, the rest to the listening one.
    """

    def __init__(self, n_items: int) -> None:
        self._limit = MAX_LINE + _PER_ITEM * n_items
        self._size = 0
        self._rest = b""
        self._skipping = False
        self._aborted, self._over = threading.Event(), threading.Event()
        # Bounded: whoever writes faster than we store has to wait.
        self._queue: queue.Queue[Lines | Ending] = queue.Queue(_WAITING)
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def receive(self, seconds: float) -> Lines | Ending | None:
        """What came next; None if nothing came in that time."""
        try:
            return self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None

    def abort(self) -> None:
        """End it, whatever its state; what has arrived can still be received."""
        self._aborted.set()
        self._close()

    def _listen(self) -> None:
        try:
            ending = self._run()
        except Exception as error:  # an error in a thread would otherwise look like silence
            ending = Ending(f"{type(error).__name__}: {error}")
        if self._rest or self._skipping:
            self._put([None if self._skipping else self._rest])
        self._over.set()
        self._put(ending)

    @abstractmethod
    def _run(self) -> Ending:
        """Talk to the other side, giving all it says to ``_take``."""

    @abstractmethod
    def _close(self) -> None:
        """Make ``_run`` end soon; called once or more, also when it has ended."""

    def _take(self, chunk: bytes) -> Ending | None:
        """Pass on the whole lines; an ending when more has come than a batch can need."""
        self._size += len(chunk)
        lines: Lines = []
        *whole, rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            lines.append(None if self._skipping or len(line) > MAX_LINE else line)
            self._skipping = False
        if len(rest) > MAX_LINE:
            self._skipping = True
        self._rest = b"" if self._skipping else rest
        if lines:
            self._put(lines)
        if self._size > self._limit:
            return Ending(f"it wrote more than {self._limit:,} bytes about one batch")
        return None

    def _put(self, what: Lines | Ending) -> None:
        while True:
            try:
                self._queue.put(what, timeout=0.1)
                return
            except queue.Full:
                if self._aborted.is_set():
                    return

    def _join(self, seconds: float) -> bool:
        """Wait until the other side is done; whether it is."""
        return self._over.wait(seconds)


class Annotator(Protocol):
    """A program or an endpoint that can be asked."""

    def ask(self, items: Sequence[Item], classes: Sequence[str]) -> Exchange:
        """Send these items; their lines come back through the exchange."""
        ...
