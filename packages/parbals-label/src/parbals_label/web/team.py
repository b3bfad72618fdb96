"""Routes for the team: the visitor's identity, people with links, and the log."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request

from parbals_label.project.history import log_rows
from parbals_label.project.log_lines import predicate
from parbals_label.store.records import Person
from parbals_label.store.store import Store
from parbals_label.web import schemas
from parbals_label.web.address import PageAddress
from parbals_label.web.door import Door, acting_as, require_owner, visitor_of
from parbals_label.web.refusals import ERRORS
from parbals_label.web.session import Session

__all__ = ["team_routes"]

T = TypeVar("T")
_LOG_ROWS = 100


def team_routes(session: Session, door: Door, address: PageAddress) -> APIRouter:
    """Return the routes of the team: for owners to manage people, and for all to sign out."""
    routes = APIRouter(prefix="/api", responses=ERRORS)
    desk = session.desk

    async def change(request: Request, act: Callable[[Store], T]) -> T:
        """Change access as an owner; cached access rights are dropped."""
        try:
            return await desk.write(acting_as(require_owner(request), act))
        finally:
            door.clear_cache()

    @routes.get("/me")
    async def me(
        request: Request, name: Annotated[str | None, Query(min_length=1, max_length=100)] = None
    ) -> schemas.MeOut:
        """Return the visitor; with ``name``, also the project's spelling of that name."""
        visitor = visitor_of(request)
        spelling = None if name is None else await door.label_as(visitor, name)
        role: schemas.Role = "owner" if visitor.is_owner else "annotator"
        return schemas.MeOut(name=visitor.name, role=role, spelt=spelling)

    @routes.post("/leave")
    async def leave(request: Request) -> dict[str, bool]:
        """Sign out: end the session of this browser."""
        await door.end_session(visitor_of(request))
        return {"done": True}

    @routes.get("/people")
    async def people(request: Request) -> dict[str, list[Person]]:
        """For owners: return everybody who was invited."""
        require_owner(request)
        return await desk.read(_people)

    @routes.post("/people")
    async def invite(body: schemas.InviteIn, request: Request) -> dict[str, str]:
        """For owners: create a personal link, shown only once; an earlier one stops working."""

        def act(store: Store) -> dict[str, str]:
            token = store.invite(body.name, body.role)
            person = store.person_of(token)
            assert person is not None
            return {"name": person.name, "role": body.role, "link": address.link(token)}

        return await change(request, act)

    @routes.post("/people/role")
    async def set_role(body: schemas.RoleIn, request: Request) -> dict[str, list[Person]]:
        """For owners: change the role of an invited person."""
        await change(request, lambda store: store.set_role(body.name, body.role))
        return await desk.read(_people)

    @routes.post("/people/revoke")
    async def revoke(body: schemas.NameIn, request: Request) -> dict[str, list[Person]]:
        """For owners: revoke a person's link and end their sessions; their labels stay."""
        await change(request, lambda store: store.revoke(body.name))
        return await desk.read(_people)

    @routes.get("/log")
    async def log(
        request: Request,
        before: Annotated[int, Query(ge=0, le=schemas.MAX_POSITION)] = schemas.MAX_POSITION,
    ) -> dict[str, list[dict[str, Any]]]:
        """For owners: return a page of the log, the newest entries first.

        Request the entries ``before`` the last number until there are none.
        """
        require_owner(request)
        rows = await desk.read_slowly(log_rows)
        shown = [row for row in rows if row["number"] < before][: -_LOG_ROWS - 1 : -1]
        return {"rows": [{**row, "sentence": predicate(row)} for row in shown]}

    return routes


def _people(store: Store) -> dict[str, list[Person]]:
    return {"people": store.people()}
