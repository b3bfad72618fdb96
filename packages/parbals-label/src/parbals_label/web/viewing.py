"""The routes of what there is to see: progress, the map, items and their images, exports."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.exceptions import HTTPException

from parbals_label.project.media import read_image
from parbals_label.store.records import EXPORTED
from parbals_label.store.store import Store
from parbals_label.web.downloads import MEDIA_TYPES, Exporter, Format
from parbals_label.web.failures import errors_of
from parbals_label.web.items import ItemOut, ItemsOut, list_items, show_item
from parbals_label.web.map import MapOut, show_map
from parbals_label.web.queries import own_progress
from parbals_label.web.schemas import MOST_POSITION, LiveOut
from parbals_label.web.session import Session
from parbals_label.web.visitors import anyone, owner

__all__ = ["viewing_routes"]

T = TypeVar("T")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")


_Place = Annotated[int, Path(ge=0, le=MOST_POSITION)]


_States = Literal["all", "labelled", "unlabelled", "queued", "out", "unsure", "skipped", "disagree"]


def viewing_routes(session: Session) -> APIRouter:
    """What there is to see: for annotators their own work, for owners everything."""
    routes = APIRouter(prefix="/api")
    desk = session.desk
    exporter = Exporter(session.folder)

    @routes.get("/live", response_model_exclude_unset=True, responses=errors_of())
    async def live(
        request: Request, since: Annotated[str | None, Query(max_length=200)] = None
    ) -> LiveOut:
        """How the labelling stands; little is sent if nothing has changed since."""
        visitor = anyone(request)
        progress = await session.live(since)
        return progress if visitor.is_owner else own_progress(progress, visitor.name)

    @routes.get("/map", responses=errors_of())
    async def get_map(request: Request) -> MapOut:
        """The items in two dimensions."""
        owner(request)
        return await desk.read_slowly(show_map)

    @routes.get("/items", responses=errors_of())
    async def get_items(
        request: Request,
        state: _States = "all",
        label: Annotated[str | None, Query(max_length=1000)] = None,
        annotator: Annotated[str | None, Query(max_length=100)] = None,
        q: Annotated[str | None, Query(max_length=200)] = None,
        after: Annotated[int, Query(ge=-1, le=MOST_POSITION)] = -1,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> ItemsOut:
        """A part of the list of items; of an annotator's own, unless an owner asks."""
        visitor = anyone(request)
        words = {"label": label or None, "annotator": annotator or None, "query": q or None}
        words |= {"only": None if visitor.is_owner else visitor.name}
        return await desk.read_slowly(
            lambda store: list_items(store, state=state, after=after, limit=limit, **words)
        )

    @routes.get("/items/{position}", responses=errors_of(404))
    async def get_item(position: _Place, request: Request) -> ItemOut:
        """Everything about an item; what others said of it, unless an owner asks, is left out."""
        visitor = anyone(request)
        only = None if visitor.is_owner else visitor.name
        return await desk.read(_of_item(partial(show_item, only=only), position, only))

    @routes.get(
        "/media/{position}",
        response_class=Response,
        responses=errors_of(404, 413, 415) | _files(_IMAGES),
    )
    async def media(position: _Place, request: Request) -> Response:
        """The image of an item."""
        visitor = anyone(request)
        only = None if visitor.is_owner else visitor.name
        image = await desk.read(_of_item(read_image, position, only))
        return Response(image.data, media_type=image.kind)

    @routes.get(
        "/export", response_class=Response, responses=errors_of() | _files(MEDIA_TYPES.values())
    )
    async def export(
        request: Request, format: Format = "csv", labelled_only: bool = False
    ) -> Response:
        """Labels and predictions of all items as a file that is safe to open in a spreadsheet."""
        visitor = owner(request)
        file = await exporter.download(request, format, labelled_only)

        def act(store: Store) -> None:
            with store.acting(visitor.signature, visitor.origin):
                store.log(EXPORTED, format=format, labelled_only=labelled_only)

        try:
            await desk.write(act)
        except BaseException:
            file.close()
            raise
        return file

    return routes


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
        if only is not None and not store.concerns(position, only):
            raise HTTPException(403, "Annotators see the items that they were given")
        return read(store, position)

    return act


def _files(kinds: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """An answer that is a file, for the API's description."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(kinds, binary)}}
