"""Threads that access the project: one writes, a few read, and requests await them.

Writes that are queued at the same time share one commit (group commit): one flush to disk serves
all of them, and each caller gets its result only after that flush.
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

_MAX_QUEUED = 1000
_MAX_GROUP = 64
"""Writes that share one commit."""


class BusyError(ProjectError):
    """More requests are queued than can be served soon."""


class Desk:
    """Runs actions on the project in threads, each with its own store.

    Actions that read all items go to ``read_slowly``, so that labelling never waits for an export.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = _WorkerPool(folder, 1, read_only=False)
        self._readers = _WorkerPool(folder, 2, read_only=True)
        self._slow = _WorkerPool(folder, 1, read_only=True)

    def start(self) -> None:
        """Open the project in every thread; raises what opening it raises."""
        for pool in (self._writer, self._readers, self._slow):
            pool.start()

    def stop(self) -> None:
        """Finish the queued actions, then close the project."""
        for pool in (self._slow, self._readers, self._writer):
            pool.stop()

    @property
    def failed(self) -> int:
        """The number of writes that failed, for a full disk or a lock; not those with bad input."""
        return self._writer.failed

    @property
    def journal_behind(self) -> int:
        """The number of stored rows that the journal lacks."""
        store = self._writer.store
        return 0 if store is None else store.journal_behind

    async def write(self, action: Callable[[Store], T]) -> T:
        """Run an action that writes; when this returns, its effect is on disk.

        The action may run twice, but its effect is stored once.
        """
        return await self._writer.run(action)

    async def read(self, action: Callable[[Store], T]) -> T:
        """Run an action that reads a few rows."""
        return await self._readers.run(action)

    async def read_slowly(self, action: Callable[[Store], T]) -> T:
        """Run an action that may read everything."""
        return await self._slow.run(action)


class _WorkerPool:
    """A queue of actions and the threads that serve it, each with its own store."""

    def __init__(self, folder: Path, n_threads: int, *, read_only: bool) -> None:
        self.folder = folder
        self.read_only = read_only
        self.store: Store | None = None
        self.failed = 0
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(n_threads)]
        self.open_errors: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def start(self) -> None:
        for thread in self.threads:
            thread.start()
            error = self.open_errors.get()
            if error is not None:
                raise error

    def stop(self) -> None:
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    async def run(self, action: Action) -> Any:
        if self.jobs.qsize() > _MAX_QUEUED:
            raise BusyError("The server is overloaded; try again in a moment.")
        job = _Job(action)
        self.jobs.put(job)
        return await asyncio.wrap_future(job.result)

    def _serve(self) -> None:
        try:
            store = Store.open(self.folder, read_only=self.read_only)
        except BaseException as error:
            self.open_errors.put(error)
            return
        self.store = store
        self.open_errors.put(None)
        max_group = 1 if self.read_only else _MAX_GROUP
        with store:
            is_stopping = False
            while not is_stopping and (first := self.jobs.get()) is not None:
                group = [first]
                while not is_stopping and len(group) < max_group and not self.jobs.empty():
                    job = self.jobs.get()
                    if job is None:
                        is_stopping = True
                    else:
                        group.append(job)
                group = [job for job in group if job.result.set_running_or_notify_cancel()]
                _run_group(store, group)
                self.failed += sum(isinstance(job.error, ProjectError) for job in group)


class _Job:
    """A queued action, and the future that its request awaits."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.result = Future[Any]()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, store: Store, errors: type[BaseException]) -> None:
        self.value = None
        self.error = None
        try:
            self.value = self.action(store)
        except errors as error:
            self.error = error


def _run_group(store: Store, jobs: list[_Job]) -> None:
    """Run jobs in one commit or, if that fails, one by one, and resolve their futures."""
    if len(jobs) == 1 or not _run_in_one_commit(store, jobs):
        for job in jobs:
            job.run(store, Exception)
    for job in jobs:
        if job.error is None:
            job.result.set_result(job.value)
        else:
            job.result.set_exception(job.error)


def _run_in_one_commit(store: Store, jobs: list[_Job]) -> bool:
    """Run jobs in one commit; returns False if that failed, and then nothing is stored."""
    try:
        with store.transaction():
            for job in jobs:
                job.run(store, InputError)
    except Exception:
        return False
    return True
