"""The queue of the labelling page: chosen items wait here, and people get them on a lease.

A lease only keeps two people from doing the same work. An answer is stored with or without one, and
a lease that has run out puts its item back into the queue.

Newcomers are names that have never labelled anything: anybody with the link can invent them by the
thousand. Together they may hold so many items and no more. Nobody is locked out by that: where it
is reached, who asks gets an item that a newcomer has, and both may answer it.
"""

import sqlite3
from collections.abc import Callable, Sequence

from parbals_label.store.current import (
    CURRENT_PASSES,
    PASSED,
    UNSEEN,
    count_labels,
    has_label,
    has_passed,
)
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import check_positions, count_items
from parbals_label.store.records import Lease, QueueCounts, Why
from parbals_label.store.rows import check_position, check_text, moment, now
from parbals_label.store.settings import ProjectSettings, write_meta

__all__ = ["MOST_LEASES", "SECOND_OPINION", "Queue", "held_lease", "lease_to", "most_of_newcomers"]

SECOND_OPINION = "second opinion"
"""What stands for a strategy where an item that nobody chose is asked for again."""
MOST_LEASES = 20
"""Items of the page that one person may have in hand: more than a page shows at once."""
_NEWCOMERS, _SMALL = 200, 10
"""Items that newcomers may have together in a large pool, and in any: ten people's pages, one's."""
_EACH, _AHEAD = 10, 2
"""Items that may wait on the page for every person who labels, and for every answer given."""

NOBODYS = "queued AND (annotator IS NULL OR expires <= :now)"
"""A condition: the item waits on the page, and is in nobody's hands."""
_WHO = ("leases.position", ":who")
_NEW = f"NOT {has_label(*_WHO)} AND NOT {has_passed(*_WHO)}"
OUT = "queued AND annotator IS NOT NULL AND expires > :now"
"""A condition: it is in somebody's hands."""
FREE = f"{NOBODYS} AND {_NEW}"
"""A condition: besides, :who has neither answered nor passed it."""
_NEW_ONE = f"SELECT 1 FROM leases WHERE position = :position AND {_NEW}"


class Queue:
    """The part of the store that hands out items on the page."""

    _db: Database

    def take(self, annotator: str, n: int, lease_seconds: float) -> list[Lease]:
        """At most ``n`` items for an annotator, on leases that start now; never more than 20.

        First those the annotator has already (a reload shows the same items), then free ones in
        order of batch and rank that they have neither answered nor passed. Items in nobody's hands
        that have as many answers as are wanted leave the queue when they are met. Where newcomers
        have as many items as they may, theirs come next, those whose time ends first.
        """
        check_text(annotator, "annotator")
        now, n = moment(), min(n, MOST_LEASES)
        with self._db.transaction() as connection:
            wanted = ProjectSettings.of(read_meta(connection)[0]).wanted_of
            hand = Hand(connection, annotator, now, wanted)
            hand.keep(n)
            known = self._db.answered(connection).names
            room = n
            if annotator not in known:
                room = len(hand.given) + room_for_newcomers(connection, known, now)
            hand.draw(min(n, room))
            if len(hand.given) < n and room_for_newcomers(connection, known, now) <= 0:
                hand.take_over(n, known)
            expires = now + lease_seconds
            for position in hand.given:
                connection.execute(
                    "UPDATE leases SET annotator = ?, expires = ? WHERE position = ?",
                    (annotator, expires, position),
                )
                connection.execute(
                    "INSERT OR IGNORE INTO given VALUES (?, ?)", (position, annotator)
                )
            return [Lease(p, expires, why_of(connection, p)) for p in hand.given]

    def renew(self, annotator: str, positions: Sequence[int], lease_seconds: float) -> list[int]:
        """Start the annotator's leases again; which of the positions are still theirs."""
        return self._change(annotator, positions, annotator, moment() + lease_seconds)

    def release(self, annotator: str, positions: Sequence[int]) -> int:
        """Put the annotator's items back into the queue; returns how many were theirs."""
        return len(self._change(annotator, positions, None, None))

    def _change(
        self, annotator: str, positions: Sequence[int], holder: str | None, expires: float | None
    ) -> list[int]:
        """Write a new holder and end of the annotator's leases; which of the items were theirs."""
        with self._db.transaction() as connection:
            return [
                position
                for position in dict.fromkeys(check_positions(connection, positions))
                if connection.execute(
                    "UPDATE leases SET annotator = ?, expires = ? WHERE position = ? AND annotator "
                    "= ? AND queued",
                    (holder, expires, position, annotator),
                ).rowcount
            ]

    def release_all(self, annotator: str | None = None) -> int:
        """Give back every item that is out with the annotator, or with anybody; how many.

        Those of the page wait there again; those that are out as a file or with a program may be
        chosen again. An answer that still comes counts as ever.
        """
        theirs = "" if annotator is None else " AND annotator = :who"
        with self._db.transaction() as connection:
            return sum(
                connection.execute(statement + theirs, {"who": annotator}).rowcount
                for statement in (
                    "DELETE FROM leases WHERE NOT queued",
                    "UPDATE leases SET annotator = NULL, expires = NULL WHERE queued AND annotator "
                    "IS NOT NULL",
                )
            )

    def ask_again(self, position: int) -> None:
        """One more person is to label an item: it waits on the page for who has not."""
        with self._db.transaction() as connection:
            (position,) = check_positions(connection, [position])
            settings = ProjectSettings.of(read_meta(connection)[0])
            wanted = max(count_labels(connection, position) + 1, settings.answers_wanted)
            again = {**dict(settings.again), position: wanted}
            write_meta(connection, self._db.project, {"again": sorted(again.items())})
            why = why_of(connection, position)
            batch = None if why is None else why.batch
            if batch is None:  # nobody chose it: its label came with the data
                batch = connection.execute(
                    "INSERT INTO batches (created, strategy, settings) VALUES (?, ?, '{}')",
                    (now(), SECOND_OPINION),
                ).lastrowid
                row = (batch, position, 0, None, None)
                connection.execute("INSERT INTO batch_items VALUES (?, ?, ?, ?, ?)", row)
            connection.execute(
                "INSERT INTO leases (position, batch, queued) VALUES (?, ?, 1) ON CONFLICT DO "
                "NOTHING",
                (position, batch),
            )

    def restart_leases(self, lease_seconds: float) -> None:
        """Every lease of the page starts again: a clock may have jumped since it was given."""
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE leases SET expires = ? WHERE queued AND annotator IS NOT NULL",
                (moment() + lease_seconds,),
            )

    def room(self) -> int:
        """How many more items may be chosen for the page: more with every label and person."""
        with self._db.reading() as connection:
            known = self._db.answered(connection).names
            (n,) = connection.execute("SELECT count(*) FROM leases WHERE queued").fetchone()
            (last,) = connection.execute("SELECT coalesce(max(answer), 0) FROM answers").fetchone()
        return max(0, _NEWCOMERS + _EACH * len(known) + _AHEAD * last - n)

    def queue_counts(self, annotator: str | None = None) -> QueueCounts:
        """How many items wait, and how many are out, on the page."""
        asked = {"who": annotator, "now": moment()}
        which = (NOBODYS if annotator is None else FREE, NOBODYS, OUT)
        counts = [self._db.rows(f"SELECT count(*) FROM leases WHERE {one}", asked) for one in which]
        return QueueCounts(*(count for ((count,),) in counts))

    def unseen(self) -> dict[str, list[int]]:
        """Positions that wait on the page and were not answered or passed by anybody yet.

        By the strategy that chose them; a better batch may take their place.
        """
        found: dict[str, list[int]] = {}
        for position, _, strategy in self._db.rows(UNSEEN):
            found.setdefault(strategy, []).append(position)
        return found

    def queued(self) -> tuple[list[int], list[int]]:
        """Positions that wait on the page, and positions that are out: on the page or as a file."""
        now, waiting, out = moment(), [], []
        for position, annotator, expires, queued in self._db.rows(
            "SELECT position, annotator, expires, queued FROM leases ORDER BY position"
        ):
            if queued and (annotator is None or expires <= now):
                waiting.append(position)
            elif queued or expires is None or expires > now:
                out.append(position)
        return waiting, out

    def n_done(self) -> int:
        """How many items have a label or were passed."""
        with self._db.reading() as connection:
            passed = connection.execute(
                f"SELECT position FROM ({CURRENT_PASSES}) WHERE {PASSED}"
            ).fetchall()
            labelled = self._db.answered(connection).labelled
        return len(labelled.union(position for (position,) in passed))

    def why(self, position: int) -> Why | None:
        """The item's place in the batch that chose it last; None if none did."""
        with self._db.reading() as connection:
            return why_of(connection, check_position(position, count_items(connection), "position"))


class Hand:
    """The items that an annotator is given, in order."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        annotator: str,
        now: float,
        wanted: Callable[[int], int],
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
            if count_labels(self.connection, position) >= self.wanted(position):
                # Answered by others while it was somebody's, who then left it; or fewer are wanted
                # now.
                self.connection.execute("DELETE FROM leases WHERE position = ?", (position,))
            elif self._is_new(position):
                self.given.append(position)

    def take_over(self, n: int, known: set[str]) -> None:
        """Items of newcomers, until there are ``n``."""
        for position, holder in self._rows(f"{OUT} AND annotator <> :who", "expires, batch, rank"):
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


def most_of_newcomers(n_items: int) -> int:
    """Items that all newcomers together may have: half of a small pool, 200 of a large one."""
    return min(_NEWCOMERS, max(_SMALL, n_items // 2))


def room_for_newcomers(connection: sqlite3.Connection, known: set[str], now: float) -> int:
    """How many more items newcomers may have, all together."""
    rows = connection.execute(f"SELECT annotator FROM leases WHERE {OUT}", {"now": now})
    held = sum(name not in known for (name,) in rows)
    return most_of_newcomers(count_items(connection)) - held


def lease_to(
    connection: sqlite3.Connection, position: int, annotator: str, expires: float
) -> Lease:
    """Give an item to an annotator, unless it is with somebody else or was never in a batch.

    An annotator at the limit gets no more items; this one goes back to the queue.
    """
    why = why_of(connection, position)
    if why is None:
        return Lease(position, expires, why)
    connection.execute(
        "INSERT INTO leases (position, batch, queued) VALUES (?, ?, 1) ON CONFLICT DO NOTHING",
        (position, why.batch),
    )
    (n,) = connection.execute(
        "SELECT count(*) FROM leases WHERE queued AND annotator = ? AND position <> ?",
        (annotator, position),
    ).fetchone()
    if n >= MOST_LEASES:
        return Lease(position, moment(), why)
    asked = {"who": annotator, "expires": expires, "position": position, "now": moment()}
    connection.execute(
        "UPDATE leases SET annotator = :who, expires = :expires WHERE position = :position AND "
        f"({NOBODYS} OR queued AND annotator = :who)",
        asked,
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
        "score, initial_score, strategy FROM batch_items AS i JOIN batches USING (batch) WHERE "
        "position = ? ORDER BY batch DESC LIMIT 1",
        (position,),
    ).fetchone()
    return None if row is None else Why(*row)
