"""The routes of a team: who one is, who has a link, and the log of what owners did."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict

from parbals_label.project.history import log_rows
from parbals_label.store.store import Store
from parbals_label.web.door import Door, Visitor
from parbals_label.web.failures import StrictRoute, errors_of
from parbals_label.web.place import Place
from parbals_label.web.schemas import MOST_POSITION, InModel, Name, Role
from parbals_label.web.session import Session
from parbals_label.web.visitors import anyone, owner

__all__ = ["team_routes"]

T = TypeVar("T")
_ROWS = 100


class InviteIn(InModel):
    """A person to give a link of their own, or a new one."""

    name: Name
    role: Role = "annotator"


class RoleIn(InModel):
    """What an invited person may do from now on."""

    name: Name
    role: Role


class NameIn(InModel):
    """A person."""

    name: Name


class MeOut(BaseModel):
    """Who makes the request; ``name`` is null with the page's own link, where one says a name.

    ``spelt`` is the name that was asked about, as the project spells it.
    """

    name: str | None
    role: Role
    spelt: str | None = None


class PersonOut(BaseModel):
    """Somebody who was invited; ``invited`` is false once their link was revoked."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    role: Role
    invited: bool
    created: str


class PeopleOut(BaseModel):
    """Everybody who was ever invited, by name."""

    people: list[PersonOut]


class InvitedOut(BaseModel):
    """The link, shown this once: the project keeps only a hash of it."""

    name: str
    role: Role
    link: str


class LogRow(BaseModel):
    """One change: who made it, when, from where, and what it was in words."""

    number: int
    created: str
    what: str
    who: str | None
    origin: str | None
    sentence: str


class LogOut(BaseModel):
    """Changes, the newest first; ask for those ``before`` the last number until there are none."""

    rows: list[LogRow]


class DoneOut(BaseModel):
    """It is done."""

    done: bool = True


def team_routes(session: Session, door: Door, place: Place) -> APIRouter:
    """What owners decide about people, and what everybody may know about themselves."""
    routes = APIRouter(prefix="/api", route_class=StrictRoute)
    desk = session.desk

    @routes.get("/me", responses=errors_of())
    async def me(
        request: Request, name: Annotated[str | None, Query(min_length=1, max_length=100)] = None
    ) -> MeOut:
        """Who makes this request; with ``name``, how they would be spelt under that name."""
        visitor = anyone(request)
        spelt = None if name is None else await door.label_as(visitor, name)
        role: Role = "owner" if visitor.is_owner else "annotator"
        return MeOut(name=visitor.name, role=role, spelt=spelt)

    @routes.post("/leave", responses=errors_of(body=True))
    async def leave(request: Request) -> DoneOut:
        """Sign out: this browser's session ends."""
        await door.leave(anyone(request))
        return DoneOut()

    @routes.get("/people", responses=errors_of())
    async def people(request: Request) -> PeopleOut:
        """Everybody who was invited."""
        owner(request)
        return await desk.read(_people)

    @routes.post("/people", responses=errors_of(body=True))
    async def invite(body: InviteIn, request: Request) -> InvitedOut:
        """Give a person a link of their own; one that they had stops working."""
        visitor = owner(request)

        def act(store: Store) -> InvitedOut:
            with store.acting(visitor.signature, visitor.origin):
                token = store.invite(body.name, body.role)
            person = store.person_of(token)
            assert person is not None
            return InvitedOut(name=person.name, role=body.role, link=place.link(token))

        return await _changing(act)

    @routes.post("/people/role", responses=errors_of(body=True))
    async def set_role(body: RoleIn, request: Request) -> PeopleOut:
        """Make an invited person an owner or an annotator."""
        visitor = owner(request)
        return await _changing(_as(visitor, lambda store: store.set_role(body.name, body.role)))

    @routes.post("/people/revoke", responses=errors_of(body=True))
    async def revoke(body: NameIn, request: Request) -> PeopleOut:
        """End a person's link and sessions; their labels stay."""
        visitor = owner(request)
        return await _changing(_as(visitor, lambda store: store.revoke(body.name)))

    @routes.get("/log", responses=errors_of())
    async def log(
        request: Request, before: Annotated[int, Query(ge=0, le=MOST_POSITION)] = MOST_POSITION
    ) -> LogOut:
        """What was changed, by whom and from where, the newest first."""
        owner(request)

        def look(store: Store) -> LogOut:
            rows = [row for row in log_rows(store) if row["number"] < before]
            return LogOut(rows=[LogRow.model_validate(row) for row in rows[: -_ROWS - 1 : -1]])

        return await desk.read_slowly(look)

    async def _changing(act: Callable[[Store], T]) -> T:
        try:
            return await desk.write(act)
        finally:
            door.forget()

    return routes


def _as(visitor: Visitor, change: Callable[[Store], object]) -> Callable[[Store], PeopleOut]:
    """The change, in the visitor's name; and the people afterwards."""

    def act(store: Store) -> PeopleOut:
        with store.acting(visitor.signature, visitor.origin):
            change(store)
        return _people(store)

    return act


def _people(store: Store) -> PeopleOut:
    return PeopleOut(people=[PersonOut.model_validate(person) for person in store.people()])
