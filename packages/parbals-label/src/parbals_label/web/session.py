"""The running page: the desk, the worker, who is active, and when the queue must be filled."""

import asyncio
import time
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals.strategies.table import UNIFORM

from parbals_label.project.quick import QUICK, START, quick_batch
from parbals_label.server.desk import Desk
from parbals_label.store.records import QueueCounts
from parbals_label.store.store import Store
from parbals_label.web.ahead import Ahead
from parbals_label.web.items import Tasks
from parbals_label.web.progress import Curve, live, revision
from parbals_label.web.schemas import LiveOut, QueueOut, ServerOut
from parbals_label.web.supervisor import Supervisor

__all__ = ["Session"]

_BATCH = 10
_ACTIVE_SECONDS = 600.0
_TICK = 2.0
_PAUSE = 0.25
_RATE_SECONDS, _FIRST_SECONDS = 30.0, 5.0
_LIVE_SECONDS = 0.5
_JOURNAL = (
    "project.journal cannot be written. Labels are stored, but without their second copy; check "
    "the disk and the file."
)


class Session:
    """Everything that requests share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = Desk(folder)
        self.supervisor = Supervisor(folder, self._worker_changed)
        self._server = ServerOut(started=time.time())
        self.finished = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._seen: dict[str, float] = {}
        self._ready: dict[str, int] = {}
        self._done: deque[float] = deque(maxlen=10_000)
        self._chosen_at = 0
        self._ahead = Ahead()
        self._curve = Curve()
        self._tasks: Tasks | None = None
        self._live: LiveOut | None = None
        self._next_live = 0.0
        self._looking = asyncio.Lock()
        self._tender: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Open the project and see that items wait in it; raises what opening it raises."""
        self.desk.start()
        with Store.open(self.folder) as store:
            store.restart_leases(60.0 * store.settings.lease_minutes)
            if not store.queue_counts().waiting:
                quick_batch(store)
            *_, others, done = _waiting(store)
            # Items that wait from last time count as chosen now.
            self._chosen_at = done - bool(others[QUICK] + others[UNIFORM])

    async def start(self) -> None:
        """Start the worker and look after the queue."""
        self._loop = asyncio.get_running_loop()
        self.supervisor.start()
        self._tender = asyncio.create_task(self._tend())

    async def stop(self) -> None:
        """End the worker; requests that wait are still answered."""
        if self._tender is not None:
            self._tender.cancel()
        await asyncio.to_thread(self.supervisor.stop)

    def close(self) -> None:
        """Close the project."""
        self.desk.stop()

    def tasks(self, store: Store) -> Tasks:
        """What turns leases into tasks, as the settings are now."""
        if self._tasks is None or self._tasks.mark != store.settings_mark():
            self._tasks = Tasks(store)
        return self._tasks

    def touch(self, annotator: str, ready: int | None = None, done: int = 0) -> None:
        """Somebody is at work: ``ready`` items wait for them, or they have just ``done`` some.

        A name counts from its first answer: anybody can invent one.
        """
        if done or annotator in self._seen:
            self._seen[annotator] = time.monotonic()
            if ready is not None:
                self._ready[annotator] = ready
        self._done.extend([time.monotonic()] * done)
        self._wake.set()

    def queue(self, counts: QueueCounts) -> QueueOut:
        """The queue as one annotator sees it."""
        state, message = self.supervisor.state, self.supervisor.message
        if self.finished and not counts.available:
            state, message = "finished", "Every item is labelled or passed."
        return QueueOut(ready=counts.available, out=counts.assigned, state=state, message=message)

    async def live(self, since: str | None) -> LiveOut:
        """Progress; computed at most twice a second, and a twentieth of the time, for all."""
        # While one request computes it, the others get the last result.
        if self._live is None or not self._looking.locked():
            async with self._looking:
                progress = await self._look()
        else:
            progress = self._live
        queue = self.queue(await self.desk.read(lambda store: store.queue_counts()))
        more: dict[str, Any] = {"trouble": _JOURNAL} if self.desk.journal_behind else {}
        more["features"] = self.supervisor.adapting or progress.features
        if since == progress.revision:
            return LiveOut(revision=since, queue=queue, unchanged=True, **more)
        return progress.model_copy(update={"queue": queue, **more})

    async def _look(self) -> LiveOut:
        if self._live is not None and time.monotonic() < self._next_live:
            return self._live
        began, now = time.monotonic(), await self.desk.read(revision)
        if self._live is None or now != self._live.revision:
            self._live = await self.desk.read(
                lambda s: live(s, self._curve, self.queue(s.queue_counts()), self._server)
            )
        self._next_live = time.monotonic() + max(_LIVE_SECONDS, 20.0 * (time.monotonic() - began))
        return self._live

    def _worker_changed(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._look_again)

    def _look_again(self) -> None:
        self._ready.clear()
        self._wake.set()

    async def _tend(self) -> None:
        """Tell the worker how many items are missing, after each event and every two seconds."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK)
            self._wake.clear()
            try:
                n_items, renew = await self._missing()
                self.supervisor.ask(n_items, renew, self._ahead.effort)
            except Exception:  # the project cannot be read just now; requests say why
                await asyncio.sleep(_TICK)
            await asyncio.sleep(_PAUSE)

    async def _missing(self) -> tuple[int, list[str]]:
        """How many items the model should choose now, and instead of whose choice of those waiting.

        As many as ``Ahead`` says, and never more than can be labelled (``Queue.room``). Items
        chosen without the model are replaced, also those put there while it chooses: once it has
        learnt something new, and the very first items once five are answered.
        """
        free, room, others, done = await self.desk.read(_waiting)
        moment = time.monotonic()
        self._seen = {
            name: seen for name, seen in self._seen.items() if moment - seen < _ACTIVE_SECONDS
        }
        while self._done and moment - self._done[0] > _RATE_SECONDS:
            self._done.popleft()
        seconds, n_chosen = self.supervisor.seconds_to_choose, self.supervisor.n_chosen
        rate = len(self._done) / max(moment - min(self._done, default=0.0), _FIRST_SECONDS)
        self._ahead.learn(self.supervisor.n_batches, seconds, n_chosen, rate)
        wanted = self._ahead.wanted(len(self._seen), seconds, n_chosen, rate)
        newer = done - self._chosen_at
        renew = [name for name in others if name != START or 2 * newer >= _BATCH]
        replaced = sum(others[name] for name in renew)
        low = min([free, *(ready for name, ready in self._ready.items() if name in self._seen)])
        low, room = max(low - replaced, 0), room + replaced
        is_low = 2 * low < wanted
        self.finished = is_low and await self.desk.read(_is_finished)
        is_busy = self.supervisor.state in ("starting", "choosing")  # asked again when it is idle
        if is_busy or self.finished or not newer or not (is_low and room):
            return 0, []
        self._chosen_at = done
        return min(wanted - low, room), renew


def _waiting(store: Store) -> tuple[int, int, Counter[str], int]:
    """Items that wait, that may, that were chosen without the model; answers and passes."""
    unseen, names = store.unopened(), {START, QUICK, UNIFORM} - {store.settings.strategy}
    others = Counter({name: len(unseen.get(name, ())) for name in sorted(names)})
    return store.queue_counts().waiting, store.queue_capacity(), others, sum(store.revision()[:2])


def _is_finished(store: Store) -> bool:
    """Every item is labelled or passed, or a copy; some may still wait for a second opinion."""
    done = store.passes().keys() | set(store.labelled()) | dict(store.settings.copies).keys()
    return len(done) == store.n_items and not store.audit_labelled_by_programs()
