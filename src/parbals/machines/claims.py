"""Which items are out for one machine annotator, also after it was killed.

A lease is known by its expiry: the moment is made unique, and remembered as an event *before* the
batch is stored. After a crash the items whose lease ends at exactly such a moment are therefore
this annotator's, whatever came between. Nothing is given back that somebody else has taken since.
"""

import math
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b

from parbals.errors import InputError, ProjectError
from parbals.store.store import Store

__all__ = ["Claims", "sole_run"]

_EVENT = "machine batch"
_TRIES = 5


class Claims:
    """The items that are out for ``annotator``, by the moment their lease ends."""

    def __init__(self, store: Store, annotator: str, lease_seconds: float) -> None:
        self._store, self._annotator, self._lease = store, annotator, lease_seconds
        self._ends: dict[int, float] = {}

    def earlier(self) -> list[int]:
        """Take over what an earlier run left out and is not expired, in the order it was chosen."""
        now = time.time()
        for event in self._store.events():
            if event.kind == _EVENT and event.detail["annotator"] == self._annotator:
                end = event.detail["expires"]
                if end > now:
                    self._ends |= dict.fromkeys(self._leased_until(end), end)
        return list(self._ends)

    def choose(self, n: int, strategy: str, leave_out: Collection[int] = ()) -> list[int]:
        """Up to ``n`` items chosen and leased, best first; none when every item is labelled, out or
        to be left out."""
        from parbals.machines.choosing import choose

        for left in reversed(range(_TRIES)):
            choice = choose(self._store, n, None if strategy == "project" else strategy, leave_out)
            if choice is None:
                return []
            end = time.time() + self._lease + secrets.randbelow(10**6) / 10**6
            self._store.log(_EVENT, annotator=self._annotator, expires=end)
            try:
                self._store.record_batch(
                    choice.strategy,
                    choice.seed,
                    choice.rows,
                    choice.known,
                    annotator=self._annotator,
                    expires=end,
                )
            except InputError:
                # Somebody took some of these items while the model was choosing.
                if left == 0:
                    raise
                continue
            positions = [position for position, _, _ in choice.rows]
            self._ends |= dict.fromkeys(positions, end)
            return positions
        raise AssertionError("the last try returns or raises")

    def done(self, positions: Iterable[int]) -> None:
        """These were answered, which ended their leases."""
        for position in positions:
            self._ends.pop(position, None)

    def give_back(self, positions: Iterable[int]) -> None:
        """End the leases of these items, as far as they are still this annotator's."""
        by_end: dict[float, list[int]] = {}
        for position in positions:
            if position in self._ends:
                by_end.setdefault(self._ends[position], []).append(position)
        ours = [
            p
            for end, members in by_end.items()
            for p in sorted(set(members) & set(self._leased_until(end)))
        ]
        if ours:
            self._store.give_back(ours)
        self.done(p for members in by_end.values() for p in members)

    def give_all_back(self) -> None:
        """Leave nothing out."""
        self.give_back(list(self._ends))

    def _leased_until(self, end: float) -> list[int]:
        later = set(self._store.pending(end))
        return [
            position
            for position in self._store.pending(math.nextafter(end, 0.0))
            if position not in later
        ]


@contextmanager
def sole_run(store: Store, annotator: str) -> Iterator[None]:
    """Refuse a second run of the same annotator: the two would ask, and pay for, the same items."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    path = store.folder / f"machine-{blake2b(annotator.encode(), digest_size=6).hexdigest()}.lock"
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ProjectError(f"{path} cannot be written ({error.strerror}).") from None
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ProjectError(
                f"{annotator!r} is already labelling this project in another process; wait for it, "
                "stop it, or choose another --name."
            ) from None
        yield
    finally:
        os.close(number)
