"""What is done behind the page again and again: choose items for the queue, and renew the report.

Each is a step that says what it is doing, and pauses after an error.
"""

import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from parbals.errors import ParbalsError, ParbalsWarning

from parbals_label.store.batches import TakenError
from parbals_label.store.store import Store
from parbals_label.web.map import make_map

__all__ = ["Chooser", "Reporter", "load_engine"]

_AFTER_ERROR = 10.0
_AFTER_REFUSAL = 2.0
_BETWEEN_REPORTS = 3.0
_MOST_BETWEEN_REPORTS = 30.0
_MOST_NEWER = 10
"""A report is renewed at the latest after so many answers, or after half a minute."""
_REHEARSED = 10
_CANDIDATES = 2_000
_REPORT_CANDIDATES = 1_000
"""Fewer than when a command chooses: on the page somebody waits."""


class _Part:
    """One thing that is done again and again, with a pause after an error.

    ``own`` is of the learner, see :func:`parbals_label.project.engine.learner_of`.
    """

    def __init__(
        self, store: Store, say: Callable[..., None], own: Mapping[str, Any] | None = None
    ) -> None:
        self.store, self.say, self.own = store, say, own
        self.quiet_until = 0.0

    def attempt(self, work: Callable[[], bool]) -> bool:
        """Whether something was done; an error is said in one sentence, and tried again later."""
        if time.monotonic() < self.quiet_until:
            return False
        try:
            return work()
        except (ParbalsError, OSError) as error:
            self.quiet_until = time.monotonic() + _AFTER_ERROR
            message = str(error)
            if isinstance(error, OSError):
                message = f"A file of the project cannot be read or written ({error.strerror})."
            self.say(state="failed", message=message)
            return False


class Chooser(_Part):
    """Chooses by the project's strategy."""

    def step(self, n_wanted: int, *, renew: bool = False) -> bool:
        """Choose so many items, with ``renew`` instead of those that wait; False if none was."""
        return n_wanted > 0 and self.attempt(lambda: self._choose(n_wanted, renew))

    def rehearse(self) -> bool:
        """Choose without handing out, so that the first real choice finds its programs compiled."""

        def act() -> bool:
            learner = load_engine().learner_of(self.store, renew=True, n_candidates=_CANDIDATES)
            n_free = learner.free_items
            return n_free > 0 and len(learner.choose(min(_REHEARSED, n_free))) > 0

        return self.attempt(act)

    def _choose(self, n_wanted: int, renew: bool) -> bool:
        self.say(state="choosing")
        engine = load_engine()
        watch = _Stopwatch()
        try:
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always", ParbalsWarning)
                number, batch = engine.choose_batch(
                    self.store,
                    n_wanted,
                    fewer=True,
                    queued=True,
                    renew=renew,
                    n_candidates=_CANDIDATES,
                    own=self.own,
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
        notes = [str(w.message) for w in raised if issubclass(w.category, ParbalsWarning)]
        self.say(
            state="idle",
            chose=len(batch),
            seconds=watch.seconds(),
            batch=number,
            message=" ".join(notes) or None,
        )
        return True


class Reporter(_Part):
    """Renews report and predictions as labels come, and then the map."""

    def __init__(
        self, store: Store, say: Callable[..., None], own: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(store, say, own)
        self.reported = -1
        self.began, self.rest = -_MOST_BETWEEN_REPORTS, 0.0
        self.map_of: Any = None

    def step(self) -> bool:
        """Do what is due; False if nothing is."""
        return self.attempt(lambda: self._report() or self._map())

    def is_due(self, answers: int) -> bool:
        """Whether these answers want a new report.

        Where reports take long, most of the time is left for choosing, but never more than ten
        answers or half a minute.
        """
        if answers == self.reported:
            return False
        waited = time.monotonic() - self.began
        return waited >= self.rest or answers - self.reported >= _MOST_NEWER

    def _report(self) -> bool:
        answers = self.store.revision()[0]
        if not self.is_due(answers) or not self.store.n_labelled:
            return False
        if self.reported < 0 and self._is_fresh():
            self.reported = answers
            return False
        self.began = time.monotonic()
        watch = _Stopwatch()
        load_engine().refresh(
            self.store, with_pending=False, n_candidates=_REPORT_CANDIDATES, own=self.own
        )
        self.rest = min(max(_BETWEEN_REPORTS, 4.0 * watch.seconds()), _MOST_BETWEEN_REPORTS)
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


def load_engine() -> Any:
    """The model's side of a project, loaded when it is first needed: that takes seconds."""
    from parbals_label.project import engine

    return engine


class _Stopwatch:
    """Seconds since it was made, without those in which this thread's programs were compiled.

    A batch that had to wait for a compiler says nothing about how long the next one takes.
    """

    def __init__(self) -> None:
        _hear_compiler()
        self._thread = threading.get_ident()
        self._before, self._began = _compiling[self._thread], time.monotonic()

    def seconds(self) -> float:
        """So far."""
        compiled = _compiling[self._thread] - self._before
        return max(0.0, time.monotonic() - self._began - compiled)


_compiling: defaultdict[int, float] = defaultdict(float)


@cache
def _hear_compiler() -> None:
    import jax

    def hear(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            _compiling[threading.get_ident()] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(hear)
