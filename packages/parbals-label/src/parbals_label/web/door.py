"""Visitors: known by the page's own link, a personal link, a session, or the word of a proxy.

A browser that opens a link gets a session: a cookie, which scripts cannot read, and a key, which
the page keeps in its storage and sends with every request. Browsers show a cookie to every port of
a machine, but storage only to the very address it belongs to; so what another server sees of a
session opens nothing. Both end after a while, with the link, and when somebody signs out.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from parbals.errors import InputError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from parbals_label.server.desk import Desk
from parbals_label.server.pace import Pace
from parbals_label.store.people import OWNER, Entry, hashed, is_reserved, name_key
from parbals_label.store.records import Person
from parbals_label.store.store import Store

__all__ = ["SESSION_SECONDS", "SHARED", "Door", "Visitor", "anyone", "owner", "signed"]

T = TypeVar("T")

SHARED = "the page's link"
"""The signature of a visitor without a name: anyone who was given the page's own link."""
SESSION_SECONDS = 30 * 24 * 3600.0
_LOOK_SECONDS = 1.0
_MOST_KNOWN = 10_000
_MOST_NAMES = 100_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who makes a request: ``name`` is None where the page's own link was used.

    ``origin`` is the address the request came from, ``session`` the cookie if there is one.
    """

    name: str | None
    role: str
    origin: str = ""
    session: str | None = None

    @property
    def is_owner(self) -> bool:
        return self.role == OWNER

    @property
    def only(self) -> str | None:
        """The annotator whose items and answers alone are shown; an owner sees everybody's."""
        return None if self.is_owner else self.name

    @property
    def signature(self) -> str:
        """The name to write into the log."""
        return self.name or SHARED


def anyone(request: Request) -> Visitor:
    """The visitor whom the guard has let in.

    A plain function, which each route calls: a dependency of the framework costs a label time.
    """
    visitor: Visitor = request.state.visitor
    return visitor


def owner(request: Request) -> Visitor:
    """The visitor, who must be an owner."""
    visitor = anyone(request)
    if not visitor.is_owner:
        raise HTTPException(403, "Only an owner of the project may do this")
    return visitor


def signed(visitor: Visitor, act: Callable[[Store], T]) -> Callable[[Store], T]:
    """A change of the project in the visitor's name, which the log keeps."""

    def change(store: Store) -> T:
        with store.acting(visitor.signature, visitor.origin):
            return act(store)

    return change


class Door:
    """Knows the links and sessions of a project.

    What the project says is believed for a second, so that not every request asks it: a link that
    is revoked by a command ends within that time, one that is revoked on the page at once.
    """

    def __init__(self, desk: Desk, token: str, *, session_seconds: float = SESSION_SECONDS) -> None:
        self._desk, self._token, self.session_seconds = desk, token, session_seconds
        self.pace = Pace()
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}
        self._spellings: dict[str, str] | None = None

    async def by_link(self, token: str) -> Visitor | None:
        """The visitor with a link's secret."""
        if secrets.compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode()):
            return Visitor(None, OWNER)
        person = await self._ask(("link", hashed(token)), lambda store: store.person_of(token))
        return _visitor(person)

    async def by_session(self, cookie: str, key: str | None, place: str) -> Visitor | None:
        """The visitor of a session that was begun at this place.

        ``key`` None: the page itself is asked for, whose files hold nothing of the project.
        """
        question = ("session", hashed(cookie), place)
        entry: Entry | None = await self._ask(question, lambda store: store.session(cookie, place))
        if entry is None or entry.expires <= time.time():
            return None
        if key is not None and not secrets.compare_digest(entry.key, hashed(key)):
            return None
        if entry.link == hashed(self._token):
            return Visitor(None, OWNER, session=cookie)
        visitor = _visitor(entry.person)
        return None if visitor is None else replace(visitor, session=cookie)

    async def by_name(self, name: str) -> Visitor | None:
        """Somebody whom a proxy has let in; they must have been invited here as well."""
        return _visitor(await self._ask(("name", name), lambda store: store.person_named(name)))

    async def label_as(self, visitor: Visitor, given: str) -> str:
        """The name under which a visitor labels, as it is spelt: a personal link is its name.

        A visitor with the page's own link says a name; it must not be that of an invited person.
        """
        if visitor.name is not None:
            if name_key(given) != name_key(visitor.name):
                raise HTTPException(
                    403, f"This link is {visitor.name}'s, and nobody else can label with it"
                )
            return visitor.name
        if is_reserved(given):
            raise InputError(f"annotator is {given!r}, a name that programs use; choose another.")
        is_team = await self._ask(("team",), lambda store: any(p.invited for p in store.people()))
        if is_team and await self.by_name(given) is not None:
            raise HTTPException(
                403, f"{given} has a link of their own; only that labels as {given}"
            )
        if self._spellings is None:
            names = await self._desk.read_slowly(lambda store: store.names())
            self._spellings = {name_key(name): name for name in reversed(names)}
            self._spellings |= {name: name for name in names}
        spelt = self._spellings.get(given) or self._spellings.get(name_key(given))
        if spelt is None:
            await self._desk.read_slowly(lambda store: store.check_looks(given))
            spelt = given
        self._spellings.setdefault(name_key(given), spelt)
        if len(self._spellings) > _MOST_NAMES:  # invented ones; those that label are read again
            self._spellings = None
        return spelt

    async def admit(self, guest: Visitor, token: str, place: str) -> tuple[str, str]:
        """Begin a session for a link that is good: cookie and key."""
        self.pace.admit(guest.signature, answers=1)  # each leaves a row in the log
        seconds = self.session_seconds
        return await self._desk.write(
            signed(guest, lambda store: store.start_session(token, place, seconds))
        )

    async def leave(self, visitor: Visitor) -> None:
        """End the visitor's session."""
        cookie = visitor.session
        if cookie is not None:
            await self._desk.write(lambda store: store.end_session(cookie))
            self.forget()

    def forget(self) -> None:
        """Somebody's rights have changed: ask the project again.

        A question that is on its way still has the old memory, and answers into that.
        """
        self._known = {}

    async def _ask(self, question: tuple[str, ...], look: Callable[[Store], T]) -> T:
        known, moment = self._known, time.monotonic()
        if question in known and moment - known[question][0] < _LOOK_SECONDS:
            return known[question][1]
        answer = await self._desk.read(look)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[question] = moment, answer
        return answer


def _visitor(person: Person | None) -> Visitor | None:
    return None if person is None or not person.invited else Visitor(person.name, person.role)
