"""Authentication of visitors: by the page's own link, a personal link, a session, or a proxy.

A browser that opens a link gets a session: a cookie, which scripts cannot read, and a key, which
the page keeps in local storage and sends with every request. Browsers send a cookie to every port
of a machine, but local storage belongs to one origin; so another server on the machine, which sees
the cookie, cannot use the session. A session ends after a while, with its link, or on signing out.
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
from parbals_label.server.rate_limits import RateLimiter
from parbals_label.store.names import PAGE_LINK, is_reserved, name_key
from parbals_label.store.people import OWNER, StoredSession, hashed
from parbals_label.store.records import Person
from parbals_label.store.store import Store

__all__ = [
    "SESSION_SECONDS",
    "Door",
    "Visitor",
    "acting_as",
    "require_owner",
    "visitor_of",
]

T = TypeVar("T")

SESSION_SECONDS = 30 * 24 * 3600.0
_CACHE_SECONDS = 1.0
_MAX_CACHED = 10_000
_MAX_SPELLINGS = 100_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person or program that makes a request.

    Attributes:
        name: None if the page's own link was used.
        role: "owner" or "annotator".
        origin: the address that the request came from.
        session: the session's cookie, if there is one.
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
        """The annotator to whom the view is restricted; None for an owner, who sees everything."""
        return None if self.is_owner else self.name

    @property
    def signature(self) -> str:
        """The name in the log."""
        return self.name or PAGE_LINK


def visitor_of(request: Request) -> Visitor:
    """Return the visitor whom the guard has authenticated.

    Each route calls this function, because a dependency of FastAPI would slow labelling down.
    """
    visitor: Visitor = request.state.visitor
    return visitor


def require_owner(request: Request) -> Visitor:
    """Return the visitor, who must be an owner."""
    visitor = visitor_of(request)
    if not visitor.is_owner:
        raise HTTPException(403, "Only an owner of the project may do this")
    return visitor


def acting_as(visitor: Visitor, act: Callable[[Store], T]) -> Callable[[Store], T]:
    """Return an action whose entries in the log carry the visitor's name and address."""

    def change(store: Store) -> T:
        with store.acting_as(visitor.signature, visitor.origin):
            return act(store)

    return change


class Door:
    """Authenticates visitors by the links and sessions of a project.

    Results are cached for a second, so that not every request reads the project. A link that is
    revoked by a command stops working within that time, one that is revoked on the page at once.
    """

    def __init__(self, desk: Desk, token: str, *, session_seconds: float = SESSION_SECONDS) -> None:
        self._desk = desk
        self._token = token
        self.session_seconds = session_seconds
        self.rate_limiter = RateLimiter()
        self._cache: dict[tuple[str, ...], tuple[float, Any]] = {}
        self._spellings: dict[str, str] | None = None

    async def by_link(self, token: str) -> Visitor | None:
        """Return the visitor of a link's token; None if it is not valid."""
        if secrets.compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode()):
            return Visitor(None, OWNER)
        person = await self._cached(("link", hashed(token)), lambda store: store.person_of(token))
        return _visitor(person)

    async def by_session(self, cookie: str, key: str | None, host: str) -> Visitor | None:
        """Return the visitor of a session that was started at this host; None if it is not valid.

        ``key`` is None for the page's own files, which contain nothing of the project.
        """
        entry: StoredSession | None = await self._cached(
            ("session", hashed(cookie), host), lambda store: store.session(cookie, host)
        )
        if entry is None or entry.expires <= time.time():
            return None
        if key is not None and not secrets.compare_digest(entry.key, hashed(key)):
            return None
        if entry.link == hashed(self._token):
            return Visitor(None, OWNER, session=cookie)
        visitor = _visitor(entry.person)
        return None if visitor is None else replace(visitor, session=cookie)

    async def by_name(self, name: str) -> Visitor | None:
        """Return the visitor whom a proxy has logged in; None unless they were invited."""
        person = await self._cached(("name", name), lambda store: store.person_named(name))
        return _visitor(person)

    async def label_as(self, visitor: Visitor, name: str) -> str:
        """Return the name under which a visitor labels, in the project's spelling.

        A personal link labels under its own name. A visitor with the page's own link chooses a
        name, which must not be that of an invited person.
        """
        if visitor.name is not None:
            if name_key(name) != name_key(visitor.name):
                raise HTTPException(
                    403, f"This link belongs to {visitor.name}; nobody else can label with it"
                )
            return visitor.name
        if is_reserved(name):
            raise InputError(f"annotator is {name!r}, a name that programs use; choose another.")
        has_team = await self._cached(
            ("team",), lambda store: any(person.invited for person in store.people())
        )
        if has_team and await self.by_name(name) is not None:
            raise HTTPException(403, f"{name} has a personal link; only that link labels as {name}")
        return await self._spelling(name)

    async def _spelling(self, name: str) -> str:
        """Return a name as the project spells it; a new one must not look like another."""
        if self._spellings is None:
            names = await self._desk.read_slowly(lambda store: store.annotator_names())
            self._spellings = {name_key(known): known for known in reversed(names)}
            self._spellings |= {known: known for known in names}
        spelling = self._spellings.get(name) or self._spellings.get(name_key(name))
        if spelling is None:
            await self._desk.read_slowly(lambda store: store.check_looks(name))
            spelling = name
        self._spellings.setdefault(name_key(name), spelling)
        if len(self._spellings) > _MAX_SPELLINGS:  # invented names; real ones are read again
            self._spellings = None
        return spelling

    async def start_session(self, visitor: Visitor, token: str, host: str) -> tuple[str, str]:
        """Start a session of a visitor with a valid link; returns its cookie and key."""
        self.rate_limiter.admit(visitor.signature, answers=1)  # each adds a row to the log
        seconds = self.session_seconds
        return await self._desk.write(
            acting_as(visitor, lambda store: store.start_session(token, host, seconds))
        )

    async def end_session(self, visitor: Visitor) -> None:
        """End the visitor's session."""
        cookie = visitor.session
        if cookie is not None:
            await self._desk.write(lambda store: store.end_session(cookie))
            self.clear_cache()

    def clear_cache(self) -> None:
        """Read the project again, because somebody's access has changed.

        A read in progress writes its result into the old dictionary.
        """
        self._cache = {}

    async def _cached(self, key: tuple[str, ...], read: Callable[[Store], T]) -> T:
        """Read the project, or return a result for the same key that is younger than a second."""
        cache = self._cache
        now = time.monotonic()
        if key in cache:
            cached_at, value = cache[key]
            if now - cached_at < _CACHE_SECONDS:
                return value
        value = await self._desk.read(read)
        if len(cache) >= _MAX_CACHED:
            cache.clear()
        cache[key] = (now, value)
        return value


def _visitor(person: Person | None) -> Visitor | None:
    if person is None or not person.invited:
        return None
    return Visitor(person.name, person.role)
