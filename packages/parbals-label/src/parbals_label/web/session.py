"""The state of a running page: its threads and worker, active annotators, and the queue."""

import asyncio
import time
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from parbals.strategies.table import RANDOM_STRATEGY

from parbals_label.project.measured import never_chosen
from parbals_label.project.quick import QUICK, START, quick_batch
from parbals_label.server.desk import Desk
from parbals_label.store.records import QueueCounts
from parbals_label.store.store import Store
from parbals_label.web.items import Tasks
from parbals_label.web.progress import Curve, live, revision
from parbals_label.web.queue_planner import QueuePlanner
from parbals_label.web.schemas import LiveOut, QueueOut, ServerOut
from parbals_label.web.supervisor import Supervisor

__all__ = ["Session"]

_START_ANSWERS = 5
"""Answers after which unopened items of the cold start are replaced."""
_ACTIVE_SECONDS = 600.0
"""Time without a request after which an annotator is no longer active."""
_TICK_SECONDS = 2.0
_PAUSE_SECONDS = 0.25
_RATE_SECONDS = 30.0
"""The period over which the rate of labelling is measured."""
_MIN_RATE_SECONDS = 5.0
_LIVE_SECONDS = 0.5
_JOURNAL_ERROR = (
    "project.journal cannot be written. Labels are stored, but without their second copy; check "
    "the disk and the file."
)


class _QueueState(NamedTuple):
    """The queue as the planner needs it.

    Attributes:
        n_waiting: items that are assigned to nobody.
        capacity: items that may be added.
        fallback: strategy → unopened items that were chosen without the model.
        n_done: answers and passes so far.
    """

    n_waiting: int
    capacity: int
    fallback: Counter[str]
    n_done: int


class Session:
    """State that all requests of one project share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = Desk(folder)
        self.supervisor = Supervisor(folder, self._worker_changed)
        self._server = ServerOut(started=time.time())
        self.finished = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._active_at: dict[str, float] = {}
        """Annotator → time of the latest request."""
        self._available: dict[str, int] = {}
        """Annotator → items in the queue that they may label."""
        self._answer_times: deque[float] = deque(maxlen=10_000)
        self._requested_at = 0
        """Answers and passes when items were requested last."""
        self._planner = QueuePlanner()
        self._curve = Curve()
        self._tasks: Tasks | None = None
        self._live: LiveOut | None = None
        self._next_live = 0.0
        self._live_lock = asyncio.Lock()
        self._queue_task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Open the project and fill an empty queue; raises what opening it raises."""
        self.desk.start()
        with Store.open(self.folder) as store:
            store.restart_leases(60.0 * store.settings.lease_minutes)
            if not store.queue_counts().waiting:
                quick_batch(store)
            queue = _queue_state(store)
            # Items of the last run count as requested now, unless the fallback chose some.
            has_fallback = bool(queue.fallback[QUICK] + queue.fallback[RANDOM_STRATEGY])
            self._requested_at = queue.n_done - has_fallback

    async def start(self) -> None:
        """Start the worker and the task that keeps the queue filled."""
        self._loop = asyncio.get_running_loop()
        self.supervisor.start()
        self._queue_task = asyncio.create_task(self._keep_queue_filled())

    async def stop(self) -> None:
        """Stop the worker; queued requests are still answered."""
        if self._queue_task is not None:
            self._queue_task.cancel()
        await asyncio.to_thread(self.supervisor.stop)

    def close(self) -> None:
        """Close the project."""
        self.desk.stop()

    def tasks(self, store: Store) -> Tasks:
        """Return the factory of tasks for the current settings."""
        if self._tasks is None or self._tasks.mark != store.settings_mark():
            self._tasks = Tasks(store)
        return self._tasks

    def touch(self, annotator: str, ready: int | None = None, done: int = 0) -> None:
        """Record that an annotator is active.

        A name counts only from its first answer, because anybody can invent names.

        Args:
            annotator: the name.
            ready: items in the queue that are available to them.
            done: answers that they have just given.
        """
        if done or annotator in self._active_at:
            self._active_at[annotator] = time.monotonic()
            if ready is not None:
                self._available[annotator] = ready
        self._answer_times.extend([time.monotonic()] * done)
        self._wake.set()

    def queue(self, counts: QueueCounts) -> QueueOut:
        """Return the queue for an annotator."""
        state = self.supervisor.state
        message = self.supervisor.message
        if self.finished and not counts.available:
            state = "finished"
            message = "All items are labelled, skipped or marked unsure."
        return QueueOut(ready=counts.available, out=counts.assigned, state=state, message=message)

    async def live(self, since: str | None) -> LiveOut:
        """Return the progress, computed for all at most twice a second and in 5 % of the time."""
        # While one request computes it, the others get the last result.
        if self._live is None or not self._live_lock.locked():
            async with self._live_lock:
                progress = await self._update_live()
        else:
            progress = self._live
        queue = self.queue(await self.desk.read(lambda store: store.queue_counts()))
        extra: dict[str, Any] = {"features": self.supervisor.adapting or progress.features}
        if self.desk.journal_behind:
            extra["trouble"] = _JOURNAL_ERROR
        if since == progress.revision:
            return LiveOut(revision=since, queue=queue, unchanged=True, **extra)
        return progress.model_copy(update={"queue": queue, **extra})

    async def _update_live(self) -> LiveOut:
        if self._live is not None and time.monotonic() < self._next_live:
            return self._live
        started_at = time.monotonic()
        current_revision = await self.desk.read(revision)
        if self._live is None or current_revision != self._live.revision:
            self._live = await self.desk.read(
                lambda store: live(
                    store, self._curve, self.queue(store.queue_counts()), self._server
                )
            )
        seconds = time.monotonic() - started_at
        self._next_live = time.monotonic() + max(_LIVE_SECONDS, 20.0 * seconds)
        return self._live

    def _worker_changed(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._check_queue)

    def _check_queue(self) -> None:
        self._available.clear()
        self._wake.set()

    async def _keep_queue_filled(self) -> None:
        """Ask the worker for missing items, after each event and every two seconds."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_SECONDS)
            self._wake.clear()
            try:
                n_items, replaces = await self._missing()
                self.supervisor.ask(n_items, replaces, self._planner.effort)
            except Exception:  # the project cannot be read just now; requests report why
                await asyncio.sleep(_TICK_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _missing(self) -> tuple[int, list[str]]:
        """Return how many items to choose now, and whose unopened items to replace.

        As many as the planner says, and never more than may be queued (``Queue.queue_capacity``).
        Items that were chosen without the model are replaced, including those added while it
        chooses: once there are new answers, and items of the cold start once five are answered.
        """
        queue = await self.desk.read(_queue_state)
        rate = self._labelling_rate()
        seconds = self.supervisor.seconds_to_choose
        n_chosen = self.supervisor.n_chosen
        self._planner.update(self.supervisor.n_batches, seconds, n_chosen, rate)
        queue_length = self._planner.queue_length(len(self._active_at), seconds, n_chosen, rate)
        n_newer = queue.n_done - self._requested_at
        replaces = [name for name in queue.fallback if name != START or n_newer >= _START_ANSWERS]
        n_replaced = sum(queue.fallback[name] for name in replaces)
        n_left = max(self._least_available(queue) - n_replaced, 0)
        capacity = queue.capacity + n_replaced
        is_low = 2 * n_left < queue_length
        self.finished = is_low and await self.desk.read(_is_finished)
        is_busy = self.supervisor.state in ("starting", "choosing")  # checked again when idle
        if is_busy or self.finished or not n_newer or not (is_low and capacity):
            return 0, []
        self._requested_at = queue.n_done
        return min(queue_length - n_left, capacity), replaces

    def _labelling_rate(self) -> float:
        """Return the answers a second in the last half minute; inactive annotators are dropped."""
        now = time.monotonic()
        self._active_at = {
            name: active_at
            for name, active_at in self._active_at.items()
            if now - active_at < _ACTIVE_SECONDS
        }
        while self._answer_times and now - self._answer_times[0] > _RATE_SECONDS:
            self._answer_times.popleft()
        period = max(now - min(self._answer_times, default=0.0), _MIN_RATE_SECONDS)
        return len(self._answer_times) / period

    def _least_available(self, queue: _QueueState) -> int:
        """Return the number of available items of the active annotator who has the fewest."""
        active = [n for name, n in self._available.items() if name in self._active_at]
        return min([queue.n_waiting, *active])


def _queue_state(store: Store) -> _QueueState:
    unopened = store.unopened()
    fallback_strategies = {START, QUICK, RANDOM_STRATEGY} - {store.settings.strategy}
    return _QueueState(
        n_waiting=store.queue_counts().waiting,
        capacity=store.queue_capacity(),
        fallback=Counter(
            {name: len(unopened.get(name, ())) for name in sorted(fallback_strategies)}
        ),
        n_done=sum(store.revision()[:2]),
    )


def _is_finished(store: Store) -> bool:
    """Whether every item that may be chosen is labelled or skipped; some may need more answers."""
    finished = store.passes().keys() | set(store.labelled()) | never_chosen(store)
    return len(finished) == store.n_items and not store.audit_labelled_by_programs()
