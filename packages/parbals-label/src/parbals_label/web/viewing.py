"""Routes for viewing: progress, the map, items and their images, exports."""

import asyncio
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import fastapi
from fastapi import APIRouter, Query, Request, Response
from parbals.errors import InputError, ProjectError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from parbals_label.project.export_records import export_columns, export_records
from parbals_label.project.exports import write_export
from parbals_label.project.media import Image, open_image
from parbals_label.store.records import EXPORTED
from parbals_label.store.store import Store
from parbals_label.web.door import acting_as, require_owner, visitor_of
from parbals_label.web.items import list_items, show_item
from parbals_label.web.map import show_map
from parbals_label.web.ordering import Order
from parbals_label.web.progress import own_progress
from parbals_label.web.refusals import ERRORS
from parbals_label.web.schemas import (
    MAX_POSITION,
    ItemOut,
    ItemsOut,
    LiveOut,
    MapOut,
    TargetItem,
    TargetOut,
)
from parbals_label.web.session import Session
from parbals_label.web.target import show_target, show_target_item

__all__ = ["viewing_routes"]

T = TypeVar("T")
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
_EXPORT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/octet-stream",
}
_BLOCK_BYTES = 64 << 10
_Format = Literal["csv", "jsonl", "parquet"]
_Position = Annotated[int, fastapi.Path(ge=0, le=MAX_POSITION)]
_State = Literal[
    "all", "labelled", "unlabelled", "queued", "out", "unsure", "skipped", "disagree", "doubted",
    "tied", "partly",
]  # fmt: skip
_Sort = Literal["order", "doubt", "predicted", "probability", "meaning"]


def viewing_routes(session: Session) -> APIRouter:
    """Return the routes for viewing: annotators see their own work, owners everything."""
    routes = APIRouter(prefix="/api", responses=ERRORS)
    desk = session.desk
    export_lock = asyncio.Lock()  # one export at a time: a million items take minutes

    @routes.get("/live", response_model_exclude_unset=True)
    async def live(
        request: Request, since: Annotated[str | None, Query(max_length=200)] = None
    ) -> LiveOut:
        """Return the progress; little is sent if nothing has changed ``since`` a revision."""
        visitor = visitor_of(request)
        progress = await session.live(since)
        return progress if visitor.is_owner else own_progress(progress, visitor.name)

    @routes.get("/map")
    async def get_map(request: Request, target: bool = False) -> MapOut:
        """For owners: return the items in two dimensions, and on request the target set's."""
        require_owner(request)
        return await desk.read_slowly(partial(show_map, with_target=target))

    @routes.get("/target")
    async def get_target(request: Request) -> TargetOut:
        """For owners: return how the target set differs from the pool."""
        require_owner(request)
        return await desk.read_slowly(show_target)

    @routes.get("/target/{position}")
    async def get_target_item(position: _Position, request: Request) -> TargetItem:
        """For owners: return an item of the target set by its row."""
        require_owner(request)
        return await desk.read_slowly(partial(show_target_item, row=position))

    @routes.get("/items")
    async def get_items(
        request: Request,
        state: _State = "all",
        label: Annotated[str | None, Query(max_length=1000)] = None,
        annotator: Annotated[str | None, Query(max_length=100)] = None,
        q: Annotated[str | None, Query(max_length=200)] = None,
        after: Annotated[int, Query(ge=-1, le=MAX_POSITION)] = -1,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
        sort: _Sort = "order",
        of: Annotated[str | None, Query(max_length=1000)] = None,
        near: Annotated[int | None, Query(ge=0, le=MAX_POSITION)] = None,
    ) -> ItemsOut:
        """Return a page of the list of items; annotators see only their own answers.

        ``sort=probability`` sorts by the probability ``of`` a class. ``sort=meaning`` sorts by
        similarity to the item ``near`` or to the words ``q``; it is expensive and for owners only.
        """
        visitor = require_owner(request) if sort == "meaning" else visitor_of(request)

        def act(store: Store) -> ItemsOut:
            return list_items(
                store,
                state=state,
                label=label or None,
                annotator=annotator or None,
                query=q or None,
                after=after,
                limit=limit,
                only=visitor.only,
                order=Order(sort=sort, class_name=of, near=near),
            )

        return await desk.read_slowly(act)

    @routes.get("/items/{position}")
    async def get_item(position: _Position, request: Request) -> ItemOut:
        """Return an item with its history; annotators see only their own answers."""
        only = visitor_of(request).only
        return await desk.read_slowly(_existing_item(partial(show_item, only=only), position, only))

    @routes.get(
        "/media/{position}", response_class=Response, responses=_file_responses(_IMAGE_TYPES)
    )
    async def media(position: _Position, request: Request) -> Response:
        """Return the image of an item."""
        only = visitor_of(request).only
        image = await desk.read(_existing_item(open_image, position, only))
        size = {"content-length": str(image.size)}
        return StreamingResponse(_blocks(image), media_type=image.kind, headers=size)

    @routes.get(
        "/export", response_class=Response, responses=_file_responses(_EXPORT_TYPES.values())
    )
    async def export(
        request: Request, format: _Format = "csv", labelled_only: bool = False
    ) -> Response:
        """For owners: export labels and predictions as a file that is safe for spreadsheets."""
        visitor = require_owner(request)

        def log_export(store: Store) -> None:
            store.log(EXPORTED, format=format, labelled_only=labelled_only)

        with _explaining_write_errors():
            folder = Path(tempfile.mkdtemp(prefix="parbals-export-"))
        try:
            async with export_lock:
                path = await _export(session.folder, folder, format, labelled_only, request)
            await desk.write(acting_as(visitor, log_export))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return _Download(path, media_type=_EXPORT_TYPES[format], filename=path.name)

    return routes


def _blocks(image: Image) -> Iterator[bytes]:
    """Read an image in blocks, so that a slow connection does not keep it in memory.

    The length stays as announced even if the file changes meanwhile.
    """
    n_left = image.size
    with image.file as file:
        while n_left > 0 and (block := file.read(min(n_left, _BLOCK_BYTES))):
            n_left -= len(block)
            yield block
    yield b"\0" * n_left


class _Download(FileResponse):
    """A response with a file whose folder is deleted afterwards, however the response ends.

    A background task would not run if the response is interrupted. Range requests are ignored: the
    next request creates another export, and parts of two exports do not fit together.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [header for header in scope["headers"] if header[0] != b"range"]
        try:
            await super().__call__({**scope, "headers": headers}, receive, send)
        finally:
            shutil.rmtree(Path(self.path).parent, ignore_errors=True)


@contextmanager
def _explaining_write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"The export could not be written ({error.strerror}).") from None


async def _export(
    project: Path, folder: Path, fmt: str, labelled_only: bool, request: Request
) -> Path:
    """Write an export and return its path; it is aborted when the visitor disconnects.

    It runs in its own thread with its own store, because other actions that read all items would
    have to wait for it otherwise.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", project.resolve().name).strip("-.")
    path = folder / f"{name or 'project'}-labels.{fmt}"
    disconnected = threading.Event()

    def records(store: Store) -> Iterator[Mapping[str, Any]]:
        for record in export_records(store, labelled_only):
            if disconnected.is_set():
                raise ProjectError("The export was aborted: the browser has disconnected.")
            yield record

    def write() -> None:
        with _explaining_write_errors(), Store.open(project, read_only=True) as store:
            write_export(path, records(store), fmt, export_columns(store))

    async def watch_connection() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    watcher = asyncio.create_task(watch_connection())
    try:
        await asyncio.to_thread(write)
    finally:
        watcher.cancel()
        disconnected.set()
    return path


def _existing_item(
    read: Callable[[Store, int], T], position: int, only: str | None
) -> Callable[[Store], T]:
    """Return an action that reads an item; 404 if there is none.

    ``only`` names an annotator, who may see only items that were assigned to them.
    """

    def act(store: Store) -> T:
        if position >= store.n_items:
            raise HTTPException(
                404, f"There is no item {position}; the project has {store.n_items}"
            )
        store.check_assigned([position], only)
        return read(store, position)

    return act


def _file_responses(kinds: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """Describe a response that is a file, for OpenAPI."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(kinds, binary)}}
