"""One project of several on a server; its page is opened on the first request."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from parbals.errors import ParbalsError, ProjectError
from starlette.types import Receive, Scope, Send

from parbals_label.files import locked
from parbals_label.server.desk import Desk
from parbals_label.store.store import Store
from parbals_label.web.address import PageAddress
from parbals_label.web.door import Door
from parbals_label.web.guard import Guard
from parbals_label.web.health import Watch, has_metrics_token
from parbals_label.web.page_files import page_token
from parbals_label.web.serve import make_app
from parbals_label.web.session import Session

__all__ = ["HostedProject"]

T = TypeVar("T")

_log = logging.getLogger("parbals.web")
_RETRY_SECONDS = 5.0
_METRICS_TOKEN = "page-metrics-token"
_CLOSED = ProjectError("The project cannot be used just now; see the server's log.")


class _ClosedProject(Desk):
    """Reads a project that is not open yet, to authenticate visitors; it has no threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, act: Callable[[Store], T]) -> T:
        return await asyncio.to_thread(self._read, act)

    def _read(self, act: Callable[[Store], T]) -> T:
        with Store.open(self._folder, read_only=True) as store:
            return act(store)


class HostedProject:
    """One project: opened on the first request, then open as long as the server runs."""

    guard: Guard
    """The guard of the page, once it is open."""

    def __init__(self, name: str, folder: Path, address: PageAddress, token: str) -> None:
        self.name = name
        self.folder = folder
        self._token = token
        self.address = replace(address, path=f"/p/{quote(name, safe='')}")
        door = Door(_ClosedProject(folder), token)
        self._closed_guard = Guard(None, door=door, address=self.address)
        self.trouble: str | None = None
        self.watch: Watch | None = None
        self._resources = ExitStack()
        self._opening = asyncio.Lock()
        self._retry_at = 0.0
        self._is_started = False

    @property
    def door(self) -> Door:
        """Authenticates visitors, also while the project is closed."""
        return self._closed_guard.door if self.watch is None else self.guard.door

    async def admits(self, scope: Scope) -> bool:
        """Whether a request may open the project; nothing is started for a stranger."""
        if scope["path"] == "/metrics":
            token = await asyncio.to_thread(page_token, self.folder, name=_METRICS_TOKEN)
            return has_metrics_token(scope, token)
        return await self._closed_guard.admits(scope)

    async def open(self) -> Watch:
        """Return the application; a project that cannot be opened is retried after five seconds."""
        async with self._opening:
            if self.watch is None:
                if time.monotonic() < self._retry_at:
                    raise _CLOSED
                try:
                    session = await asyncio.to_thread(self._open)
                except (ParbalsError, OSError) as error:
                    self.trouble = str(error)
                    self._retry_at = time.monotonic() + _RETRY_SECONDS
                    facts = {"project": self.name, "reason": self.trouble}
                    _log.warning("A project cannot be opened", extra={"facts": facts})
                    raise _CLOSED from None
                # Not in the thread: FastAPI suppresses warnings of all threads meanwhile.
                self.guard = make_app(session, token=self._token, address=self.address)
                self.guard.app = self._starting_worker(self.guard.app)
                secret = page_token(self.folder, name=_METRICS_TOKEN)
                self.watch = Watch(self.guard, session, secret)
                self.trouble = None
            return self.watch

    def _open(self) -> Session:
        with ExitStack() as resources:
            busy = ProjectError("Another server already serves this project.")
            resources.enter_context(locked(self.folder / "page.lock", busy))
            with Store.open(self.folder, read_only=True) as store:
                if not store.n_items:
                    raise ProjectError("It has no items yet.")
            session = Session(self.folder)
            resources.callback(session.close)
            session.open()
            self._resources = resources.pop_all()
        return session

    def _starting_worker(self, app: Any) -> Any:
        """Return the application behind the guard; the first admitted request starts the worker."""

        async def started(scope: Scope, receive: Receive, send: Send) -> None:
            if not self._is_started and self.watch is not None:
                self._is_started = True
                await self.watch.session.start()
            await app(scope, receive, send)

        return started

    async def close(self) -> None:
        """Stop the worker and close the project."""
        if self._is_started and self.watch is not None:
            await self.watch.session.stop()
        self._resources.close()

    async def row(self) -> dict[str, Any]:
        """Return the row of the list of projects; a closed project is not opened for it."""
        n_labelled: int | None = None
        n_items: int | None = None
        if self.watch is not None:
            desk = self.watch.session.desk
            n_labelled, n_items = await desk.read(lambda store: (store.n_labelled, store.n_items))
        return {
            "name": self.name,
            "path": f"{self.address.path}/",
            "trouble": self.trouble,
            "labelled": n_labelled,
            "n_items": n_items,
        }
