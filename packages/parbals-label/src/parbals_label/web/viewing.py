"""The routes for viewing: progress, the map, items and their images, exports."""

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

from parbals_label.project.exports import write_export
from parbals_label.project.media import Image, open_image
from parbals_label.project.summary import export_columns, export_records
from parbals_label.store.records import EXPORTED
from parbals_label.store.store import Store
from parbals_label.web.door import acting_as, require_owner, visitor_of
from parbals_label.web.items import list_items, show_item
from parbals_label.web.map import show_map
from parbals_label.web.ordering import Order
from parbals_label.web.progress import own_progress
from parbals_label.web.refusals import ERRORS
from parbals_label.web.schemas import MOST_POSITION, ItemOut, ItemsOut, LiveOut, MapOut
from parbals_label.web.session import Session

__all__ = ["viewing_routes"]

T = TypeVar("T")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
_EXPORTS = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/octet-stream",
}
_BLOCK = 64 << 10
_Format = Literal["csv", "jsonl", "parquet"]
_Place = Annotated[int, fastapi.Path(ge=0, le=MOST_POSITION)]
_States = Literal[
    "all", "labelled", "unlabelled", "queued", "out", "unsure", "skipped", "disagree", "doubted",
    "tied", "partly",
]  # fmt: skip
_Sorts = Literal["order", "doubt", "predicted", "probability", "meaning"]


def viewing_routes(session: Session) -> APIRouter:
    """Views of the project: annotators see their own work, owners everything."""
    routes = APIRouter(prefix="/api", responses=ERRORS)
    desk = session.desk
    one_export = asyncio.Lock()  # a million items take minutes

    @routes.get("/live", response_model_exclude_unset=True)
    async def live(
        request: Request, since: Annotated[str | None, Query(max_length=200)] = None
    ) -> LiveOut:
        """How the labelling stands; little is sent if nothing has changed since."""
        visitor = visitor_of(request)
        progress = await session.live(since)
        return progress if visitor.is_owner else own_progress(progress, visitor.name)

    @routes.get("/map")
    async def get_map(request: Request) -> MapOut:
        """The items in two dimensions."""
        require_owner(request)
        return await desk.read_slowly(show_map)

    @routes.get("/items")
    async def get_items(
        request: Request,
        state: _States = "all",
        label: Annotated[str | None, Query(max_length=1000)] = None,
        annotator: Annotated[str | None, Query(max_length=100)] = None,
        q: Annotated[str | None, Query(max_length=200)] = None,
        after: Annotated[int, Query(ge=-1, le=MOST_POSITION)] = -1,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
        sort: _Sorts = "order",
        of: Annotated[str | None, Query(max_length=1000)] = None,
        near: Annotated[int | None, Query(ge=0, le=MOST_POSITION)] = None,
    ) -> ItemsOut:
        """A part of the list of items; of an annotator's own, unless an owner asks.

        Sorted by probability ``of`` a class, or by how ``near`` in meaning items are to one, or
        to the words ``q``: that costs more, and is for owners.
        """
        visitor = visitor_of(request) if sort != "meaning" else require_owner(request)

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
    async def get_item(position: _Place, request: Request) -> ItemOut:
        """Everything about an item; what others said of it, unless an owner asks, is left out."""
        only = visitor_of(request).only
        return await desk.read_slowly(_of_item(partial(show_item, only=only), position, only))

    @routes.get("/media/{position}", response_class=Response, responses=_files(_IMAGES))
    async def media(position: _Place, request: Request) -> Response:
        """The image of an item."""
        only = visitor_of(request).only
        image = await desk.read(_of_item(open_image, position, only))
        size = {"content-length": str(image.size)}
        return StreamingResponse(_blocks(image), media_type=image.kind, headers=size)

    @routes.get("/export", response_class=Response, responses=_files(_EXPORTS.values()))
    async def export(
        request: Request, format: _Format = "csv", labelled_only: bool = False
    ) -> Response:
        """Labels and predictions of all items as a file that is safe to open in a spreadsheet."""
        facts = {"format": format, "labelled_only": labelled_only}
        logged = acting_as(require_owner(request), lambda store: store.log(EXPORTED, **facts))
        with _writing():
            folder = Path(tempfile.mkdtemp(prefix="parbals-export-"))
        try:
            async with one_export:
                path = await _export(session.folder, folder, format, labelled_only, request)
            await desk.write(logged)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return _Download(path, media_type=_EXPORTS[format], filename=path.name)

    return routes


def _blocks(image: Image) -> Iterator[bytes]:
    """An image as it is read: nobody's slow connection keeps it in memory."""
    left = image.size
    with image.file as file:
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            left -= len(block)  # a file that grows or shrinks meanwhile is cut as it was said
            yield block
    yield b"\0" * left


class _Download(FileResponse):
    """A file in a folder of its own, which is deleted in the end, however the answer ends.

    A background task would not be run where the answer is cut off. Nobody gets a part of it: the
    next request makes another export, and parts of two do not fit together.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [header for header in scope["headers"] if header[0] != b"range"]
        try:
            await super().__call__({**scope, "headers": headers}, receive, send)
        finally:
            shutil.rmtree(Path(self.path).parent, ignore_errors=True)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"The export could not be written ({error.strerror}).") from None


async def _export(
    project: Path, folder: Path, fmt: str, labelled_only: bool, request: Request
) -> Path:
    """The finished export; it is given up when the visitor who asked for it has left.

    A thread with a store of its own makes it: everything else that walks over the items would have
    to wait behind it.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", project.resolve().name).strip("-.")
    path, gone = folder / f"{name or 'project'}-labels.{fmt}", threading.Event()

    def records(store: Store) -> Iterator[Mapping[str, Any]]:
        for record in export_records(store, labelled_only):
            if gone.is_set():
                raise ProjectError("Nobody waits for this export any more.")
            yield record

    def make() -> None:
        with _writing(), Store.open(project, read_only=True) as store:
            write_export(path, records(store), fmt, export_columns(store))

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    leaving = asyncio.create_task(leave())
    try:
        await asyncio.to_thread(make)
    finally:
        leaving.cancel()
        gone.set()
    return path


def _of_item(
    read: Callable[[Store, int], T], position: int, only: str | None
) -> Callable[[Store], T]:
    """Read an item that must be there: an address that names none is not found.

    ``only`` names an annotator, who sees the items that they have had.
    """

    def act(store: Store) -> T:
        if position >= store.n_items:
            raise HTTPException(
                404, f"There is no item {position}; the project has {store.n_items}"
            )
        store.check_assigned([position], only)
        return read(store, position)

    return act


def _files(kinds: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """An answer that is a file, for the API's description."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(kinds, binary)}}
