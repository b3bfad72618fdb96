"""The queue of the labelling page: chosen items wait here, and people get them on a lease.

A lease only keeps two people from doing the same work. An answer is stored with or without one, and
a lease that has run out puts its item back into the queue.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import replace

from parbals.store.current import (
    CURRENT,
    CURRENT_PASSES,
    PASSED,
    UNSEEN,
    count_labels,
    has_label,
    has_passed,
)
from parbals.store.database import Database
from parbals.store.integrity import read_meta
from parbals.store.items import count_items
from parbals.store.records import Lease, QueueCounts, Why
from parbals.store.rows import check_position, check_text, from_json
from parbals.store.settings import ProjectSettings

__all__ = ["Queue", "held_lease", "lease_to", "why_of"]

_NOBODYS = "queued AND (annotator IS NULL OR expires <= :now)"
# Free for :who: in nobody's hands, neither answered nor passed by them.
_WHO = ("leases.position", ":who")
_FREE = f"{_NOBODYS} AND NOT {has_label(*_WHO)} AND NOT {has_passed(*_WHO)}"
_FREE_ONE = f"SELECT 1 FROM leases WHERE position = :position AND {_FREE}"


class Queue:
    """The part of the store that hands out items on the page."""

    _db: Database

    def take(self, annotator: str, n: int, lease_seconds: float) -> list[Lease]:
        """At most ``n`` items for an annotator, on leases that start now.

        First those the annotator has already (a reload shows the same items), then free ones in
        order of batch and rank that they have neither answered nor passed. Items in nobody's hands
        that have as many answers as are wanted leave the queue when they are met.
        """
        check_text(annotator, "annotator")
        moment = time.time()
        with self._db.transaction() as connection:
            wanted = ProjectSettings.of(read_meta(connection)[0]).answers_wanted
            given: list[int] = []
            for free in ("queued AND annotator = :who", f"{_NOBODYS} AND annotator IS NOT :who"):
                rows = connection.execute(
                    "SELECT leases.position, annotator FROM leases JOIN batch_items USING (batch, "
                    f"position) WHERE {free} ORDER BY batch, rank",
                    {"who": annotator, "now": moment},
                ).fetchall()
                for position, holder in rows:
                    if len(given) >= n:
                        break
                    # Asked of one row after the other: most are never reached.
                    mine = {"who": annotator, "now": moment, "position": position}
                    if holder != annotator and count_labels(connection, position) >= wanted:
                        # Answered by others while it was somebody's, who then left it; or fewer are
                        # wanted now.
                        connection.execute("DELETE FROM leases WHERE position = ?", (position,))
                    elif (
                        holder == annotator
                        or connection.execute(_FREE_ONE, mine).fetchone() is not None
                    ):
                        given.append(position)
            return [
                _lease(connection, position, annotator, moment + lease_seconds)
                for position in given
            ]

    def renew(self, annotator: str, positions: Sequence[int], lease_seconds: float) -> list[int]:
        """Start the annotator's leases again; which of the positions are still theirs."""
        with self._db.transaction() as connection:
            n_items = count_items(connection)
            checked = [
                check_position(p, n_items, f"positions[{row}]") for row, p in enumerate(positions)
            ]
            expires = time.time() + lease_seconds
            return [
                position
                for position in dict.fromkeys(checked)
                if connection.execute(
                    "UPDATE leases SET expires = ? WHERE position = ? AND annotator = ? AND queued",
                    (expires, position, annotator),
                ).rowcount
            ]

    def release(self, annotator: str, positions: Sequence[int]) -> int:
        """Put the annotator's items back into the queue; returns how many were theirs."""
        with self._db.transaction() as connection:
            n_items = count_items(connection)
            checked = [
                check_position(p, n_items, f"positions[{row}]") for row, p in enumerate(positions)
            ]
            return sum(
                connection.execute(
                    "UPDATE leases SET annotator = NULL, expires = NULL "
                    "WHERE position = ? AND annotator = ? AND queued",
                    (position, annotator),
                ).rowcount
                for position in dict.fromkeys(checked)
            )

    def queue_counts(self, annotator: str | None = None) -> QueueCounts:
        """How many items wait, and how many are out, on the page."""
        with self._db.reading() as connection:
            moment = {"who": annotator, "now": time.time()}
            (free,) = connection.execute(
                f"SELECT count(*) FROM leases WHERE {_NOBODYS}", moment
            ).fetchone()
            (out,) = connection.execute(
                "SELECT count(*) FROM leases WHERE queued AND annotator IS NOT NULL AND expires > "
                ":now",
                moment,
            ).fetchone()
            ready = free
            if annotator is not None:
                (ready,) = connection.execute(
                    f"SELECT count(*) FROM leases WHERE {_FREE}", moment
                ).fetchone()
        return QueueCounts(ready, free, out)

    def unseen(self) -> dict[str, list[int]]:
        """Positions that wait on the page and were not answered or passed by anybody yet.

        By the strategy that chose them; a better batch may take their place.
        """
        with self._db.reading() as connection:
            found: dict[str, list[int]] = {}
            for position, strategy in connection.execute(
                f"SELECT position, strategy FROM ({UNSEEN}) JOIN batches USING (batch)"
            ):
                found.setdefault(strategy, []).append(position)
        return found

    def queued(self) -> tuple[list[int], list[int]]:
        """Positions that wait on the page, and positions that are out: on the page or as a file."""
        moment = time.time()
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT position, annotator, expires, queued FROM leases ORDER BY position"
            )
            waiting, out = [], []
            for position, annotator, expires, queued in rows:
                if queued and (annotator is None or expires <= moment):
                    waiting.append(position)
                elif queued or expires is None or expires > moment:
                    out.append(position)
        return waiting, out

    def n_done(self) -> int:
        """How many items have a label or were passed."""
        with self._db.reading() as connection:
            return int(
                connection.execute(
                    f"SELECT count(*) FROM (SELECT position FROM ({CURRENT}) WHERE label IS NOT "
                    f"NULL UNION SELECT position FROM ({CURRENT_PASSES}) WHERE {PASSED})"
                ).fetchone()[0]
            )

    def why(self, position: int) -> Why | None:
        """The item's place in the batch that chose it last; None if none did."""
        with self._db.reading() as connection:
            return why_of(connection, check_position(position, count_items(connection), "position"))


def lease_to(
    connection: sqlite3.Connection, position: int, annotator: str, expires: float
) -> Lease:
    """Give an item to an annotator, unless it is with somebody else or was never in a batch."""
    why = why_of(connection, position)
    if why is not None:
        connection.execute(
            "INSERT INTO leases (position, batch, annotator, expires, queued) VALUES (?, ?, ?, ?, "
            "1) ON CONFLICT (position) DO UPDATE SET annotator = excluded.annotator, expires = "
            "excluded.expires, queued = 1 WHERE queued AND (annotator IS NULL OR annotator = "
            "excluded.annotator OR leases.expires <= ?)",
            (position, why.batch, annotator, expires, time.time()),
        )
    return Lease(position, expires, why)


def held_lease(connection: sqlite3.Connection, position: int, annotator: str) -> Lease:
    """An annotator's lease of an item as it is; where there is none, one that has run out."""
    row = connection.execute(
        "SELECT expires FROM leases WHERE position = ? AND annotator = ? AND queued",
        (position, annotator),
    ).fetchone()
    return Lease(position, time.time() if row is None else row[0], why_of(connection, position))


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
    similar = from_json(row[-1]).get("similar", {}).get(str(position))
    return replace(Why(*row[:-1]), similar=similar)


def _lease(connection: sqlite3.Connection, position: int, annotator: str, expires: float) -> Lease:
    connection.execute(
        "UPDATE leases SET annotator = ?, expires = ? WHERE position = ?",
        (annotator, expires, position),
    )
    return Lease(position, expires, why_of(connection, position))
