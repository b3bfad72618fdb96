"""Routes for labelling: items to label, answers, skips, undo, leases, and the settings."""

from typing import Any

from fastapi import APIRouter, Request
from parbals.errors import InputError

from parbals_label.project.checks import queue_checks, queue_unsure
from parbals_label.project.classes import change_classes
from parbals_label.project.measured import sampled_positions
from parbals_label.project.measuring import begin_measurement, keep_sample, request_target_sample
from parbals_label.project.pausing import set_paused
from parbals_label.project.quick import quick_batch
from parbals_label.project.undo_sample import undo_sample
from parbals_label.store import records
from parbals_label.store.rows import lease_clock
from parbals_label.store.store import Store
from parbals_label.web import schemas
from parbals_label.web.door import Door, acting_as, require_owner, visitor_of
from parbals_label.web.items import project
from parbals_label.web.refusals import ERRORS
from parbals_label.web.session import Session

__all__ = ["labelling_routes"]


def labelling_routes(session: Session, door: Door) -> APIRouter:
    """Return the routes of labelling; ``door`` tells under which name a visitor labels."""
    routes = APIRouter(prefix="/api", responses=ERRORS)
    _add_project_routes(routes, session)
    _add_answer_routes(routes, session, door)
    _add_bulk_route(routes, session, door)
    _add_undo_route(routes, session, door)
    _add_lease_routes(routes, session, door)
    _add_queue_routes(routes, session)
    return routes


async def _annotator(
    door: Door, request: Request, name: str, *texts: str | None, n_answers: int = 0
) -> str:
    """Return the name that the visitor labels under; refused above the rate limit of that name."""
    annotator = await door.label_as(visitor_of(request), name)
    n_bytes = sum(len(text.encode()) for text in texts if text)
    door.rate_limiter.admit(annotator, n_answers, n_bytes)
    return annotator


def _add_project_routes(routes: APIRouter, session: Session) -> None:
    """Add the project's facts and, for owners, its settings."""

    @routes.get("/project")
    async def get_project() -> schemas.ProjectOut:
        """Return what the page loads once."""
        return await session.desk.read(project)

    @routes.patch("/settings")
    async def change_settings(body: schemas.SettingsIn, request: Request) -> schemas.ProjectOut:
        """Change what annotators see, how items are assigned, or the classes."""
        changes = body.model_dump(exclude_none=True)
        class_changes = changes.pop("classes", {})

        def act(store: Store) -> schemas.ProjectOut:
            with store.transaction():
                store.update_settings(**changes, **change_classes(store, **class_changes))
            return project(store)

        return await session.desk.write(acting_as(require_owner(request), act))


def _add_answer_routes(routes: APIRouter, session: Session, door: Door) -> None:
    """Add answers and skips of annotators."""

    @routes.post("/answers")
    async def answers(
        body: schemas.AnswersIn, request: Request
    ) -> dict[str, list[schemas.StoredAnswer]]:
        """Store labels, all or none; 200 means that they are on disk."""
        texts = [text for answer in body.answers for text in (answer.comment, answer.request_id)]
        name = await _annotator(door, request, body.annotator, *texts, n_answers=len(body.answers))
        submissions = [_submission(answer) for answer in body.answers]
        only = visitor_of(request).only

        def act(store: Store) -> records.SubmitResult:
            store.check_assigned([submission.position for submission in submissions], only)
            return store.submit(submissions, annotator=name)

        result = await session.desk.write(act)
        session.touch(name, done=len(body.answers))
        return {"stored": _stored_answers(body.answers, result)}

    @routes.post("/passes")
    async def pass_over(body: schemas.PassIn, request: Request) -> dict[str, int | str]:
        """Store that an annotator skips an item or is unsure; others may still label it."""
        comment = _without_blank(body.comment)
        name = await _annotator(
            door, request, body.annotator, comment, body.request_id, n_answers=1
        )
        only = visitor_of(request).only

        def act(store: Store) -> str:
            store.check_assigned([body.position], only)
            return store.pass_over(
                body.position,
                body.kind,
                annotator=name,
                comment=comment,
                request_id=body.request_id,
            )

        outcome = await session.desk.write(act)
        session.touch(name, done=1)
        return {"position": body.position, "outcome": outcome}


def _submission(answer: schemas.AnswerIn) -> records.Submission:
    return records.Submission(
        position=answer.position,
        label=answer.label,
        request_id=answer.request_id,
        comment=_without_blank(answer.comment),
        revise=answer.revise,
    )


def _stored_answers(
    answers: list[schemas.AnswerIn], result: records.SubmitResult
) -> list[schemas.StoredAnswer]:
    return [
        schemas.StoredAnswer(
            request_id=answer.request_id,
            position=answer.position,
            answer=number,
            outcome=outcome,
        )
        for answer, number, outcome in zip(answers, result.answers, result.outcomes, strict=True)
    ]


def _without_blank(comment: str | None) -> str | None:
    """Return a comment, or None if it is blank."""
    return comment if comment is not None and comment.strip() else None


def _add_bulk_route(routes: APIRouter, session: Session, door: Door) -> None:
    """Add bulk labelling, for owners."""

    @routes.post("/bulk")
    async def bulk(body: schemas.BulkIn, request: Request) -> schemas.Counts:
        """For owners: store one label for several items, an answer for each; all or none.

        Test items are left out, because each must be looked at, unless this is a final label.
        """
        visitor = require_owner(request)
        name = await _annotator(door, request, body.annotator, n_answers=len(body.positions))

        def act(store: Store) -> schemas.Counts:
            requested = dict.fromkeys(body.positions)
            excluded = set() if body.decides else requested.keys() & sampled_positions(store)
            positions = [position for position in requested if position not in excluded]
            n_changed = _label_all(store, positions, name, body)
            if n_changed:
                kind = records.DECIDED if body.decides else records.IN_BULK
                store.log(kind, count=n_changed, label=body.label, name=name)
            return {"changed": n_changed, "left": len(excluded)}

        return await session.desk.write(acting_as(visitor, act))


def _label_all(store: Store, positions: list[int], name: str, body: schemas.BulkIn) -> int:
    """Store the label or, without one, undo the annotator's labels; returns how many changed."""
    if body.label is None:
        labels = store.current_labels()
        labelled = [position for position in positions if name in labels.get(position, {})]
        return store.undo_labels(labelled, annotator=name)
    submissions = [
        records.Submission(
            position=position,
            label=body.label,
            request_id=f"{body.request_id}:{position}",
            revise=True,
        )
        for position in positions
    ]
    source = "decision" if body.decides else "bulk"
    result = store.submit(submissions, annotator=name, source=source)
    return result.new + result.revised


def _add_undo_route(routes: APIRouter, session: Session, door: Door) -> None:
    """Add undo."""

    @routes.post("/undo")
    async def undo(body: schemas.UndoIn, request: Request) -> schemas.UndoneOut:
        """Undo the annotator's latest label or skip of an item and assign it to them again.

        An owner may undo somebody else's.
        """
        visitor = visitor_of(request)
        name = body.annotator
        if body.as_owner:
            require_owner(request)
        else:
            name = await door.label_as(visitor, name)
        door.rate_limiter.admit(visitor.name or name, 1, len(body.request_id.encode()))

        def act(store: Store) -> schemas.UndoneOut:
            store.check_assigned([body.position], visitor.only)
            tasks = session.tasks(store)
            revision = store.revision()[:2]
            undone, lease = store.undo(
                body.position,
                name,
                lease_seconds=tasks.lease_seconds,
                request_id=body.request_id,
            )
            task = tasks.tasks(store, [lease])[0]
            is_retry = store.revision()[:2] == revision
            if body.as_owner and not is_retry:
                value = undone.get("label") or undone["kind"]
                store.log(records.ANSWER_UNDONE, name=name, item=task.id, was=value)
            return schemas.UndoneOut(item=task, was=undone)

        return await session.desk.write(acting_as(visitor, act))


def _add_lease_routes(routes: APIRouter, session: Session, door: Door) -> None:
    """Add taking, renewing and releasing the items of an annotator."""

    @routes.post("/take")
    async def take(body: schemas.TakeIn, request: Request) -> schemas.TasksOut:
        """Assign items: first those that the annotator already holds, then the best in the queue.

        If too few are in the queue, the fallback chooses more at once, so that nobody waits for
        the model.
        """
        name = await _annotator(door, request, body.annotator)

        def act(store: Store) -> schemas.TasksOut:
            tasks = session.tasks(store)
            leases = store.take(name, body.n, tasks.lease_seconds)
            if len(leases) < body.n and quick_batch(store) is not None:
                leases = store.take(name, body.n, tasks.lease_seconds)
            items = tasks.tasks(store, leases)
            return schemas.TasksOut(items=items, queue=session.queue(store.queue_counts(name)))

        tasks = await session.desk.write(act)
        session.touch(name, tasks.queue.ready)
        return tasks

    @routes.post("/leases")
    async def renew(body: schemas.PositionsIn, request: Request) -> dict[str, Any]:
        """Extend the annotator's leases."""
        name = await _annotator(door, request, body.annotator)
        only = visitor_of(request).only

        def act(store: Store) -> dict[str, Any]:
            store.check_assigned(body.positions, only)
            lease_seconds = session.tasks(store).lease_seconds
            renewed = store.renew(name, body.positions, lease_seconds)
            return {"mine": renewed, "expires": lease_clock() + lease_seconds}

        leases = await session.desk.write(act)
        session.touch(name)
        return leases

    @routes.post("/release")
    async def release(body: schemas.PositionsIn, request: Request) -> schemas.Counts:
        """Put the annotator's items back into the queue, because they leave the page."""
        name = await _annotator(door, request, body.annotator)
        only = visitor_of(request).only

        def act(store: Store) -> schemas.Counts:
            store.check_assigned(body.positions, only)
            return {"released": store.release(name, body.positions)}

        return await session.desk.write(act)


def _add_queue_routes(routes: APIRouter, session: Session) -> None:
    """Add what owners do with the queue: request answers, measure the error, release items."""

    @routes.post("/again")
    async def again(body: schemas.AgainIn, request: Request) -> dict[str, bool]:
        """For owners: request one more answer for an item, from another person."""

        def act(store: Store) -> None:
            store.ask_again(body.position)

        await session.desk.write(acting_as(require_owner(request), act))
        return {"done": True}

    @routes.post("/measure")
    async def measure(body: schemas.MeasureIn, request: Request) -> schemas.Counts:
        """For owners: draw a random sample that measures the error, and queue it.

        It measures the stored predictions once or, with ``keep``, every later model. A sample of
        the target set is drawn by the worker, a moment later.
        """

        def act(store: Store) -> schemas.Counts:
            if body.keep and body.from_target:
                raise InputError("A sample that is kept is drawn from the pool.")
            if body.from_target:
                request_target_sample(store, body.n)
            elif body.keep:
                keep_sample(store, body.n)
            else:
                begin_measurement(store, body.n, queued=True)
            store.log(records.MEASURED, count=body.n, keep=body.keep)
            return {"drawn": body.n}

        return await session.desk.write(acting_as(require_owner(request), act))

    @routes.post("/measure/undo")
    async def undo_measurement(request: Request) -> schemas.Counts:
        """For owners: undo the draw of a sample while nobody has answered one of its items."""

        def act(store: Store) -> schemas.Counts:
            return {"undone": undo_sample(store)}

        return await session.desk.write(acting_as(require_owner(request), act))

    @routes.post("/check")
    async def check(body: schemas.CheckIn, request: Request) -> schemas.ChecksOut:
        """For owners: queue random answers of a program, or unsure ones, for people."""

        def act(store: Store) -> schemas.ChecksOut:
            queue = queue_unsure if body.unsure else queue_checks
            checks = queue(store, body.n, body.program)
            return schemas.ChecksOut(n_queued=len(checks.positions), sentence=checks.sentence)

        return await session.desk.write(acting_as(require_owner(request), act))

    @routes.post("/pause")
    async def pause(body: schemas.PauseIn, request: Request) -> schemas.PausedOut:
        """For owners: pause or resume a program; a run stops at its next request."""

        def act(store: Store) -> schemas.PausedOut:
            sentence = set_paused(store, body.program, is_paused=body.paused)
            return schemas.PausedOut(paused=body.paused, sentence=sentence)

        return await session.desk.write(acting_as(require_owner(request), act))

    @routes.post("/release-all")
    async def release_all(body: schemas.ReleaseAllIn, request: Request) -> schemas.Counts:
        """For owners: release all items assigned to a person, or to anybody.

        A late answer is still stored.
        """

        def act(store: Store) -> schemas.Counts:
            n_released = store.release_all(body.of)
            store.log(records.RELEASED, name=body.of, count=n_released)
            return {"released": n_released}

        return await session.desk.write(acting_as(require_owner(request), act))
