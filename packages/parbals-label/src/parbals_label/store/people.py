"""The people of a project: personal links, roles, and browser sessions.

A link contains 32 random bytes. The project stores only their hash, so that a copy of the project
gives no access. Sessions are stored in the same way and end with their link.
"""

import sqlite3
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from parbals.errors import InputError

from parbals_label.store import records
from parbals_label.store.names import check_invited_name, looks_like, name_key
from parbals_label.store.records import Person, SessionRow
from parbals_label.store.rows import check_text, utc_now
from parbals_label.store.settings import Settings

__all__ = [
    "ANNOTATOR",
    "OWNER",
    "NotAssignedError",
    "People",
    "StoredSession",
    "hashed",
]

OWNER = "owner"
ANNOTATOR = "annotator"
_SESSION_ID_LENGTH = 10
"""Characters of a session's hash that identify it."""
_MAX_SESSIONS = 1000
"""Sessions of one link: far more than people need, and few enough to store."""


class NotAssignedError(InputError):
    """A person requests an item that was not assigned to them."""


class StoredSession(NamedTuple):
    """A browser session.

    Attributes:
        link: the hash of the link's token.
        key: the hash of the key, which the browser stores apart from its cookie.
        expires: seconds since 1970.
        person: None for the page's own link.
    """

    link: str
    key: str
    expires: float
    person: Person | None


def hashed(secret: str) -> str:
    """Return the hash of a secret; secrets are random and long, so one round is enough."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _new_secret() -> str:
    import secrets  # most commands make none, and loading it takes as long as reading a project

    return secrets.token_urlsafe(32)


class People(Settings):
    """The part of the store that holds people, their links and their sessions."""

    def invite(self, name: str, role: str = ANNOTATOR, days: float | None = None) -> str:
        """Create a personal link, valid for ``days``; returns its secret, which is not stored.

        It replaces an earlier link of the person: the old link and its sessions stop working.
        """
        name = check_invited_name(name)
        secret = _new_secret()
        expires = None if days is None else time.time() + 86_400.0 * days
        self.check_looks(name)
        with self._db.transaction() as connection:
            before = _person(connection, "key", name_key(name))
            connection.execute(
                "INSERT INTO people VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET role "
                "= excluded.role, link = excluded.link, created = excluded.created, expires = "
                "excluded.expires",
                (name_key(name), name, role, hashed(secret), utc_now(), expires),
            )
            detail: dict[str, Any] = {"name": name if before is None else before.name, "role": role}
            if days is not None:
                detail["days"] = days
            if before is None or not before.invited:
                self._log(connection, records.INVITED, detail)
            else:
                self._log(connection, records.NEW_LINK, detail)
                self._log_role(connection, before, role)
        return secret

    def check_looks(self, name: str) -> None:
        """Refuse a name that looks like the name of somebody else."""
        for other in (*(person.name for person in self.people()), *self.annotator_names()):
            if name_key(other) != name_key(name) and looks_like(other, name):
                raise InputError(f"The name {name!r} looks like {other!r}; choose another.")

    def set_role(self, name: str, role: str) -> None:
        """Change the role of an invited person; their link stays."""
        with self._db.transaction() as connection:
            person = self._invited(connection, name)
            connection.execute("UPDATE people SET role = ? WHERE key = ?", (role, name_key(name)))
            self._log_role(connection, person, role)

    def revoke(self, name: str) -> str:
        """Revoke a person's link and end their sessions; their labels stay.

        Returns the name as it is stored.
        """
        with self._db.transaction() as connection:
            person = self._invited(connection, name)
            connection.execute(
                "DELETE FROM sessions WHERE link = (SELECT link FROM people WHERE key = ?)",
                (name_key(name),),
            )
            connection.execute("UPDATE people SET link = NULL WHERE key = ?", (name_key(name),))
            self._log(connection, records.REVOKED, {"name": person.name, "role": person.role})
        return person.name

    def revoke_all(self) -> tuple[str, ...]:
        """Revoke every link and end every session; returns the names of those who had a link."""
        with self._db.transaction() as connection:
            people = connection.execute(
                "SELECT name, role FROM people WHERE link IS NOT NULL ORDER BY key"
            ).fetchall()
            connection.execute("UPDATE people SET link = NULL")
            connection.execute("DELETE FROM sessions")
            for name, role in people:
                self._log(connection, records.REVOKED, {"name": name, "role": role})
        return tuple(name for name, _ in people)

    def people(self) -> list[Person]:
        """Return everybody who was ever invited, by name."""
        with self._db.reading() as connection:
            return _people(connection, "true ORDER BY key")

    def annotator_names(self) -> list[str]:
        """Return everybody who ever answered or skipped, in the order of their first answers."""
        rows = self._db.rows(
            "SELECT annotator FROM (SELECT annotator, created FROM answers UNION ALL SELECT "
            "annotator, created FROM passes) GROUP BY annotator ORDER BY min(created)"
        )
        return [name for (name,) in rows]

    def check_assigned(self, positions: Iterable[int], name: str | None) -> None:
        """Refuse items that were never assigned to a person, unless they answered or skipped them.

        With the name None nothing is refused.
        """
        if name is None:
            return
        query = " UNION ALL ".join(
            f"SELECT 1 FROM {table} WHERE position = :position AND annotator = :name"
            for table in ("given", "leases", "answers", "passes")
        )
        with self._db.reading() as connection:
            for position in positions:
                parameters = {"position": position, "name": name}
                if connection.execute(f"{query} LIMIT 1", parameters).fetchone() is None:
                    raise NotAssignedError(
                        "Annotators can see and label only items assigned to them."
                    )

    def person_of(self, secret: str) -> Person | None:
        """Return the person with this link."""
        with self._db.reading() as connection:
            return _person(connection, "link", hashed(secret))

    def person_named(self, name: str) -> Person | None:
        """Return an invited person; None if their link was revoked."""
        with self._db.reading() as connection:
            person = _person(connection, "key", name_key(name))
        return person if person is not None and person.invited else None

    def start_session(self, link: str, host: str, seconds: float) -> tuple[str, str]:
        """Start a session of a link at a host; returns its cookie and its key."""
        session = _new_secret()
        key = _new_secret()
        now = time.time()
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
                (hashed(session), hashed(key), hashed(link), host, now, now + seconds),
            )
            connection.execute(
                "DELETE FROM sessions WHERE link = ? AND session NOT IN (SELECT session FROM "
                "sessions WHERE link = ? ORDER BY created DESC LIMIT ?)",
                (hashed(link), hashed(link), _MAX_SESSIONS),
            )
            self._log(connection, records.SIGNED_IN, {"place": host})
        return session, key

    def sessions(self) -> list[SessionRow]:
        """Return every browser that is signed in, the latest first."""
        rows = self._db.rows(
            "SELECT session, name, place, s.created, s.expires FROM sessions AS s LEFT JOIN people "
            "AS p ON p.link = s.link WHERE s.expires > ? ORDER BY s.created DESC",
            (time.time(),),
        )
        return [SessionRow(session[:_SESSION_ID_LENGTH], *fields) for session, *fields in rows]

    def end_sessions(self, prefix: str) -> int:
        """End the sessions whose id begins with ``prefix``; returns how many. Links stay."""
        with self._db.transaction() as connection:
            n_ended = connection.execute(
                "DELETE FROM sessions WHERE expires > ? AND substr(session, 1, ?) = ?",
                (time.time(), len(prefix), prefix),
            ).rowcount
            if n_ended:
                self._log(connection, records.ENDED, {"id": prefix, "count": n_ended})
        return n_ended

    def session(self, session: str, host: str) -> StoredSession | None:
        """Return the session of a cookie; None if it has ended or belongs to another host."""
        with self._db.reading() as connection:
            row = connection.execute(
                "SELECT link, key, expires FROM sessions WHERE session = ? AND place = ? AND "
                "expires > ?",
                (hashed(session), host, time.time()),
            ).fetchone()
            if row is None:
                return None
            link, key, expires = row
            return StoredSession(link, key, expires, _person(connection, "link", link))

    def probe(self) -> None:
        """Write an expired session to check that an answer could be stored."""
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES ('probe', '', '', '', ?, 0)", (time.time(),)
            )

    def end_session(self, session: str) -> None:
        """End the session of a browser that signs out."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE session = ?", (hashed(session),))

    def _invited(self, connection: sqlite3.Connection, name: str) -> Person:
        """Return a person with a valid link, or raise an error."""
        person = _person(connection, "key", name_key(check_text(name, "The name")))
        if person is None or not person.invited:
            raise InputError(f"{name!r} has no link; `parbals team list` shows who has one.")
        return person

    def _log_role(self, connection: sqlite3.Connection, person: Person, role: str) -> None:
        if person.role != role:
            self._log(connection, records.ROLE, {"name": person.name, "role": [person.role, role]})


def _people(connection: sqlite3.Connection, condition: str, *values: str) -> list[Person]:
    rows = connection.execute(
        f"SELECT name, role, link IS NOT NULL, created, expires FROM people WHERE {condition}",
        values,
    )
    return [
        Person(
            name=name,
            role=role,
            invited=bool(has_link) and (expires is None or expires > time.time()),
            created=created,
            expires=expires,
        )
        for name, role, has_link, created, expires in rows
    ]


def _person(connection: sqlite3.Connection, column: str, value: str) -> Person | None:
    return next(iter(_people(connection, f"{column} = ?", value)), None)
