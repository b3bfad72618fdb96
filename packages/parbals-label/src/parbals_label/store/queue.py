"""The queue of the labelling page: chosen items wait here, and people get them on a lease.

A lease only keeps two people from doing the same work. An answer is stored with or without one, and
a lease that has run out puts its item back into the queue.
"""

from collections.abc import Sequence

from parbals_label.store.current import CURRENT_PASSES, PASSED, UNSEEN
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items
from parbals_label.store.leases import FREE, NOBODYS, Hand, give, room_for_newcomers, why_of
from parbals_label.store.newcomers import MOST_LEASES, most_queued
from parbals_label.store.records import Lease, QueueCounts, Why
from parbals_label.store.rows import check_position, check_text, moment
from parbals_label.store.settings import ProjectSettings

__all__ = ["Queue"]


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
            wanted = ProjectSettings.of(read_meta(connection)[0]).answers_wanted
            hand = Hand(connection, annotator, now, wanted)
            hand.keep(n)
            known = self._db.known_names(connection)
            room = n
            if annotator not in known:
                room = len(hand.given) + room_for_newcomers(connection, known, now)
            hand.draw(min(n, room))
            if len(hand.given) < n and room_for_newcomers(connection, known, now) <= 0:
                hand.take_over(n, known)
            return [
                give(connection, position, annotator, now + lease_seconds)
                for position in hand.given
            ]

    def renew(self, annotator: str, positions: Sequence[int], lease_seconds: float) -> list[int]:
        """Start the annotator's leases again; which of the positions are still theirs."""
        with self._db.transaction() as connection:
            n_items = count_items(connection)
            checked = [
                check_position(p, n_items, f"positions[{row}]") for row, p in enumerate(positions)
            ]
            expires = moment() + lease_seconds
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

    def restart_leases(self, lease_seconds: float) -> None:
        """Every lease of the page starts again: a clock may have jumped since it was given."""
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE leases SET expires = ? WHERE queued AND annotator IS NOT NULL",
                (moment() + lease_seconds,),
            )

    def room(self) -> int:
        """How many more items may be chosen for the page before somebody labels one."""
        with self._db.reading() as connection:
            known = self._db.known_names(connection)
            (n,) = connection.execute("SELECT count(*) FROM leases WHERE queued").fetchone()
            (last,) = connection.execute("SELECT coalesce(max(answer), 0) FROM answers").fetchone()
        return max(0, most_queued(last, len(known)) - n)

    def queue_counts(self, annotator: str | None = None) -> QueueCounts:
        """How many items wait, and how many are out, on the page."""
        with self._db.reading() as connection:
            asked = {"who": annotator, "now": moment()}
            (free,) = connection.execute(
                f"SELECT count(*) FROM leases WHERE {NOBODYS}", asked
            ).fetchone()
            (out,) = connection.execute(
                "SELECT count(*) FROM leases WHERE queued AND annotator IS NOT NULL AND expires > "
                ":now",
                asked,
            ).fetchone()
            ready = free
            if annotator is not None:
                (ready,) = connection.execute(
                    f"SELECT count(*) FROM leases WHERE {FREE}", asked
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
        now = moment()
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT position, annotator, expires, queued FROM leases ORDER BY position"
            )
            waiting, out = [], []
            for position, annotator, expires, queued in rows:
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
            return len(self._db.labelled(connection).union(position for (position,) in passed))

    def why(self, position: int) -> Why | None:
        """The item's place in the batch that chose it last; None if none did."""
        with self._db.reading() as connection:
            return why_of(connection, check_position(position, count_items(connection), "position"))
