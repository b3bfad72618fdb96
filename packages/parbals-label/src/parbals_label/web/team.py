"""The routes of a team: who one is, who has a link, and the log of what owners did."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request

from parbals_label.project.history import log_rows
from parbals_label.store.records import Person
from parbals_label.store.store import Store
from parbals_label.web import schemas
from parbals_label.web.door import Door, acting_as, require_owner, visitor_of
from parbals_label.web.place import Place
from parbals_label.web.refusals import ERRORS
from parbals_label.web.session import Session

__all__ = ["team_routes"]

T = TypeVar("T")
_ROWS = 100


def team_routes(session: Session, door: Door, place: Place) -> APIRouter:
    """What owners decide about people, and what everybody may know about themselves."""
    routes = APIRouter(prefix="/api", responses=ERRORS)
    desk = session.desk

    async def change(request: Request, act: Callable[[Store], T]) -> T:
        """An owner changes who may come in, which is asked again from then on."""
        try:
            return await desk.write(acting_as(require_owner(request), act))
        finally:
            door.clear_cache()

    @routes.get("/me")
    async def me(
        request: Request, name: Annotated[str | None, Query(min_length=1, max_length=100)] = None
    ) -> schemas.MeOut:
        """Who makes this request; with ``name``, how they would be spelt under that name."""
        visitor = visitor_of(request)
        spelt = None if name is None else await door.label_as(visitor, name)
        role: schemas.Role = "owner" if visitor.is_owner else "annotator"
        return schemas.MeOut(name=visitor.name, role=role, spelt=spelt)

    @routes.post("/leave")
    async def leave(request: Request) -> dict[str, bool]:
        """Sign out: this browser's session ends."""
        await door.end_session(visitor_of(request))
        return {"done": True}

    @routes.get("/people")
    async def people(request: Request) -> dict[str, list[Person]]:
        """Everybody who was invited."""
        require_owner(request)
        return await desk.read(_people)

    @routes.post("/people")
    async def invite(body: schemas.InviteIn, request: Request) -> dict[str, str]:
        """Give a person a link of their own, shown this once; one that they had stops working."""

        def act(store: Store) -> dict[str, str]:
            token = store.invite(body.name, body.role)
            person = store.person_of(token)
            assert person is not None
            return {"name": person.name, "role": body.role, "link": place.link(token)}

        return await change(request, act)

    @routes.post("/people/role")
    async def set_role(body: schemas.RoleIn, request: Request) -> dict[str, list[Person]]:
        """Make an invited person an owner or an annotator."""
        await change(request, lambda store: store.set_role(body.name, body.role))
        return await desk.read(_people)

    @routes.post("/people/revoke")
    async def revoke(body: schemas.NameIn, request: Request) -> dict[str, list[Person]]:
        """End a person's link and sessions; their labels stay."""
        await change(request, lambda store: store.revoke(body.name))
        return await desk.read(_people)

    @routes.get("/log")
    async def log(
        request: Request,
        before: Annotated[int, Query(ge=0, le=schemas.MOST_POSITION)] = schemas.MOST_POSITION,
    ) -> dict[str, list[dict[str, Any]]]:
        """What was changed, by whom and from where, the newest first.

        Ask for what comes ``before`` the last number until there is nothing.
        """
        require_owner(request)
        rows = await desk.read_slowly(log_rows)
        return {"rows": [row for row in rows if row["number"] < before][: -_ROWS - 1 : -1]}

    return routes


def _people(store: Store) -> dict[str, list[Person]]:
    return {"people": store.people()}
