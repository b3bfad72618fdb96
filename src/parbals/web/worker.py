"""The page's second process: it chooses items for the queue and renews report, predictions and map.

Told by JSON lines on standard input, {"choose": n, "seconds": what waits lasts}; says what it is
doing by JSON lines on standard output. It keeps to one core and out of the way of labelling, and
ends when its input does. Whatever it is doing may be cut off at any time.
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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError, ParbalsError, ParbalsWarning
from parbals.project.features import load_features, store_features
from parbals.store.batches import TakenError
from parbals.store.settings import MapFile
from parbals.store.store import Store

__all__ = ["Worker", "first_items", "main", "make_map"]

_BETWEEN_REPORTS = 5.0
_AFTER_ERROR = 10.0
_AFTER_REFUSAL = 2.0
_FIRST = 3
_MAP_ROWS = 20_000
_SECONDS_TO_CHOOSE = 8.0
_QUICK = "power-epig"
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
        """Do what is most needed; False if there is nothing to do.

        What waits lasts for ``seconds``.
        """
        if time.monotonic() < self.quiet_until:
            return False
        try:
            return self._choose(n_wanted, seconds) or self._report() or self._map()
        except (ParbalsError, OSError) as error:
            self.quiet_until = time.monotonic() + _AFTER_ERROR
            disk = f"A file of the project could not be read or written ({getattr(error, 'strerror', None)})."
            self.say(
                state="failed", message=str(error) if isinstance(error, ParbalsError) else disk
            )
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
            return n_wanted, _QUICK
        return min(n_wanted, fits), None

    def _choose(self, n_wanted: int, seconds: float) -> bool:
        if n_wanted < 1:
            return False
        self.say(state="choosing")
        engine, began = _engine(), time.monotonic()
        n_pending = len(engine.pending_of(self.store))
        n_items, strategy = self.plan(n_wanted, n_pending, seconds)
        try:
            with warnings.catch_warnings(record=True) as caught:
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
        notes = [
            str(entry.message) for entry in caught if issubclass(entry.category, ParbalsWarning)
        ]
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
    from parbals.files import cache_folder
    from parbals.numerics import use_disk_cache
    from parbals.project import engine

    use_disk_cache(cache_folder())
    return engine


def first_items(store: Store, n: int = _FIRST) -> int:
    """A few items drawn at random if nothing waits, so that labelling starts before the model is
    there."""
    if store.queue_counts().free:
        return 0
    taken = {*store.votes(), *store.pending(), *store.passes()}
    if len(taken) >= store.n_items:
        return 0
    generator = np.random.default_rng([store.settings.seed, len(taken)])
    free = np.setdiff1d(np.arange(store.n_items), np.fromiter(taken, np.int64))
    chosen = generator.choice(free, min(n, len(free)), replace=False).tolist()
    rows = [(position, None, None) for position in chosen]
    with suppress(InputError):  # somebody else has just taken them
        store.record_batch(
            "random", None, rows, {"notes": ["drawn while the model was starting"]}, queued=True
        )
    return len(rows)


def make_map(store: Store) -> None:
    """Two principal directions of the features (N, D), and every item's place along them, scaled to
    [-1, 1]."""
    settings = store.settings
    assert settings.features is not None
    features = load_features(store.folder, settings.features, encoder=settings.encoder)
    n_items, n_columns = features.shape
    some = np.sort(np.random.default_rng(0).permutation(n_items)[:_MAP_ROWS])
    sample = np.asarray(features[some], np.float64)
    mean = sample.mean(axis=0)
    _, roots, directions = (
        np.linalg.svd(sample - mean, full_matrices=False)
        if n_columns < 2048
        else _thin(sample - mean)
    )
    variance = np.square(roots)
    axes = np.zeros((n_columns, 2))
    axes[:, : min(2, len(directions))] = directions[:2].T
    axes *= np.where(
        axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0
    )  # a direction's sign is arbitrary
    places = np.empty((n_items, 2), np.float32)
    for start in range(0, n_items, 8192):
        places[start : start + 8192] = (
            np.asarray(features[start : start + 8192], np.float64) - mean
        ) @ axes
    places /= max(float(np.abs(places).max(initial=0.0)), 1e-12)
    shares = [float(v) for v in variance[:2] / max(float(variance.sum()), 1e-300)]
    written = store_features(store.folder, places, name="map")
    explained = (*shares, 0.0, 0.0)[:2]
    store.update_settings(
        map=MapFile(**asdict(written), explained=explained, features=settings.features.digest)
    )
    if settings.map is not None and settings.map.file != written.file:
        (store.folder / settings.map.file).unlink(missing_ok=True)


def _thin(centred: np.ndarray) -> tuple[None, np.ndarray, np.ndarray]:
    """The same from the first directions only, where the features are many."""
    from sklearn.utils.extmath import randomized_svd

    _, roots, directions = randomized_svd(centred, 2, random_state=0)
    rest = max(float(np.square(centred).sum()) - float(np.square(roots).sum()), 0.0)
    return None, np.append(roots, np.sqrt(rest)), directions


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
