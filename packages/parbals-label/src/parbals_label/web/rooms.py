"""One project among several: its page, which is opened when somebody first asks for it."""

import asyncio
import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from parbals.errors import ParbalsError, ProjectError
from starlette.types import Receive, Scope, Send

from parbals_label.files import locked
from parbals_label.store.store import Store
from parbals_label.web.guard import Guard
from parbals_label.web.health import Watch
from parbals_label.web.place import Place, page_token
from parbals_label.web.serve import make_app
from parbals_label.web.session import Session

__all__ = ["Room"]

_log = logging.getLogger("parbals.web")
_TRY_AGAIN = 5.0
_CLOSED = ProjectError("The project cannot be used just now; the server's log says why.")


class Room:
    """One project: closed until somebody asks for it, then open as long as the server runs."""

    guard: Guard
    """In front of it, once it is open."""

    def __init__(self, name: str, folder: Path, place: Place, token: str) -> None:
        self.name, self.folder, self._token = name, folder, token
        self.place = replace(place, path=f"/p/{quote(name, safe='')}")
        self.trouble: str | None = None
        self.watch: Watch | None = None
        self._held = ExitStack()
        self._opening, self._retry = asyncio.Lock(), 0.0
        self._is_started = False

    async def open(self) -> Watch:
        """Its application; one that cannot be opened is tried again after a while."""
        async with self._opening:
            if self.watch is None:
                if time.monotonic() < self._retry:
                    raise _CLOSED
                try:
                    session = await asyncio.to_thread(self._open)
                except (ParbalsError, OSError) as error:
                    self.trouble, self._retry = str(error), time.monotonic() + _TRY_AGAIN
                    facts = {"project": self.name, "reason": self.trouble}
                    _log.warning("A project cannot be opened", extra={"facts": facts})
                    raise _CLOSED from None
                # Not in the thread: FastAPI silences warnings for all of them meanwhile.
                self.guard = make_app(session, token=self._token, place=self.place)
                self.guard.app = self._starting(self.guard.app)
                secret = page_token(self.folder, name="page-metrics-token")
                self.watch, self.trouble = Watch(self.guard, session, secret), None
            return self.watch

    def _open(self) -> Session:
        with ExitStack() as held:
            busy = ProjectError("Another server already shows this project.")
            held.enter_context(locked(self.folder / "page.lock", busy))
            with Store.open(self.folder, read_only=True) as store:
                if not store.n_items:
                    raise ProjectError("It has no items yet.")
            session = Session(self.folder)
            held.callback(session.close)
            session.open()
            self._held = held.pop_all()
        return session

    def _starting(self, app: Any) -> Any:
        """The application behind the guard: who is let in first starts the worker."""

        async def started(scope: Scope, receive: Receive, send: Send) -> None:
            if not self._is_started and self.watch is not None:
                self._is_started = True
                await self.watch.session.start()
            await app(scope, receive, send)

        return started

    async def close(self) -> None:
        if self._is_started and self.watch is not None:
            await self.watch.session.stop()
        self._held.close()

    async def row(self) -> dict[str, Any]:
        """What the list shows of it; a project that is closed is not opened for this."""
        counts: tuple[int, int] | None = None
        if self.watch is not None:
            desk = self.watch.session.desk
            counts = await desk.read(lambda store: (store.n_labelled, store.n_items))
        row = {"name": self.name, "path": f"{self.place.path}/", "trouble": self.trouble}
        return row | dict(zip(("labelled", "n_items"), counts or (None, None), strict=True))
