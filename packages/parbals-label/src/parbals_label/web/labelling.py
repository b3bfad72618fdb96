"""The routes of labelling: items to take, answers, passes, undo, leases, settings."""

from typing import Any

from fastapi import APIRouter, Request
from parbals.errors import InputError
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.project.classes import change_classes
from parbals_label.project.measuring import draw_certificate
from parbals_label.project.quick import quick_batch
from parbals_label.project.summary import newer_answers
from parbals_label.store import records
from parbals_label.store.rows import moment
from parbals_label.store.store import Store
from parbals_label.web import schemas
from parbals_label.web.door import Door, anyone, owner, signed
from parbals_label.web.items import project
from parbals_label.web.refusals import ERRORS
from parbals_label.web.session import Session

__all__ = ["labelling_routes"]


def labelling_routes(session: Session, door: Door) -> APIRouter:
    """What annotators do: items to take, answers, passes, undo, leases; and settings, for owners.

    ``door`` says under which name a visitor labels.
    """
    routes = APIRouter(prefix="/api", responses=ERRORS)
    desk = session.desk

    async def labeller(request: Request, given: str, *said: str | None, answers: int = 0) -> str:
        """The name that the visitor labels under; refused where that name sends too much."""
        name = await door.label_as(anyone(request), given)
        door.pace.admit(name, answers, sum(len(text.encode()) for text in said if text))
        return name

    @routes.get("/project")
    async def get_project() -> schemas.ProjectOut:
        """What the page needs to know once."""
        return await desk.read(project)

    @routes.patch("/settings")
    async def change_settings(body: schemas.SettingsIn, request: Request) -> schemas.ProjectOut:
        """Change what annotators see and how items are handed out, or the classes."""
        changes = body.model_dump(exclude_none=True)
        classes = changes.pop("classes", {})

        def act(store: Store) -> schemas.ProjectOut:
            with store.together():
                store.update_settings(**changes, **change_classes(store, **classes))
            return project(store)

        return await desk.write(signed(owner(request), act))

    @routes.post("/take")
    async def take(body: schemas.TakeIn, request: Request) -> schemas.TasksOut:
        """Items for an annotator: first those they have already, then the best that wait.

        Where too few do, more are chosen at once: nobody waits for the model.
        """
        name = await labeller(request, body.annotator)

        def act(store: Store) -> schemas.TasksOut:
            tasks = session.tasks(store)
            leases = store.take(name, body.n, tasks.lease_seconds)
            if len(leases) < body.n and quick_batch(store) is not None:
                leases = store.take(name, body.n, tasks.lease_seconds)
            items = [tasks.task(store, lease) for lease in leases]
            return schemas.TasksOut(items=items, queue=session.queue(store.queue_counts(name)))

        tasks = await desk.write(act)
        session.touch(name, tasks.queue.ready)
        return tasks

    @routes.post("/answers")
    async def answers(
        body: schemas.AnswersIn, request: Request
    ) -> dict[str, list[schemas.StoredAnswer]]:
        """Store labels, all or none; 200 means that they are on disk."""
        said = [text for a in body.answers for text in (a.comment, a.request_id)]
        name = await labeller(request, body.annotator, *said, answers=len(body.answers))
        labels = [
            records.Submission(
                a.position, a.label, a.request_id, _words(a.comment), revise=a.revise
            )
            for a in body.answers
        ]
        only = anyone(request).only

        def act(store: Store) -> records.SubmitResult:
            store.must_be_given([label.position for label in labels], only)
            return store.submit(labels, annotator=name)

        result = await desk.write(act)
        session.touch(name, done=len(body.answers))
        rows = zip(body.answers, result.answers, result.outcomes, strict=True)
        stored = [
            schemas.StoredAnswer(
                request_id=a.request_id, position=a.position, answer=number, outcome=outcome
            )
            for a, number, outcome in rows
        ]
        return {"stored": stored}

    @routes.post("/bulk")
    async def bulk(body: schemas.BulkIn, request: Request) -> schemas.Counts:
        """For an owner: one label for several items, each an answer of its own; all or none.

        Items that measure the error must be looked at, and are left out; not of a decision.
        """
        visitor = owner(request)
        name = await labeller(request, body.annotator, answers=len(body.positions))

        def act(store: Store) -> schemas.Counts:
            asked = dict.fromkeys(body.positions)
            kept = set() if body.decides else asked.keys() & _measuring(store)
            changed = _label_all(store, [p for p in asked if p not in kept], name, body)
            if changed:
                kind = records.DECIDED if body.decides else records.IN_BULK
                store.log(kind, count=changed, label=body.label, name=name)
            return {"changed": changed, "left": len(kept)}

        return await desk.write(signed(visitor, act))

    @routes.post("/passes")
    async def pass_over(body: schemas.PassIn, request: Request) -> dict[str, int | str]:
        """Store that an annotator skips an item or is unsure; others may still label it."""
        said = {"comment": _words(body.comment), "request_id": body.request_id}
        name = await labeller(request, body.annotator, *said.values(), answers=1)
        only = anyone(request).only

        def act(store: Store) -> str:
            store.must_be_given([body.position], only)
            return store.pass_over(body.position, body.kind, annotator=name, **said)

        outcome = await desk.write(act)
        session.touch(name, done=1)
        return {"position": body.position, "outcome": outcome}

    @routes.post("/undo")
    async def undo(body: schemas.UndoIn, request: Request) -> schemas.UndoneOut:
        """Take back the annotator's latest label or pass of an item; it is theirs again.

        An owner may take back somebody else's.
        """
        visitor, name = anyone(request), body.annotator
        if body.as_owner:
            owner(request)
        else:
            name = await door.label_as(visitor, name)
        door.pace.admit(visitor.name or name, 1, len(body.request_id.encode()))

        def act(store: Store) -> schemas.UndoneOut:
            store.must_be_given([body.position], visitor.only)
            tasks = session.tasks(store)
            before = store.revision()[:2]
            seconds, request_id = tasks.lease_seconds, body.request_id
            was, lease = store.undo(
                body.position, name, lease_seconds=seconds, request_id=request_id
            )
            task = tasks.task(store, lease)
            if body.as_owner and store.revision()[:2] != before:  # a retry takes back nothing
                store.log(
                    records.TAKEN_BACK, name=name, item=task.id, was=was.get("label") or was["kind"]
                )
            return schemas.UndoneOut(item=task, was=was)

        return await desk.write(signed(visitor, act))

    @routes.post("/leases")
    async def renew(body: schemas.PositionsIn, request: Request) -> dict[str, Any]:
        """The annotator is still at work: their items stay theirs."""
        name, only = await labeller(request, body.annotator), anyone(request).only

        def act(store: Store) -> dict[str, Any]:
            store.must_be_given(body.positions, only)
            seconds = session.tasks(store).lease_seconds
            mine = store.renew(name, body.positions, seconds)
            return {"mine": mine, "expires": moment() + seconds}

        leases = await desk.write(act)
        session.touch(name)
        return leases

    @routes.post("/release")
    async def release(body: schemas.PositionsIn, request: Request) -> schemas.Counts:
        """The annotator leaves: their items go back into the queue."""
        name, only = await labeller(request, body.annotator), anyone(request).only

        def act(store: Store) -> schemas.Counts:
            store.must_be_given(body.positions, only)
            return {"released": store.release(name, body.positions)}

        return await desk.write(act)

    @routes.post("/again")
    async def again(body: schemas.AgainIn, request: Request) -> dict[str, bool]:
        """For an owner: one more person is to label an item."""
        await desk.write(signed(owner(request), lambda store: store.ask_again(body.position)))
        return {"done": True}

    @routes.post("/certify")
    async def certify(body: schemas.CertifyIn, request: Request) -> schemas.Counts:
        """For an owner: random items, for which the model's decisions are fixed now, come next."""

        def act(store: Store) -> schemas.Counts:
            if newer_answers(store):  # a model is not fitted here
                raise InputError("The report is behind the labels; ask again in a moment.")
            draw_certificate(store, body.labels, queued=True)
            return {"drawn": body.labels}

        return await desk.write(signed(owner(request), act))

    @routes.post("/release-all")
    async def release_all(body: schemas.ReleaseAllIn, request: Request) -> schemas.Counts:
        """For an owner: everything that is out with a person, or with anybody, comes back.

        A late answer still counts.
        """

        def act(store: Store) -> schemas.Counts:
            released = store.release_all(body.of)
            store.log(records.RELEASED, name=body.of, count=released)
            return {"released": released}

        return await desk.write(signed(owner(request), act))

    return routes


def _measuring(store: Store) -> set[int]:
    """Random items that measure the error: the audit's, and those of certificates."""
    drawn = {item.position for record in store.batches(CERTIFY) for item in record.items}
    return drawn.union(store.settings.audit)


def _label_all(store: Store, positions: list[int], name: str, body: schemas.BulkIn) -> int:
    """How many labels were stored or, where there is no label in the request, taken back."""
    if body.label is None:
        held = store.current_labels()
        return store.withdraw([p for p in positions if name in held.get(p, {})], annotator=name)
    rows = [
        records.Submission(p, body.label, f"{body.request_id}:{p}", revise=True) for p in positions
    ]
    source = "decision" if body.decides else "bulk"
    stored = store.submit(rows, annotator=name, source=source)
    return stored.new + stored.revised


def _words(comment: str | None) -> str | None:
    """A comment with something in it."""
    return comment if comment is not None and comment.strip() else None
