"""The people of a project: who has a link of their own, what they may do, and where they are in.

A link holds 32 random bytes. The project keeps only their hash, so that a copy of it opens nobody's
page; a session of a browser is kept in the same way, and is good for as long as its link is.
"""

import secrets
import sqlite3
import time
import unicodedata
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from parbals.errors import InputError
from parbals.wording import PROGRAM

from parbals_label.store import records
from parbals_label.store.records import Person, SessionRow
from parbals_label.store.rows import check_text, utc_now
from parbals_label.store.settings import Settings

__all__ = ["ANNOTATOR", "OWNER", "PREFIXES", "RESERVED", "Entry", "NotAssignedError", "People"]
__all__ += ["check_name", "hashed", "is_reserved", "look_key", "name_key"]

OWNER, ANNOTATOR = "owner", "annotator"
RESERVED = ("import",)
PREFIXES = (PROGRAM, "label-studio ")
"""Names, and beginnings of names, under which programs label and hold items."""
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that let a text be read in another order than it is written."""
_LOOKS = {
    **{"a": "430 3b1 251", "b": "432", "c": "441", "d": "501", "e": "435", "h": "4bb"},
    **{"i": "456 3b9 131", "j": "458 3f3", "k": "43a 3ba", "l": "4cf 31 7c 1c0", "m": "43c"},
    **{"o": "43e 3bf 30", "p": "440 3c1", "q": "51b", "s": "455", "t": "442 3c4", "u": "3c5"},
    **{"v": "3bd 475", "w": "51d", "x": "445 3c7", "y": "443 3b3"},
    **{"-": "2010 2011 2013 2014 2212", "'": "2019 2bc 60 b4"},
}
"""Letters of other scripts, digits and marks, by their numbers, that look like the key."""
_ALIKE = {int(code, 16): letter for letter, codes in _LOOKS.items() for code in codes.split()}
_LONGEST = 100
"""Characters of a name: it is shown in lists and buttons."""
_ID = 10
"""Letters of a session's hash that tell it from others."""
_MOST_SESSIONS = 1000
"""Browsers that one link is open in: far more than people have, and few enough to keep."""


class NotAssignedError(InputError):
    """A person asks for an item that is none of theirs."""


class Entry(NamedTuple):
    """A session as it is kept: ``link`` and ``key`` are hashes; ``person`` None is the page's link.

    ``key`` is the half of the secret that a browser keeps apart from its cookie.
    """

    link: str
    key: str
    expires: float
    person: Person | None


def hashed(secret: str) -> str:
    """What is kept of a secret; it is random and long, so that one round is enough."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def name_key(name: str) -> str:
    """Names with the same key are one name: compatible characters, capitals and spaces alike.

    Characters that nobody sees do not make a difference either.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
    return " ".join(seen.split())


def look_key(name: str) -> str:
    """Names with the same key look alike; accents count: Zoë and Zoe are two people."""
    return name_key(name).translate(_ALIKE)


def is_reserved(name: str) -> bool:
    """Whether programs label under this name."""
    key = name_key(name)
    return not key or key.startswith(PREFIXES) or key in RESERVED


def check_name(name: Any) -> str:
    """A name that a person may be invited by, without spaces around it."""
    text = " ".join(check_text(name, "The name").split())
    if len(text) > _LONGEST or any(unicodedata.category(c) == "Cc" or c in _TURNING for c in text):
        raise InputError(
            f"The name is {text[:_LONGEST]!r}; it must be at most {_LONGEST} characters that can "
            "be shown."
        )
    if is_reserved(text):
        raise InputError(f"The name is {text!r}, which programs use; choose another.")
    return text


class People(Settings):
    """The part of the store that holds people, their links and their sessions."""

    def invite(self, name: str, role: str = ANNOTATOR, days: float | None = None) -> str:
        """Give a person a link, for so many days; its secret, which nobody can find out again.

        Somebody who has one gets a new one in its place, and the role: the old link and its
        sessions stop working.
        """
        name = check_name(name)
        secret = secrets.token_urlsafe(32)
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
            detail |= {} if days is None else {"days": days}
            if before is None or not before.invited:
                self._log(connection, records.INVITED, detail)
            else:
                self._log(connection, records.NEW_LINK, detail)
                self._log_role(connection, before, role)
        return secret

    def check_looks(self, name: str) -> None:
        """Refuse a name that looks like somebody else's."""
        for other in (*(person.name for person in self.people()), *self.annotator_names()):
            if look_key(other) == look_key(name) and name_key(other) != name_key(name):
                raise InputError(f"The name {name!r} looks like {other!r}; choose another.")

    def set_role(self, name: str, role: str) -> None:
        """Make an invited person an owner or an annotator; their link stays."""
        with self._db.transaction() as connection:
            person = self._invited(connection, name)
            connection.execute("UPDATE people SET role = ? WHERE key = ?", (role, name_key(name)))
            self._log_role(connection, person, role)

    def revoke(self, name: str) -> str:
        """End a person's link and sessions; their labels stay. Returns the name as it is kept."""
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
        """End every link and every session, the page's own too; the names of those who had one."""
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
        """Everybody who was ever invited, by name."""
        with self._db.reading() as connection:
            return _people(connection, "true ORDER BY key")

    def annotator_names(self) -> list[str]:
        """Everybody who ever answered or passed, in the order in which they came."""
        rows = self._db.rows(
            "SELECT annotator FROM (SELECT annotator, created FROM answers UNION ALL SELECT "
            "annotator, created FROM passes) GROUP BY annotator ORDER BY min(created)"
        )
        return [name for (name,) in rows]

    def check_assigned(self, positions: Iterable[int], name: str | None) -> None:
        """Refuse items that a person was never given, nor has answered or passed.

        Nobody (None) is refused none.
        """
        theirs = " UNION ALL ".join(
            f"SELECT 1 FROM {table} WHERE position = :position AND annotator = :name"
            for table in ("given", "leases", "answers", "passes")
        )
        with self._db.reading() as connection:
            for position in positions if name is not None else ():
                asked = {"position": position, "name": name}
                if connection.execute(f"{theirs} LIMIT 1", asked).fetchone() is None:
                    raise NotAssignedError(
                        "Annotators see and label the items that they were given."
                    )

    def person_of(self, secret: str) -> Person | None:
        """Whose link this is."""
        with self._db.reading() as connection:
            return _person(connection, "link", hashed(secret))

    def person_named(self, name: str) -> Person | None:
        """An invited person; None also for one whose link was revoked."""
        with self._db.reading() as connection:
            person = _person(connection, "key", name_key(name))
        return person if person is not None and person.invited else None

    def start_session(self, link: str, place: str, seconds: float) -> tuple[str, str]:
        """A browser came in by a link at a place: the two secrets that it will show from now on."""
        session, key, moment = secrets.token_urlsafe(32), secrets.token_urlsafe(32), time.time()
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE expires <= ?", (moment,))
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
                (hashed(session), hashed(key), hashed(link), place, moment, moment + seconds),
            )
            connection.execute(
                "DELETE FROM sessions WHERE link = ? AND session NOT IN (SELECT session FROM "
                "sessions WHERE link = ? ORDER BY created DESC LIMIT ?)",
                (hashed(link), hashed(link), _MOST_SESSIONS),
            )
            self._log(connection, records.SIGNED_IN, {"place": place})
        return session, key

    def sessions(self) -> list[SessionRow]:
        """Every browser that is signed in, the latest first."""
        rows = self._db.rows(
            "SELECT session, name, place, s.created, s.expires FROM sessions AS s LEFT JOIN people "
            "AS p ON p.link = s.link WHERE s.expires > ? ORDER BY s.created DESC",
            (time.time(),),
        )
        return [SessionRow(session[:_ID], *rest) for session, *rest in rows]

    def end_sessions(self, start: str) -> int:
        """End the sessions whose id begins so; their links stay. How many there were."""
        with self._db.transaction() as connection:
            ended = connection.execute(
                "DELETE FROM sessions WHERE expires > ? AND substr(session, 1, ?) = ?",
                (time.time(), len(start), start),
            ).rowcount
            if ended:
                self._log(connection, records.ENDED, {"id": start, "count": ended})
        return ended

    def session(self, session: str, place: str) -> Entry | None:
        """The session that a browser shows, unless it has ended, or was begun elsewhere."""
        with self._db.reading() as connection:
            row = connection.execute(
                "SELECT link, key, expires FROM sessions WHERE session = ? AND place = ? AND "
                "expires > ?",
                (hashed(session), place, time.time()),
            ).fetchone()
            if row is None:
                return None
            link, key, expires = row
            return Entry(link, key, expires, _person(connection, "link", link))

    def probe(self) -> None:
        """Write a session that has ended already, and flush it: would an answer be stored now?"""
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES ('probe', '', '', '', ?, 0)", (time.time(),)
            )

    def end_session(self, session: str) -> None:
        """The browser has signed out."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE session = ?", (hashed(session),))

    def _invited(self, connection: sqlite3.Connection, name: str) -> Person:
        person = _person(connection, "key", name_key(check_text(name, "The name")))
        if person is None or not person.invited:
            raise InputError(f"{name!r} has no link; `parbals team list DIR` lists who has one.")
        return person

    def _log_role(self, connection: sqlite3.Connection, person: Person, role: str) -> None:
        if person.role != role:
            self._log(connection, records.ROLE, {"name": person.name, "role": [person.role, role]})


def _people(connection: sqlite3.Connection, which: str, *values: str) -> list[Person]:
    rows = connection.execute(
        f"SELECT name, role, link IS NOT NULL, created, expires FROM people WHERE {which}", values
    )
    return [
        Person(name, role, bool(link) and (end is None or end > time.time()), created, end)
        for name, role, link, created, end in rows
    ]


def _person(connection: sqlite3.Connection, column: str, value: str) -> Person | None:
    return next(iter(_people(connection, f"{column} = ?", value)), None)
