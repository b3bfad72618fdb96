"""One thread writes to the project, a few read; requests wait without blocking each other.

Writes that wait at the same time share one commit: one flush to disk serves all of them, and each
caller hears that its write is stored only after that flush.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from parbals.errors import InputError, ProjectError

from parbals_label.store.store import Store

__all__ = ["BusyError", "Desk"]

T = TypeVar("T")
Action = Callable[[Store], Any]

_MOST_WAITING = 1000
_MOST_TOGETHER = 64


class BusyError(ProjectError):
    """More requests wait than can be served soon."""


class Desk:
    """The project's clerks, each a thread with a store of its own.

    Reads that walk over all items go to ``read_slowly``, so that labelling never waits for an
    export.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = _Line(folder, 1, read_only=False)
        self._readers = _Line(folder, 2, read_only=True)
        self._slow = _Line(folder, 1, read_only=True)

    def start(self) -> None:
        """Open the project in every thread; raises what opening it raises."""
        for line in (self._writer, self._readers, self._slow):
            line.start()

    def stop(self) -> None:
        """Finish the actions that wait, then close the project."""
        for line in (self._slow, self._readers, self._writer):
            line.stop()

    @property
    def failed(self) -> int:
        """Writes that the project did not take: a full disk, a lock; not those refused as wrong."""
        return self._writer.failed

    @property
    def journal_behind(self) -> int:
        """Confirmed rows that the journal lacks."""
        return 0 if self._writer.store is None else self._writer.store.journal_behind

    async def write(self, action: Callable[[Store], T]) -> T:
        """Run an action that writes; when this returns its effect is on disk.

        It may run twice but is stored once.
        """
        return await self._writer.run(action)

    async def read(self, action: Callable[[Store], T]) -> T:
        """Run an action that reads a few rows."""
        return await self._readers.run(action)

    async def read_slowly(self, action: Callable[[Store], T]) -> T:
        """Run an action that may read everything."""
        return await self._slow.run(action)


class _Line:
    """A queue of actions and the threads that serve it, each with its own store."""

    def __init__(self, folder: Path, n_threads: int, *, read_only: bool) -> None:
        self.folder, self.read_only = folder, read_only
        self.store: Store | None = None
        self.failed = 0
        self.waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(n_threads)]
        self.opened: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def start(self) -> None:
        for thread in self.threads:
            thread.start()
            error = self.opened.get()
            if error is not None:
                raise error

    def stop(self) -> None:
        for _ in self.threads:
            self.waiting.put(None)
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    async def run(self, action: Action) -> Any:
        if self.waiting.qsize() > _MOST_WAITING:
            raise BusyError("The server has more to do than it can; try again in a moment.")
        job = _Job(action)
        self.waiting.put(job)
        return await asyncio.wrap_future(job.result)

    def _serve(self) -> None:
        try:
            store = Store.open(self.folder, read_only=self.read_only)
        except BaseException as error:
            self.opened.put(error)
            return
        self.store = store
        self.opened.put(None)
        most = 1 if self.read_only else _MOST_TOGETHER
        with store:
            last = False
            while not last and (job := self.waiting.get()) is not None:
                jobs = [job]
                while not last and len(jobs) < most and not self.waiting.empty():
                    more = self.waiting.get()
                    if more is None:
                        last = True
                    else:
                        jobs.append(more)
                jobs = [job for job in jobs if job.result.set_running_or_notify_cancel()]
                _do(store, jobs)
                self.failed += sum(isinstance(job.error, ProjectError) for job in jobs)


class _Job:
    """An action on its way to a thread, and the future of the request that waits for it."""

    def __init__(self, action: Action) -> None:
        self.action, self.result = action, Future[Any]()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, store: Store, errors: type[BaseException]) -> None:
        self.value = self.error = None
        try:
            self.value = self.action(store)
        except errors as error:
            self.error = error


def _do(store: Store, jobs: list[_Job]) -> None:
    if len(jobs) == 1 or not _do_together(store, jobs):
        for job in jobs:
            job.run(store, Exception)
    for job in jobs:
        if job.error is None:
            job.result.set_result(job.value)
        else:
            job.result.set_exception(job.error)


def _do_together(store: Store, jobs: list[_Job]) -> bool:
    """All in one commit; False if that failed and nothing is stored: each is then tried alone."""
    try:
        with store.together():
            for job in jobs:
                job.run(store, InputError)
    except Exception:
        return False
    return True
