"""Leases of the page's items, inside a transaction: who has what, and why it was chosen."""

import sqlite3
from dataclasses import replace

from parbals_label.store.current import count_labels, has_label, has_passed
from parbals_label.store.items import count_items
from parbals_label.store.newcomers import MOST_LEASES, most_of_newcomers
from parbals_label.store.records import Lease, Why
from parbals_label.store.rows import from_json, moment

__all__ = [
    "FREE",
    "NOBODYS",
    "Hand",
    "give",
    "held_lease",
    "lease_to",
    "room_for_newcomers",
    "why_of",
]

NOBODYS = "queued AND (annotator IS NULL OR expires <= :now)"
"""A condition: the item waits on the page, and is in nobody's hands."""
_WHO = ("leases.position", ":who")
_NEW = f"NOT {has_label(*_WHO)} AND NOT {has_passed(*_WHO)}"
FREE = f"{NOBODYS} AND {_NEW}"
"""A condition: besides, :who has neither answered nor passed it."""
_NEW_ONE = f"SELECT 1 FROM leases WHERE position = :position AND {_NEW}"


class Hand:
    """The items that an annotator is given, in order."""

    def __init__(
        self, connection: sqlite3.Connection, annotator: str, now: float, wanted: int
    ) -> None:
        self.connection, self.annotator, self.wanted = connection, annotator, wanted
        self.asked = {"who": annotator, "now": now}
        self.given: list[int] = []

    def keep(self, n: int) -> None:
        """What they have already."""
        self.given += [p for p, _ in self._rows("queued AND annotator = :who")[:n]]

    def draw(self, n: int) -> None:
        """Free items, until there are ``n``."""
        if len(self.given) >= n:
            return
        for position, _ in self._rows(f"{NOBODYS} AND annotator IS NOT :who"):
            if len(self.given) >= n:
                return
            # Asked of one row after the other: most are never reached.
            if count_labels(self.connection, position) >= self.wanted:
                # Answered by others while it was somebody's, who then left it; or fewer are wanted
                # now.
                self.connection.execute("DELETE FROM leases WHERE position = ?", (position,))
            elif self._is_new(position):
                self.given.append(position)

    def take_over(self, n: int, known: set[str]) -> None:
        """Items of newcomers, until there are ``n``."""
        theirs = "queued AND annotator IS NOT NULL AND annotator <> :who AND expires > :now"
        for position, holder in self._rows(theirs, "expires, batch, rank"):
            if len(self.given) >= n:
                return
            if holder not in known and self._is_new(position):
                self.given.append(position)

    def _rows(self, condition: str, order: str = "batch, rank") -> list[tuple[int, str]]:
        return self.connection.execute(
            "SELECT leases.position, annotator FROM leases JOIN batch_items USING (batch, "
            f"position) WHERE {condition} ORDER BY {order}",
            self.asked,
        ).fetchall()

    def _is_new(self, position: int) -> bool:
        """They have neither answered nor passed it."""
        asked = {**self.asked, "position": position}
        return self.connection.execute(_NEW_ONE, asked).fetchone() is not None


def room_for_newcomers(connection: sqlite3.Connection, known: set[str], now: float) -> int:
    """How many more items newcomers may have, all together."""
    rows = connection.execute(
        "SELECT annotator, count(*) FROM leases WHERE queued AND annotator IS NOT NULL AND expires "
        "> ? GROUP BY annotator",
        (now,),
    )
    held = sum(count for name, count in rows if name not in known)
    return most_of_newcomers(count_items(connection)) - held


def lease_to(
    connection: sqlite3.Connection, position: int, annotator: str, expires: float
) -> Lease:
    """Give an item to an annotator, unless it is with somebody else or was never in a batch.

    Who has as many as one person may have gets no more: the item waits for anybody.
    """
    why = why_of(connection, position)
    (n,) = connection.execute(
        "SELECT count(*) FROM leases WHERE queued AND annotator = ? AND position <> ?",
        (annotator, position),
    ).fetchone()
    if why is not None and n >= MOST_LEASES:
        connection.execute(
            "INSERT INTO leases (position, batch, queued) VALUES (?, ?, 1) ON CONFLICT DO NOTHING",
            (position, why.batch),
        )
        return Lease(position, moment(), why)
    if why is not None:
        connection.execute(
            "INSERT INTO leases (position, batch, annotator, expires, queued) VALUES (?, ?, ?, ?, "
            "1) ON CONFLICT (position) DO UPDATE SET annotator = excluded.annotator, expires = "
            "excluded.expires, queued = 1 WHERE queued AND (annotator IS NULL OR annotator = "
            "excluded.annotator OR leases.expires <= ?)",
            (position, why.batch, annotator, expires, moment()),
        )
    return Lease(position, expires, why)


def held_lease(connection: sqlite3.Connection, position: int, annotator: str) -> Lease:
    """An annotator's lease of an item as it is; where there is none, one that has run out."""
    row = connection.execute(
        "SELECT expires FROM leases WHERE position = ? AND annotator = ? AND queued",
        (position, annotator),
    ).fetchone()
    return Lease(position, moment() if row is None else row[0], why_of(connection, position))


def why_of(connection: sqlite3.Connection, position: int) -> Why | None:
    """As ``Queue.why``, inside a transaction."""
    row = connection.execute(
        "SELECT batch, rank, (SELECT count(*) FROM batch_items AS b WHERE b.batch = i.batch), "
        "score, initial_score, strategy, settings FROM batch_items AS i JOIN batches USING (batch) "
        "WHERE position = ? ORDER BY batch DESC LIMIT 1",
        (position,),
    ).fetchone()
    if row is None:
        return None
    similar = from_json(row[-1], dict).get("similar", {})
    count = similar.get(str(position)) if isinstance(similar, dict) else None
    return replace(Why(*row[:-1]), similar=count if isinstance(count, int) else None)


def give(connection: sqlite3.Connection, position: int, annotator: str, expires: float) -> Lease:
    """Make an item of the page the annotator's."""
    connection.execute(
        "UPDATE leases SET annotator = ?, expires = ? WHERE position = ?",
        (annotator, expires, position),
    )
    return Lease(position, expires, why_of(connection, position))
