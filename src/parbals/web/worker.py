"""The page's second process: it chooses items for the queue and renews report, predictions and map.

Orders come as JSON lines on standard input, {"choose": n, "seconds": how long what waits lasts};
what it is doing goes to standard output in the same way. It keeps to one core and out of the way
of labelling, and ends when its input does. It may be cut off at any time.
"""

import json
import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError, ParbalsError, ParbalsWarning
from parbals.learner.audit import AUDIT
from parbals.store.batches import TakenError
from parbals.store.store import Store
from parbals.strategies.table import QUICK, UNIFORM
from parbals.web.map import make_map

__all__ = ["Worker", "first_items", "main"]

_BETWEEN_REPORTS = 5.0
_AFTER_ERROR = 10.0
_AFTER_REFUSAL = 2.0
_FIRST = 3
_SECONDS_TO_CHOOSE = 8.0
_CANDIDATES = 2_000
_REPORT_CANDIDATES = 1_000
"""Fewer than when a command chooses: on the page somebody waits."""


class Worker:
    """Does one thing at a time: items first, then report and predictions, then the map."""

    def __init__(self, store: Store, say: Callable[..., None]) -> None:
        self.store, self.say = store, say
        self.reported = -1
        self.next_report = self.quiet_until = 0.0
        self.map_of: Any = None
        self.seconds_each = 0.3

    def step(self, n_wanted: int, seconds: float = 0.0) -> bool:
        """Do what is most needed, while those that wait last ``seconds``; False if nothing is."""
        if time.monotonic() < self.quiet_until:
            return False
        try:
            return self._choose(n_wanted, seconds) or self._report() or self._map()
        except (ParbalsError, OSError) as error:
            self.quiet_until = time.monotonic() + _AFTER_ERROR
            message = str(error)
            if isinstance(error, OSError):
                message = f"A file of the project cannot be read or written ({error.strerror})."
            self.say(state="failed", message=message)
            return False

    def plan(self, n_wanted: int, n_pending: int, seconds: float) -> tuple[int, str | None]:
        """How many items to choose now, and by what (None: the project's strategy).

        A batch that is chosen one by one takes time for each item in it and for each that is out.
        It may take as long as what waits will last, and eight seconds at least; what takes longer
        is chosen in parts, or, where not even a quarter fits, all at once by scores with noise,
        which costs the same for any number.
        """
        fits = int(max(_SECONDS_TO_CHOOSE, seconds) / self.seconds_each) - n_pending
        if fits < 1 or 4 * fits < n_wanted:
            return n_wanted, QUICK
        return min(n_wanted, fits), None

    def _choose(self, n_wanted: int, seconds: float) -> bool:
        if n_wanted < 1:
            return False
        self.say(state="choosing")
        engine, began = _engine(), time.monotonic()
        n_pending = len(engine.pending_of(self.store))
        n_items, strategy = self.plan(n_wanted, n_pending, seconds)
        try:
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always", ParbalsWarning)
                number, batch = engine.choose_batch(
                    self.store,
                    n_items,
                    fewer=True,
                    queued=True,
                    strategy=strategy,
                    n_candidates=_CANDIDATES,
                )
        except engine.NothingFreeError:
            message = "Every item is labelled, passed or with somebody."
            self.say(state="idle", chose=0, message=message)
            return False
        except TakenError as error:
            self.quiet_until = time.monotonic() + _AFTER_REFUSAL
            message = f"No items could be chosen just now; it is tried again. {error}"
            self.say(state="idle", message=message)
            return False
        if strategy is None:
            each = (time.monotonic() - began) / (len(batch) + n_pending)
            self.seconds_each = 0.5 * self.seconds_each + 0.5 * each
        notes = [str(w.message) for w in raised if issubclass(w.category, ParbalsWarning)]
        self.say(state="idle", chose=len(batch), batch=number, message=" ".join(notes) or None)
        return True

    def _report(self) -> bool:
        answers = self.store.revision()[0]
        if (
            answers == self.reported
            or time.monotonic() < self.next_report
            or not self.store.n_labelled
        ):
            return False
        if self.reported < 0 and self._is_fresh():
            self.reported = answers
            return False
        self.say(state="reporting")
        began = time.monotonic()
        _engine().refresh(self.store, with_pending=False, n_candidates=_REPORT_CANDIDATES)
        self.reported = answers
        # Where a report takes long, most of the time is left for choosing.
        self.next_report = time.monotonic() + max(
            _BETWEEN_REPORTS, 4.0 * (time.monotonic() - began)
        )
        self.say(state="idle")
        return True

    def _is_fresh(self) -> bool:
        """The report and the predictions of last time are those of today's answers."""
        stored = self.store.settings.predictions
        if stored is None or not (self.store.folder / stored.file).exists():
            return False
        return stored.answers == self.store.revision()[0]

    def _map(self) -> bool:
        settings = self.store.settings
        features, stored = settings.features, settings.map
        if features is None or self.map_of == features.digest:
            return False
        if (
            stored is None
            or stored.features != features.digest
            or not (self.store.folder / stored.file).exists()
        ):
            make_map(self.store)
        self.map_of = features.digest
        return True


def _engine() -> Any:
    """The model's side of a project, loaded when it is first needed: that takes seconds."""
    from parbals.project import engine

    return engine


def first_items(store: Store, n: int = _FIRST) -> int:
    """A few items drawn at random if nothing waits: labelling starts before the model is there.

    They are the audit's, which are random, as long as it has any.
    """
    if store.queue_counts().free:
        return 0
    taken = {*store.votes(), *store.pending(), *store.passes()}
    if len(taken) >= store.n_items:
        return 0
    drawn = [position for position in store.settings.audit if position not in taken][:n]
    strategy = AUDIT if drawn else UNIFORM
    if not drawn:
        generator = np.random.default_rng([store.settings.seed, len(taken)])
        free = np.setdiff1d(np.arange(store.n_items), np.fromiter(taken, np.int64))
        drawn = generator.choice(free, min(n, len(free)), replace=False).tolist()
    rows = [(position, None, None) for position in drawn]
    with suppress(InputError):  # somebody else has just taken them
        store.record_batch(
            strategy, None, rows, {"notes": ["drawn while the model was starting"]}, queued=True
        )
    return len(rows)


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    if hasattr(os, "nice"):
        with suppress(OSError):
            os.nice(10)
    out = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not be taken for us
    inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()

    def say(**words: Any) -> None:
        out.write(json.dumps(words) + "\n")
        out.flush()

    say(state="starting")
    _clear_drafts(folder)
    with Store.open(folder) as store:
        first_items(store)
        worker = Worker(store, say)
        wanted, seconds, busy, stale = 0, 0.0, False, False
        say(state="idle")
        while True:
            with suppress(queue.Empty):
                while (order := inbox.get(timeout=0.0 if busy else 1.0)) is not None:
                    # Orders that came while a batch was being chosen did not know of it.
                    wanted, busy = 0 if stale else int(order.get("choose", 0)), True
                    seconds = float(order.get("seconds", 0.0))
                return
            busy = worker.step(wanted, seconds)
            stale, wanted = wanted > 0, 0


def _listen(inbox: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        with suppress(ValueError):
            inbox.put(json.loads(line))
    inbox.put(None)
    time.sleep(2.0)
    os._exit(0)  # in the middle of a long computation; nothing it had stored is half-written


def _clear_drafts(folder: Path) -> None:
    """Files that a worker left half-written when it was cut off."""
    for pattern in (".predictions.*.tmp", ".map.*.tmp"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
