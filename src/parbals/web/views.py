"""The API's routes that show: progress, the map, lists of items, images, downloads."""

import asyncio
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from parbals.errors import InputError, ProjectError
from parbals.project.exports import write_export
from parbals.project.summary import export_columns, export_records
from parbals.store.store import Store
from parbals.web.failures import errors_of
from parbals.web.look import item, items, world_map
from parbals.web.media import read_image
from parbals.web.models import MOST_POSITION
from parbals.web.page import Page
from parbals.web.replies import ItemOut, ItemsOut, LiveOut, MapOut
from parbals.web.routes import as_json

__all__ = ["showing_routes"]

_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/octet-stream",
}
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
_Place = Annotated[int, Path(ge=0, le=MOST_POSITION)]
_LOOK_SECONDS = 0.5
_States = Literal["all", "labelled", "unlabelled", "queued", "out", "unsure", "skipped", "disagree"]


def showing_routes(page: Page) -> APIRouter:
    """The routes of one running page."""
    routes = APIRouter(prefix="/api")
    desk = page.desk
    one_export = asyncio.Lock()

    @routes.get("/live", response_model=LiveOut, responses=errors_of())
    async def live(since: Annotated[str | None, Query(max_length=200)] = None) -> Response:
        """How the labelling stands; little is sent if nothing has changed since."""
        found = await page.live(since)
        if not found["unchanged"]:
            found["server"] = {"started": page.started, "version": page.version}
        return as_json(found)

    @routes.get("/map", response_model=MapOut, responses=errors_of())
    async def get_map() -> Response:
        """The items in two dimensions."""
        return as_json(await desk.read_slowly(world_map))

    @routes.get("/items", response_model=ItemsOut, responses=errors_of())
    async def list_items(
        state: _States = "all",
        label: Annotated[str | None, Query(max_length=1000)] = None,
        annotator: Annotated[str | None, Query(max_length=100)] = None,
        q: Annotated[str | None, Query(max_length=200)] = None,
        after: Annotated[int, Query(ge=-1, le=MOST_POSITION)] = -1,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> Response:
        """A part of the list of items."""

        def act(store: Store) -> dict[str, Any]:
            wanted = {"label": label or None, "annotator": annotator or None, "query": q or None}
            return items(store, state=state, after=after, limit=limit, **wanted)

        return as_json(await desk.read_slowly(act))

    @routes.get("/items/{position}", response_model=ItemOut, responses=errors_of(404))
    async def get_item(position: _Place) -> Response:
        """Everything about an item."""
        return as_json(await desk.read(_existing(position, lambda store: item(store, position))))

    @routes.get(
        "/media/{position}",
        response_class=Response,
        responses={
            **errors_of(404, 413, 415),
            200: {
                "content": {
                    kind: {"schema": {"type": "string", "format": "binary"}} for kind in _IMAGES
                }
            },
        },
    )
    async def media(position: _Place) -> Response:
        """The image of an item."""
        image = await desk.read(_existing(position, lambda store: read_image(store, position)))
        return Response(image.data, media_type=image.kind)

    @routes.get(
        "/export",
        response_class=Response,
        responses={
            **errors_of(),
            200: {
                "content": {
                    kind: {"schema": {"type": "string", "format": "binary"}}
                    for kind in _TYPES.values()
                }
            },
        },
    )
    async def export(
        request: Request,
        format: Literal["csv", "jsonl", "parquet"] = "csv",
        labelled_only: bool = False,
    ) -> StreamingResponse:
        """Labels and predictions of all items as a file; cells are safe to open in a spreadsheet."""
        async with one_export:
            file = await _made(request, page, format, labelled_only)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", page.folder.resolve().name).strip("-.") or "project"
        headers = {"Content-Disposition": f'attachment; filename="{name}-labels.{format}"'}
        return _Download(file, media_type=_TYPES[format], headers=headers)

    return routes


def _existing(position: int, act: Any) -> Any:
    """The same action, for an item that must be there: an address that names none is not found."""

    def checked(store: Store) -> Any:
        if position >= store.n_items:
            raise HTTPException(
                404, f"There is no item {position}; the project has {store.n_items}"
            )
        return act(store)

    return checked


async def _made(request: Request, page: Page, fmt: str, labelled_only: bool) -> IO[bytes]:
    """The finished export.

    It has a thread and a store of its own, for a million items take minutes, and everything else
    that walks over the items would wait behind it. Whoever leaves ends it."""
    gone = threading.Event()

    def make() -> IO[bytes]:
        with Store.open(page.folder, read_only=True) as store:
            return _write(store, fmt, labelled_only, gone)

    making = asyncio.ensure_future(asyncio.to_thread(make))
    try:
        while not making.done():
            await asyncio.wait({making}, timeout=_LOOK_SECONDS)
            if not making.done() and await request.is_disconnected():
                gone.set()
        return making.result()
    finally:
        gone.set()


def _write(store: Store, fmt: str, labelled_only: bool, gone: threading.Event) -> IO[bytes]:
    """An open file that has no name any more: it is gone when it is closed, also by a server that
    dies."""

    def records() -> Iterator[Mapping[str, Any]]:
        for record in export_records(store, labelled_only):
            if gone.is_set():
                raise ProjectError("Nobody waits for this export any more.")
            yield record

    number, path = tempfile.mkstemp(prefix="parbals-export-")
    os.close(number)
    try:
        write_export(path, records(), fmt, export_columns(store))
        return open(path, "rb", opener=_open_to_delete)
    except OSError as error:
        raise InputError(f"The export could not be written ({error.strerror}).") from None
    finally:
        with suppress(PermissionError):  # Windows deletes it when it is closed
            os.unlink(path)


def _open_to_delete(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_TEMPORARY", 0))


class _Download(StreamingResponse):
    """An open file, closed in the end however much of it was wanted."""

    def __init__(self, file: IO[bytes], *, media_type: str, headers: dict[str, str]) -> None:
        self._file = file
        parts = iter(lambda: file.read(1 << 16), b"")
        size = str(os.fstat(file.fileno()).st_size)
        super().__init__(parts, media_type=media_type, headers={**headers, "Content-Length": size})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
