"""The page's second process: it chooses items, renews report, predictions and map, and adapts.

Orders come as JSON lines on standard input, {"choose": n, "renew": strategies whose choice is to
make way, "effort": arguments of the learner}; what it is doing goes to standard output in the same
way. Three threads work, each with a store of its own: one chooses, one reports, one teaches the
encoder where an owner wants that, so that none waits for another. All keep to one core and out of
the way of labelling. The process ends when its input does, and may be cut off at any time: nobody
waits for it, since the server hands out quick items (:mod:`parbals_label.project.quick`).
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals.errors import ParbalsError, ParbalsWarning, ProjectError
from parbals.files import TEMPORARY_SUFFIX

from parbals_label.files import DAY, sweep
from parbals_label.project.summary import ADAPT_FROM
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.records import ADAPTED
from parbals_label.store.store import Store
from parbals_label.web.map import make_map

__all__ = ["Adapter", "Chooser", "Reporter", "main"]

_NICENESS = 10
_LOOK_AGAIN = 0.5
_AFTER_ERROR = 10.0
_AFTER_REFUSAL = 2.0
_TOLD_EVERY = 1.0
_ADAPT_AGAIN = 1.5
"""Times the labels of last time: fewer new ones hardly change what an encoder has learnt."""
_BETWEEN_REPORTS, _REPORTS_SHARE = 3.0, 0.2
_MOST_NEWER = 10
"""After so many answers the pause before a new report is half as long."""
_QUIET = 8.0  # seconds without an answer: nobody waits for items, so there is no pause
_CANDIDATES = 2_000
_REPORT_CANDIDATES = 1_000
"""Fewer than when a command chooses: on the page somebody waits."""


class _Part:
    """A step that the worker repeats, with a pause after an error."""

    def __init__(self, store: Store, say: Callable[..., None]) -> None:
        self.store, self.say = store, say
        self.quiet_until = 0.0

    def attempt(self, work: Callable[[], bool]) -> bool:
        """Whether the step did something; an error is told in one sentence, and tried again."""
        if time.monotonic() < self.quiet_until:
            return False
        try:
            return work()
        except (ParbalsError, OSError) as error:
            self.quiet_until = time.monotonic() + _AFTER_ERROR
            message = str(error)
            if isinstance(error, OSError):
                message = f"A file of the project cannot be read or written ({error.strerror})."
            self.failed(message)
            return False

    def failed(self, message: str) -> None:
        """Tell people why a step was not done."""
        self.say(state="failed", message=message)


class Chooser(_Part):
    """Chooses by the project's strategy."""

    def step(
        self, n_wanted: int, *, renew: Sequence[str] = (), effort: Mapping[str, int] | None = None
    ) -> bool:
        """Choose so many items, instead of those to ``renew`` that wait; False if none was."""
        return n_wanted > 0 and self.attempt(lambda: self._choose(n_wanted, renew, effort or {}))

    def _choose(self, n_wanted: int, renew: Sequence[str], effort: Mapping[str, int]) -> bool:
        self.say(state="choosing")
        engine = load_engine()
        changes = dict(effort)
        models_annotators = bool(changes.pop("models_annotators", True))
        began = time.monotonic()
        try:
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always", ParbalsWarning)
                number, _ = engine.choose_batch(
                    self.store,
                    n_wanted,
                    fewer=True,
                    queued=True,
                    renew=renew,
                    n_candidates=_CANDIDATES,
                    models_annotators=models_annotators,
                    changes=changes,
                )
        except engine.NothingAvailableError:
            message = "Every item is labelled, passed or with somebody."
            self.say(state="idle", chose=0, message=message)
            return False
        except ItemsUnavailableError as error:
            self.quiet_until = time.monotonic() + _AFTER_REFUSAL
            message = f"No items could be chosen just now; it is tried again. {error}"
            self.say(state="idle", message=message)
            return False
        notes = [str(w.message) for w in raised if issubclass(w.category, ParbalsWarning)]
        self.say(
            state="idle",
            chose=n_wanted,
            seconds=time.monotonic() - began,
            batch=number,
            message=" ".join(notes) or None,
        )
        return True


class Reporter(_Part):
    """Renews report and predictions as labels come, and then the map."""

    reported = seen = -1
    made_of: Any = None
    began = rest = since = 0.0
    map_of: str | None = None

    def step(self) -> bool:
        """Renew the report or the map where it is due; False where neither is."""
        return self.attempt(lambda: self._report() or self._map())

    def is_due(self, answers: int) -> bool:
        """Whether these answers want a new report.

        Where reports take long, most of the time is left for choosing: they take a fifth of it,
        two where there are ten new answers, and where nobody answers there is no pause.
        """
        now = time.monotonic()
        if answers != self.seen:
            self.seen, self.since = answers, now
        waited, is_quiet = now - self.began, now - self.since >= _QUIET
        is_behind = answers - self.reported >= _MOST_NEWER and waited >= 0.5 * self.rest
        return answers != self.reported and (waited >= self.rest or is_behind or is_quiet)

    def _report(self) -> bool:
        answers, store = self.store.revision()[0], self.store
        made_of = store.settings.features, store.classes
        if made_of != self.made_of:  # features or classes are others than the latest report's
            self.reported, self.made_of = -1, made_of
        if not self.is_due(answers) or not self.store.n_labelled:
            return False
        if self.reported < 0 and self._is_fresh():
            self.reported = answers
            return False
        self.began = time.monotonic()
        load_engine().refresh(self.store, with_pending=False, n_candidates=_REPORT_CANDIDATES)
        self.rest = max(_BETWEEN_REPORTS, (time.monotonic() - self.began) / _REPORTS_SHARE)
        self.reported = answers
        self.say(reported=answers)
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


class Adapter(_Part):
    """Teaches the encoder what people have labelled, where an owner has switched that on.

    From 100 labels on, and again with half as many more; choosing and reports go on meanwhile, and
    see the new features when all of them are stored. A worker that is cut off goes on with the part
    it was at, unless labels came meanwhile.
    """

    looked_at = -1
    told = 0.0

    def step(self) -> bool:
        """Adapt where it is due; False where it is not."""
        return self.attempt(self._adapt)

    def failed(self, message: str) -> None:
        self.say(adapting=message)

    def _adapt(self) -> bool:
        settings = self.store.settings
        n_labels = len(set(self.store.labelled()).difference(settings.audit))
        if not settings.adapt or n_labels == self.looked_at:
            return False
        from parbals_label.project.adapting import adapt_project, starting_point

        starting_point(self.store)  # one that cannot adapt says so before there are labels
        done = [event.detail["n_labels"] for event in self.store.events(ADAPTED)]
        is_due = n_labels >= max(ADAPT_FROM, _ADAPT_AGAIN * (done[-1] if done else 0))
        if is_due:
            adapt_project(self.store, self._progress)
        early = f"The features learn from {ADAPT_FROM} labels on; there are {n_labels}."
        self.say(adapting=early if n_labels < ADAPT_FROM else None)
        self.looked_at = n_labels
        return is_due

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        if time.monotonic() < self.told + _TOLD_EVERY:
            return
        self.told = time.monotonic()
        if not self.store.settings.adapt:
            raise ProjectError("Adapting was switched off; the features are as they were.")
        share = f": {100 * done // total} %" if total else ""
        self.say(adapting=f"The features learn from the labels, {stage}{share}.")


def load_engine() -> Any:
    """The model's side of a project, loaded when it is first needed: that takes seconds."""
    from parbals_label.project import engine

    return engine


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    _give_way()
    out, speaking = sys.stdout, threading.Lock()
    sys.stdout = sys.stderr  # a library that prints must not be taken for us
    inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda number, frame: _end(inbox))

    def say(**words: Any) -> None:
        with speaking:
            out.write(json.dumps(words) + "\n")
            out.flush()

    say(state="starting")
    sweep(folder, f".*{TEMPORARY_SUFFIX}", DAY)  # others may be written now
    with Store.open(folder) as store:
        chooser = Chooser(store, say)
        say(state="idle")
        load_engine()  # before two threads ask for it at once
        for part in (Reporter, Adapter):
            threading.Thread(target=_repeat, args=(part, folder, say), daemon=True).start()
        while (order := inbox.get()) is not None:
            with suppress(queue.Empty):
                while True:
                    later = inbox.get_nowait()
                    if later is None:
                        return
                    order = later  # the last order counts
            chooser.step(
                int(order.get("choose", 0)),
                renew=order.get("renew", ()),
                effort=order.get("effort"),
            )


def _give_way() -> None:
    """Whoever labels comes first: the model computes when the server has nothing to do.

    Linux lets a process that is merely nice end its turn of a few milliseconds first, of which a
    label meets several; one that is idle it interrupts at once.
    """
    with suppress(AttributeError, OSError):
        os.nice(_NICENESS)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _repeat(part: type[Reporter | Adapter], folder: Path, say: Callable[..., None]) -> None:
    try:
        with Store.open(folder) as store:
            repeated = part(store, say)
            while True:
                if not repeated.step():
                    time.sleep(_LOOK_AGAIN)
    except BaseException:  # a mistake of ours ends the process, which is then started again
        traceback.print_exc()
        os._exit(1)


def _listen(inbox: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        with suppress(ValueError):
            inbox.put(json.loads(line))
    _end(inbox)


def _end(inbox: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """End soon: at the next order, or in the middle of a long computation.

    Nothing that was stored is half-written.
    """
    inbox.put(None)
    late = threading.Timer(2.0, os._exit, (0,))
    late.daemon = True
    late.start()


def run(folder: Path) -> None:
    """Serve, then end the process at once.

    The threads that report and fine-tune may be inside compiled code. Python's own shutdown would
    end them there, which C++ answers with an abort. Everything is stored by then.
    """
    try:
        main(folder)
    except BaseException:
        traceback.print_exc()
        exit_code = 1
    else:
        exit_code = 0
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
