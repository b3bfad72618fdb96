"""The API's routes: each answers with the model that describes it."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.exceptions import HTTPException

from parbals.project.media import read_image
from parbals.project.quick import quick_batch
from parbals.store.clock import moment
from parbals.store.meta import RELEASED
from parbals.store.records import Submission
from parbals.store.store import Store
from parbals.web.downloads import MEDIA_TYPES, Exporter, Format
from parbals.web.failures import StrictRoute, errors_of
from parbals.web.items import list_items, show_item
from parbals.web.map import show_map
from parbals.web.queries import project
from parbals.web.schemas import (
    MOST_POSITION,
    AnswersIn,
    ItemOut,
    ItemsOut,
    LeasesOut,
    LiveOut,
    MapOut,
    PassIn,
    PassOut,
    PositionsIn,
    ProjectOut,
    ReleaseAllIn,
    ReleasedOut,
    SettingsIn,
    StoredAnswer,
    StoredOut,
    TakeIn,
    TasksOut,
    UndoIn,
    UndoneOut,
)
from parbals.web.session import Session

__all__ = ["labelling_routes", "viewing_routes"]

T = TypeVar("T")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
_Place = Annotated[int, Path(ge=0, le=MOST_POSITION)]
_States = Literal["all", "labelled", "unlabelled", "queued", "out", "unsure", "skipped", "disagree"]


def labelling_routes(session: Session) -> APIRouter:
    """What annotators do: settings, items to take, answers, passes, undo, leases."""
    routes = APIRouter(prefix="/api", route_class=StrictRoute)
    desk = session.desk

    @routes.get("/project", responses=errors_of())
    async def get_project() -> ProjectOut:
        """What the page needs to know once."""
        return await desk.read(project)

    @routes.patch("/settings", responses=errors_of(body=True))
    async def change_settings(body: SettingsIn) -> ProjectOut:
        """Change what annotators see and how items are handed out."""
        changes = body.model_dump(exclude_none=True)

        def act(store: Store) -> ProjectOut:
            if changes:
                store.update_settings(**changes)
            return project(store)

        return await desk.write(act)

    @routes.post("/take", responses=errors_of(body=True))
    async def take(body: TakeIn) -> TasksOut:
        """Items for an annotator: first those they have already, then the best that wait.

        Where too few do, more are chosen at once: nobody waits for the model.
        """
        session.pace.admit(body.annotator)

        def act(store: Store) -> TasksOut:
            tasks = session.tasks(store)
            leases = store.take(body.annotator, body.n, tasks.lease_seconds)
            if len(leases) < body.n and quick_batch(store) is not None:
                leases = store.take(body.annotator, body.n, tasks.lease_seconds)
            items = [tasks.task(store, lease) for lease in leases]
            return TasksOut(items=items, queue=session.queue(store.queue_counts(body.annotator)))

        tasks = await desk.write(act)
        session.touch(body.annotator, tasks.queue.ready)
        return tasks

    @routes.post("/answers", responses=errors_of(409, body=True))
    async def answers(body: AnswersIn) -> StoredOut:
        """Store labels, all or none; 200 means that they are on disk."""
        session.pace.admit(body.annotator)
        labels = [
            Submission(a.position, a.label, a.request_id, _words(a.comment), revise=a.revise)
            for a in body.answers
        ]
        result = await desk.write(lambda store: store.submit(labels, annotator=body.annotator))
        session.touch(body.annotator, done=len(body.answers))
        rows = zip(body.answers, result.answers, result.outcomes, strict=True)
        return StoredOut(
            stored=[
                StoredAnswer(
                    request_id=a.request_id, position=a.position, answer=number, outcome=outcome
                )
                for a, number, outcome in rows
            ]
        )

    @routes.post("/passes", responses=errors_of(409, body=True))
    async def pass_over(body: PassIn) -> PassOut:
        """Store that an annotator skips an item or is unsure; others may still label it."""
        session.pace.admit(body.annotator)
        outcome = await desk.write(
            lambda store: store.pass_over(
                body.position,
                body.kind,
                annotator=body.annotator,
                request_id=body.request_id,
                comment=_words(body.comment),
            )
        )
        session.touch(body.annotator, done=1)
        return PassOut(position=body.position, outcome=outcome)

    @routes.post("/undo", responses=errors_of(409, body=True))
    async def undo(body: UndoIn) -> UndoneOut:
        """Take back the annotator's latest label or pass of an item; it is theirs again."""
        session.pace.admit(body.annotator)

        def act(store: Store) -> UndoneOut:
            tasks = session.tasks(store)
            undone, lease = store.undo(
                body.position,
                body.annotator,
                lease_seconds=tasks.lease_seconds,
                request_id=body.request_id,
            )
            was = {name: value for name, value in asdict(undone).items() if value is not None}
            return UndoneOut(item=tasks.task(store, lease), was=was)

        return await desk.write(act)

    @routes.post("/leases", responses=errors_of(body=True))
    async def renew(body: PositionsIn) -> LeasesOut:
        """The annotator is still at work: their items stay theirs."""
        session.pace.admit(body.annotator)

        def act(store: Store) -> LeasesOut:
            seconds = session.tasks(store).lease_seconds
            mine = store.renew(body.annotator, body.positions, seconds)
            return LeasesOut(mine=mine, expires=moment() + seconds)

        leases = await desk.write(act)
        session.touch(body.annotator)
        return leases

    @routes.post("/release", responses=errors_of(body=True))
    async def release(body: PositionsIn) -> ReleasedOut:
        """The annotator leaves: their items go back into the queue."""
        session.pace.admit(body.annotator)
        released = await desk.write(lambda store: store.release(body.annotator, body.positions))
        return ReleasedOut(released=released)

    @routes.post("/release-all", responses=errors_of(body=True))
    async def release_all(body: ReleaseAllIn) -> ReleasedOut:
        """For the page's owner: everything that is out with a person, or with anybody, comes back.

        A late answer still counts.
        """

        def act(store: Store) -> ReleasedOut:
            released = store.release_all(body.of)
            store.log(RELEASED, name=body.of, count=released)
            return ReleasedOut(released=released)

        return await desk.write(act)

    return routes


def _words(comment: str | None) -> str | None:
    """A comment with something in it."""
    return comment if comment is not None and comment.strip() else None


def viewing_routes(session: Session) -> APIRouter:
    """What annotators see: progress, the map, lists of items, images, downloads."""
    routes = APIRouter(prefix="/api")
    desk = session.desk
    exporter = Exporter(session.folder)

    @routes.get("/live", response_model_exclude_unset=True, responses=errors_of())
    async def live(since: Annotated[str | None, Query(max_length=200)] = None) -> LiveOut:
        """How the labelling stands; little is sent if nothing has changed since."""
        return await session.live(since)

    @routes.get("/map", responses=errors_of())
    async def get_map() -> MapOut:
        """The items in two dimensions."""
        return await desk.read_slowly(show_map)

    @routes.get("/items", responses=errors_of())
    async def get_items(
        state: _States = "all",
        label: Annotated[str | None, Query(max_length=1000)] = None,
        annotator: Annotated[str | None, Query(max_length=100)] = None,
        q: Annotated[str | None, Query(max_length=200)] = None,
        after: Annotated[int, Query(ge=-1, le=MOST_POSITION)] = -1,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> ItemsOut:
        """A part of the list of items."""
        words = {"label": label or None, "annotator": annotator or None, "query": q or None}
        return await desk.read_slowly(
            lambda store: list_items(store, state=state, after=after, limit=limit, **words)
        )

    @routes.get("/items/{position}", responses=errors_of(404))
    async def get_item(position: _Place) -> ItemOut:
        """Everything about an item."""
        return await desk.read(_of_item(show_item, position))

    @routes.get(
        "/media/{position}",
        response_class=Response,
        responses=errors_of(404, 413, 415) | _files(_IMAGES),
    )
    async def media(position: _Place) -> Response:
        """The image of an item."""
        image = await desk.read(_of_item(read_image, position))
        return Response(image.data, media_type=image.kind)

    @routes.get(
        "/export", response_class=Response, responses=errors_of() | _files(MEDIA_TYPES.values())
    )
    async def export(
        request: Request, format: Format = "csv", labelled_only: bool = False
    ) -> Response:
        """Labels and predictions of all items as a file that is safe to open in a spreadsheet."""
        return await exporter.download(request, format, labelled_only)

    return routes


def _of_item(read: Callable[[Store, int], T], position: int) -> Callable[[Store], T]:
    """Read an item that must be there: an address that names none is not found."""

    def act(store: Store) -> T:
        if position >= store.n_items:
            raise HTTPException(
                404, f"There is no item {position}; the project has {store.n_items}"
            )
        return read(store, position)

    return act


def _files(kinds: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """An answer that is a file, for the API's description."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(kinds, binary)}}
