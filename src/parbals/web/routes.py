"""The API's routes that label: settings, items to take, answers, passes, undo, leases."""

import json
import time
from typing import Any

from fastapi import APIRouter, Response

from parbals.store.records import Submission
from parbals.store.store import Store
from parbals.web.failures import StrictRoute, errors_of
from parbals.web.models import AnswersIn, PassIn, PositionsIn, SettingsIn, TakeIn, UndoIn
from parbals.web.page import Page
from parbals.web.replies import (
    LeasesOut,
    PassOut,
    ProjectOut,
    ReleasedOut,
    StoredOut,
    TasksOut,
    UndoneOut,
)
from parbals.web.shape import lease_minutes, project, task

__all__ = ["as_json", "labelling_routes"]


def as_json(value: Any) -> Response:
    """An answer that is written as it is; its shape is tested against the description."""
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )
    return Response(body, media_type="application/json")


def labelling_routes(page: Page) -> APIRouter:
    """The routes of one running page."""
    routes = APIRouter(prefix="/api", route_class=StrictRoute)
    desk = page.desk

    @routes.get("/project", response_model=ProjectOut, responses=errors_of())
    async def get_project() -> Response:
        """What the page needs to know once."""
        return as_json(await desk.read(project))

    @routes.patch("/settings", response_model=ProjectOut, responses=errors_of(body=True))
    async def change_settings(wanted: SettingsIn) -> Response:
        """Change what annotators see and how items are handed out."""
        changes = {name: value for name, value in wanted.model_dump().items() if value is not None}

        def change(store: Store) -> dict[str, Any]:
            if changes:
                store.update_settings(**changes)
            return project(store)

        return as_json(await desk.write(change))

    @routes.post("/take", response_model=TasksOut, responses=errors_of(body=True))
    async def take(wanted: TakeIn) -> Response:
        """Items for an annotator: first those they have already, then the best that wait."""

        def act(store: Store) -> tuple[Any, Any]:
            outfit = page.outfit(store)
            leases = store.take(wanted.annotator, wanted.n, outfit.lease_seconds)
            tasks = [task(store, lease, outfit) for lease in leases]
            return tasks, store.queue_counts(wanted.annotator)

        tasks, counts = await desk.write(act)
        page.touch(wanted.annotator, counts.ready)
        return as_json({"items": tasks, "queue": page.queue(counts)})

    @routes.post("/answers", response_model=StoredOut, responses=errors_of(409, body=True))
    async def answers(given: AnswersIn) -> Response:
        """Store labels, all or none; 200 means that they are on disk."""
        wanted = [
            Submission(a.position, a.label, a.request_id, _words(a.comment), revise=a.revise)
            for a in given.answers
        ]
        result = await desk.write(lambda store: store.submit(wanted, annotator=given.annotator))
        page.touch(given.annotator, done=len(given.answers))
        rows = zip(given.answers, result.answers, result.outcomes, strict=True)
        stored = [
            {
                "request_id": a.request_id,
                "position": a.position,
                "answer": number,
                "outcome": outcome,
            }
            for a, number, outcome in rows
        ]
        return as_json({"stored": stored})

    @routes.post("/passes", response_model=PassOut, responses=errors_of(409, body=True))
    async def pass_over(given: PassIn) -> Response:
        """Store that an annotator skips an item or is unsure; others may still label it."""
        outcome = await desk.write(
            lambda store: store.pass_over(
                given.position,
                given.kind,
                annotator=given.annotator,
                request_id=given.request_id,
                comment=_words(given.comment),
            )
        )
        page.touch(given.annotator, done=1)
        return as_json({"position": given.position, "outcome": outcome})

    @routes.post("/undo", response_model=UndoneOut, responses=errors_of(409, body=True))
    async def undo(given: UndoIn) -> Response:
        """Take back the annotator's latest label or pass of an item; it is theirs again."""

        def act(store: Store) -> dict[str, Any]:
            outfit = page.outfit(store)
            was, lease = store.undo(
                given.position,
                given.annotator,
                lease_seconds=outfit.lease_seconds,
                request_id=given.request_id,
            )
            said = {"label": was.label, "kind": was.kind, "comment": was.comment}
            item = task(store, lease, outfit)
            return {
                "item": item,
                "was": {name: value for name, value in said.items() if value is not None},
            }

        return as_json(await desk.write(act))

    @routes.post("/leases", response_model=LeasesOut, responses=errors_of(body=True))
    async def renew(given: PositionsIn) -> Response:
        """The annotator is still at work: their items stay theirs."""

        def act(store: Store) -> tuple[list[int], float]:
            seconds = 60.0 * lease_minutes(store)
            return store.renew(given.annotator, given.positions, seconds), time.time() + seconds

        mine, expires = await desk.write(act)
        page.touch(given.annotator)
        return as_json({"mine": mine, "expires": expires})

    @routes.post("/release", response_model=ReleasedOut, responses=errors_of(body=True))
    async def release(given: PositionsIn) -> Response:
        """The annotator leaves: their items go back into the queue."""
        return as_json(
            {
                "released": await desk.write(
                    lambda store: store.release(given.annotator, given.positions)
                )
            }
        )

    return routes


def _words(comment: str | None) -> str | None:
    """A comment with something in it."""
    return comment if comment is not None and comment.strip() else None
