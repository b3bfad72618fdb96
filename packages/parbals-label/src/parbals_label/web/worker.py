"""The worker process of the page: chooses items, updates the report, and fine-tunes the encoder.

Commands arrive as JSON lines on standard input: {"choose": number of items, "replaces": strategies
whose unopened items are replaced, "effort": arguments of the learner}. The worker reports its state
on standard output, also as JSON lines. Three threads, each with its own store, run independently:
one chooses items, one updates report, predictions and map, and one fine-tunes the encoder if an
owner has switched that on. All run at low priority, and the supervisor keeps libraries from
starting further threads. The process ends when its input ends, and may be killed at any time:
nobody waits for it, because the server has a fallback queue (:mod:`parbals_label.project.quick`).
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
from parbals.wording import duration

from parbals_label.files import DAY, sweep
from parbals_label.project.measured import held_back_positions
from parbals_label.project.measuring import draw_requested_sample
from parbals_label.project.summary import ADAPT_FROM
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.records import ADAPTED
from parbals_label.store.store import Store
from parbals_label.web.map import make_map
from parbals_label.web.target import is_compared, target_key

__all__ = ["Adapter", "Chooser", "Reporter", "main"]

_NICENESS = 10
_POLL_SECONDS = 0.5
_ERROR_PAUSE_SECONDS = 10.0
_CONFLICT_PAUSE_SECONDS = 2.0
_PROGRESS_SECONDS = 1.0
_ADAPT_GROWTH = 1.5
"""Fine-tune again at this multiple of the last number of labels: fewer change an encoder little."""
_MIN_REPORT_INTERVAL = 3.0
"""Smallest number of seconds between the starts of two reports."""
_MAX_REPORT_SHARE = 0.2
"""Largest share of the time that reports may take."""
_MANY_NEWER_ANSWERS = 10
"""With so many answers since the latest report, the next one comes after half the interval."""
_QUIET_SECONDS = 8.0
"""After this time without an answer a report may start at once: nobody is waiting for items."""
_CANDIDATES = 2_000
_REPORT_CANDIDATES = 1_000
"""Items considered for a batch, and in a report: fewer than commands use, because annotators are
waiting on the page."""
_EXIT_SECONDS = 2.0
_ALIVE_SECONDS = 10.0


class _Step:
    """Work that the worker repeats; after an error it pauses. ``say`` sends a message."""

    def __init__(self, store: Store, say: Callable[..., None]) -> None:
        self.store = store
        self.say = say
        self.paused_until = 0.0

    def attempt(self, work: Callable[[], bool]) -> bool:
        """Do the work, unless it pauses after an error; returns whether it did something."""
        if time.monotonic() < self.paused_until:
            return False
        try:
            return work()
        except (ParbalsError, OSError) as error:
            self.paused_until = time.monotonic() + _ERROR_PAUSE_SECONDS
            message = str(error)
            if isinstance(error, OSError):
                message = f"A file of the project cannot be read or written ({error.strerror})."
            self.failed(message)
            return False

    def failed(self, message: str) -> None:
        """Tell the server why the work failed."""
        self.say(state="failed", message=message)


class Chooser(_Step):
    """Chooses items by the project's strategy."""

    def step(
        self, n_items: int, *, replaces: Sequence[str] = (), effort: Mapping[str, int] | None = None
    ) -> bool:
        """Choose ``n_items``; the batch replaces unopened items of the strategies in ``replaces``.

        Returns whether a batch was stored.
        """
        return n_items > 0 and self.attempt(lambda: self._choose(n_items, replaces, effort or {}))

    def _choose(self, n_items: int, replaces: Sequence[str], effort: Mapping[str, int]) -> bool:
        from parbals_label.project.choose import NothingAvailableError, choose_batch

        self.say(state="choosing")
        changes = dict(effort)
        models_annotators = bool(changes.pop("models_annotators", True))
        started_at = time.monotonic()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ParbalsWarning)
                batch, _ = choose_batch(
                    self.store,
                    n_items,
                    fewer=True,
                    queued=True,
                    replaces=replaces,
                    n_candidates=_CANDIDATES,
                    models_annotators=models_annotators,
                    changes=changes,
                )
        except NothingAvailableError:
            message = "All items are labelled, skipped or assigned."
            self.say(state="idle", chose=0, message=message)
            return False
        except ItemsUnavailableError as error:
            self.paused_until = time.monotonic() + _CONFLICT_PAUSE_SECONDS
            message = f"No items could be chosen just now; the next answer tries again. {error}"
            self.say(state="idle", message=message)
            return False
        notes = [str(w.message) for w in caught if issubclass(w.category, ParbalsWarning)]
        self.say(
            state="idle",
            chose=n_items,
            seconds=time.monotonic() - started_at,
            batch=batch,
            message=" ".join(notes) or None,
        )
        return True


class Reporter(_Step):
    """Updates the report and the predictions as answers arrive, and then the map.

    It also draws samples of the target set, whose rows need predictions.
    """

    n_reported = -1
    """Answers that the latest report includes; -1 before the first one."""
    n_seen = -1
    """Answers at the latest check."""
    inputs: Any = None
    """Features and classes of the latest report."""
    started_at = 0.0
    min_interval = 0.0
    """Seconds between the starts of two reports."""
    last_answer_at = 0.0
    map_key: tuple[str, str] | None = None
    """The features and the target set that the stored map was made from."""

    def step(self) -> bool:
        """Draw a sample, update the report or else the map, if due; returns whether one was."""
        return self.attempt(
            lambda: self._draw_sample() or self._update_report() or self._update_map()
        )

    def _draw_sample(self) -> bool:
        """Draw the sample of the target set that an owner has asked for."""
        return draw_requested_sample(self.store)

    def is_due(self, n_answers: int) -> bool:
        """Whether a new report is due at this number of answers.

        Reports use at most 20 % of the time, 40 % once ten answers are new, and any share while
        nobody answers.
        """
        now = time.monotonic()
        if n_answers != self.n_seen:
            self.n_seen = n_answers
            self.last_answer_at = now
        if n_answers == self.n_reported:
            return False
        elapsed = now - self.started_at
        is_quiet = now - self.last_answer_at >= _QUIET_SECONDS
        is_behind = n_answers - self.n_reported >= _MANY_NEWER_ANSWERS
        min_interval = 0.5 * self.min_interval if is_behind else self.min_interval
        return is_quiet or elapsed >= min_interval

    def _update_report(self) -> bool:
        store = self.store
        n_answers = store.revision()[0]
        inputs = (store.settings.features, store.classes)
        if inputs != self.inputs:  # features or classes have changed since the latest report
            self.n_reported = -1
            self.inputs = inputs
        if not self.is_due(n_answers) or not store.n_labelled:
            return False
        if self.n_reported < 0 and self._is_up_to_date():
            self.n_reported = n_answers
            return False
        self.started_at = time.monotonic()
        load_engine().refresh(store, with_pending=False, n_candidates=_REPORT_CANDIDATES)
        seconds = time.monotonic() - self.started_at
        self.min_interval = max(_MIN_REPORT_INTERVAL, seconds / _MAX_REPORT_SHARE)
        self.n_reported = n_answers
        self.say(reported=n_answers)
        return True

    def _is_up_to_date(self) -> bool:
        """Whether the stored predictions include all answers."""
        stored = self.store.settings.predictions
        if stored is None or not (self.store.folder / stored.file).exists():
            return False
        return stored.answers == self.store.revision()[0]

    def _update_map(self) -> bool:
        settings = self.store.settings
        features = settings.features
        stored = settings.map
        if features is None:
            return False
        key = (features.digest, target_key(settings))
        if self.map_key == key:
            return False
        if (
            stored is None
            or stored.features != features.digest
            or not (self.store.folder / stored.file).exists()
            or not is_compared(self.store)
        ):
            make_map(self.store)
        self.map_key = key
        return True


class Adapter(_Step):
    """Fine-tunes the encoder on the labels, if an owner has switched that on.

    It starts at 100 labels and runs again at 1.5 times as many. Choosing and reports continue
    meanwhile, and use the new features once all of them are stored. A worker that was killed
    resumes at the same training step, unless new labels have arrived.
    """

    n_checked = -1
    """Labels at the latest check."""
    progress_at = 0.0
    """When progress was reported last."""
    ends_at = 0.0
    """When the fine-tuning is expected to end."""

    def step(self) -> bool:
        """Fine-tune if it is due; returns whether it was."""
        return self.attempt(self._adapt)

    def failed(self, message: str) -> None:
        self.say(adapting=message)

    def _adapt(self) -> bool:
        settings = self.store.settings
        not_trained_on = {*settings.audit, *settings.target_items}
        not_trained_on |= held_back_positions(self.store)
        n_labels = len(set(self.store.labelled()).difference(not_trained_on))
        if not settings.adapt or n_labels == self.n_checked:
            return False
        from parbals_label.project.adapting import adapt_project, starting_point

        starting_point(self.store)  # raises if the encoder cannot be fine-tuned
        earlier = [event.detail["n_labels"] for event in self.store.events(ADAPTED)]
        last_n_labels = earlier[-1] if earlier else 0
        is_due = n_labels >= max(ADAPT_FROM, _ADAPT_GROWTH * last_n_labels)
        if is_due:
            adapt_project(self.store, self._progress, announce=self._announce)
        message = None
        if n_labels < ADAPT_FROM:
            message = f"Fine-tuning starts at {ADAPT_FROM} labels; there are {n_labels}."
        self.say(adapting=message)
        self.n_checked = n_labels
        return is_due

    def _announce(self, seconds: float) -> None:
        self.ends_at = time.monotonic() + seconds

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        if time.monotonic() < self.progress_at + _PROGRESS_SECONDS:
            return
        self.progress_at = time.monotonic()
        if not self.store.settings.adapt:  # the error ends the fine-tuning
            raise ProjectError("Fine-tuning was switched off; the features are unchanged.")
        share = f": {100 * done // total} %" if total else ""
        left = ""
        if self.ends_at > time.monotonic():
            left = f"; {duration(self.ends_at - time.monotonic())} left"
        self.say(adapting=f"Fine-tuning the encoder on the labels, {stage}{share}{left}.")


def load_engine() -> Any:
    """Import the engine when it is first needed, because that takes seconds."""
    from parbals_label.project import engine

    return engine


def main(folder: Path) -> None:
    """Run the worker until standard input ends."""
    _lower_priority()
    out = sys.stdout
    lock = threading.Lock()
    sys.stdout = sys.stderr  # output of libraries must not mix with the messages
    commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda number, frame: _stop(commands))

    def say(**message: Any) -> None:
        with lock:
            out.write(json.dumps(message) + "\n")
            out.flush()

    threading.Thread(target=_say_alive, args=(say,), daemon=True).start()
    say(state="starting")
    sweep(folder, f".*{TEMPORARY_SUFFIX}", DAY)  # younger files may still be written
    with Store.open(folder) as store:
        chooser = Chooser(store, say)
        say(state="idle")
        load_engine()  # here, so that two threads do not import it at once
        for step_class in (Reporter, Adapter):
            threading.Thread(target=_repeat, args=(step_class, folder, say), daemon=True).start()
        while (command := commands.get()) is not None:
            with suppress(queue.Empty):
                while True:
                    later = commands.get_nowait()
                    if later is None:
                        return
                    command = later  # only the latest command counts
            chooser.step(
                int(command.get("choose", 0)),
                replaces=command.get("replaces", ()),
                effort=command.get("effort"),
            )


def _lower_priority() -> None:
    """Compute only while the processor is idle, so that storing a label is never delayed.

    Niceness alone is not enough: Linux lets a nice process finish its time slice of a few
    milliseconds, but preempts a process of the idle class at once.
    """
    with suppress(AttributeError, OSError):
        os.nice(_NICENESS)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _repeat(step_class: type[Reporter | Adapter], folder: Path, say: Callable[..., None]) -> None:
    """Repeat a step for ever, with a store of its own; the main function of a thread."""
    try:
        with Store.open(folder) as store:
            step = step_class(store, say)
            while True:
                if not step.step():
                    time.sleep(_POLL_SECONDS)
    except BaseException:  # a bug ends the process, which the supervisor restarts
        traceback.print_exc()
        os._exit(1)


def _say_alive(say: Callable[..., None]) -> None:
    """Tell the supervisor every few seconds that the process runs, also in a long computation."""
    while True:
        say(alive=True)
        time.sleep(_ALIVE_SECONDS)


def _read_commands(commands: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        with suppress(ValueError):
            commands.put(json.loads(line))
    _stop(commands)


def _stop(commands: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """Stop before the next command; a long computation is ended after two seconds.

    Stored data is never half-written.
    """
    commands.put(None)
    timer = threading.Timer(_EXIT_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()


def run(folder: Path) -> None:
    """Run the worker, then end the process without Python's shutdown.

    The threads that report and fine-tune may be inside compiled code. Python's shutdown would end
    them there, and C++ would abort the process. Everything that is finished is stored by then.
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
