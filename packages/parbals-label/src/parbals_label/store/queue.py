"""The queue of the labelling page: chosen items wait here and are leased to annotators.

A lease only prevents two people from labelling the same item at the same time. An answer is stored
with or without a lease, and an expired lease puts its item back into the queue.

Newcomers are names that have never labelled anything. Anybody with the link can invent thousands
of them, so all newcomers together may hold only a limited number of items. Nobody is locked out:
at the limit, an annotator gets an item that a newcomer holds, and both may answer it.
"""

import sqlite3
from collections.abc import Callable, Sequence

from parbals_label.store.current import (
    CURRENT_PASSES,
    PASSED,
    UNOPENED,
    count_labels,
    has_label,
    has_passed,
)
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import check_positions, count_items
from parbals_label.store.records import Lease, QueueCounts, Why
from parbals_label.store.rows import check_position, check_text, lease_clock, utc_now
from parbals_label.store.settings import ProjectSettings, write_meta

__all__ = ["MAX_LEASES", "SECOND_OPINION", "Queue", "current_lease", "lease_to", "newcomer_limit"]

SECOND_OPINION = "second opinion"
"""Strategy of the batch of an item that no strategy chose and that needs one more label."""
MAX_LEASES = 20
"""Items that one person may hold on the page: more than a page shows at once."""
_MAX_NEWCOMER_LEASES = 200
"""Items that all newcomers together may hold in a large pool: as many as ten people."""
_MIN_NEWCOMER_LEASES = 10
"""Items that they may hold in a small pool: as many as a page takes in one request."""
_QUEUED_PER_ANNOTATOR = 10
"""Items that may be queued for every person who labels."""
_QUEUED_PER_ANSWER = 2
"""Items that may be queued for every answer."""

# Conditions on a row of ``leases``, with the parameters :now and :who. Every item in the queue has
# such a row; its annotator is who holds the item, or held it until the lease expired.
WAITING_SQL = "queued AND (annotator IS NULL OR expires <= :now)"
"""The item is in the queue, and nobody holds it: it has no annotator, or the lease has expired."""
ASSIGNED_SQL = "queued AND annotator IS NOT NULL AND expires > :now"
"""The item is in the queue, and an annotator holds it."""
_ITEM_AND_WHO = ("leases.position", ":who")
_UNANSWERED_SQL = f"NOT {has_label(*_ITEM_AND_WHO)} AND NOT {has_passed(*_ITEM_AND_WHO)}"
"""The annotator :who has neither labelled nor skipped the item."""
AVAILABLE_SQL = f"{WAITING_SQL} AND {_UNANSWERED_SQL}"
"""The item is waiting and can be assigned to :who."""
_IS_UNANSWERED = f"SELECT 1 FROM leases WHERE position = :position AND {_UNANSWERED_SQL}"


class Queue:
    """The part of the store that assigns items on the page."""

    _db: Database

    def take(self, annotator: str, n: int, lease_seconds: float) -> list[Lease]:
        """Assign up to ``n`` items to an annotator, at most ``MAX_LEASES``; the leases start now.

        Items that the annotator already holds come first, so that a reload shows the same items.
        Waiting items that the annotator has neither labelled nor skipped follow, by batch and
        rank; those that already have enough answers leave the queue. If these are fewer than ``n``
        and newcomers have reached their limit, items that newcomers hold follow, in the order in
        which their leases expire.
        """
        check_text(annotator, "annotator")
        n = min(n, MAX_LEASES)
        now = lease_clock()
        with self._db.transaction() as connection:
            answers_wanted = ProjectSettings.of(read_meta(connection)[0]).wanted_of
            assignment = LeaseAssignment(connection, annotator, now, answers_wanted)
            assignment.keep_current(n)
            experienced = self._db.answered(connection).names
            limit = n
            if annotator not in experienced:
                capacity = newcomer_capacity(connection, experienced, now)
                limit = min(n, len(assignment.positions) + capacity)
            assignment.assign_available(limit)
            is_short = len(assignment.positions) < n
            if is_short and newcomer_capacity(connection, experienced, now) <= 0:
                assignment.take_over_from_newcomers(n, experienced)
            expires = now + lease_seconds
            for position in assignment.positions:
                connection.execute(
                    "UPDATE leases SET annotator = ?, expires = ? WHERE position = ?",
                    (annotator, expires, position),
                )
                # Remembered for ever: an answer may come after the lease has ended.
                connection.execute(
                    "INSERT OR IGNORE INTO given VALUES (?, ?)", (position, annotator)
                )
            return [
                Lease(position=position, expires=expires, why=why_of(connection, position))
                for position in assignment.positions
            ]

    def renew(self, annotator: str, positions: Sequence[int], lease_seconds: float) -> list[int]:
        """Extend the annotator's leases; returns the positions that are still theirs."""
        expires = lease_clock() + lease_seconds
        return self._update_leases(annotator, positions, holder=annotator, expires=expires)

    def release(self, annotator: str, positions: Sequence[int]) -> int:
        """Put the annotator's items back into the queue; returns how many were theirs."""
        return len(self._update_leases(annotator, positions, holder=None, expires=None))

    def _update_leases(
        self, annotator: str, positions: Sequence[int], *, holder: str | None, expires: float | None
    ) -> list[int]:
        """Change holder and expiry of the annotator's leases; returns their positions."""
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
        """Release every item assigned to the annotator, or to anybody if None; returns how many.

        Items of the page wait there again. Items that were handed out as a file or to a program
        may be chosen again. A late answer is still stored.
        """
        by_annotator = "" if annotator is None else " AND annotator = :who"
        statements = (
            "DELETE FROM leases WHERE NOT queued",
            "UPDATE leases SET annotator = NULL, expires = NULL WHERE queued AND annotator IS NOT "
            "NULL",
        )
        n_released = 0
        with self._db.transaction() as connection:
            for statement in statements:
                cursor = connection.execute(statement + by_annotator, {"who": annotator})
                n_released += cursor.rowcount
        return n_released

    def ask_again(self, position: int) -> None:
        """Request one more label; queue the item for annotators who have not labelled it."""
        with self._db.transaction() as connection:
            (position,) = check_positions(connection, [position])
            settings = ProjectSettings.of(read_meta(connection)[0])
            n_wanted = max(count_labels(connection, position) + 1, settings.answers_wanted)
            again = {**dict(settings.again), position: n_wanted}
            write_meta(connection, self._db.project, {"again": sorted(again.items())})
            why = why_of(connection, position)
            batch = None if why is None else why.batch
            if batch is None:  # no strategy chose it: its label came with the data
                batch = connection.execute(
                    "INSERT INTO batches (created, strategy, settings) VALUES (?, ?, '{}')",
                    (utc_now(), SECOND_OPINION),
                ).lastrowid
                row = (batch, position, 0, None, None)
                connection.execute("INSERT INTO batch_items VALUES (?, ?, ?, ?, ?)", row)
            connection.execute(
                "INSERT INTO leases (position, batch, queued) VALUES (?, ?, 1) ON CONFLICT DO "
                "NOTHING",
                (position, batch),
            )

    def restart_leases(self, lease_seconds: float) -> None:
        """Restart every lease of the page, in case the clock has jumped since it began."""
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE leases SET expires = ? WHERE queued AND annotator IS NOT NULL",
                (lease_clock() + lease_seconds,),
            )

    def queue_capacity(self) -> int:
        """Return how many more items may be queued; it grows with every answer and annotator."""
        with self._db.reading() as connection:
            n_annotators = len(self._db.answered(connection).names)
            (n_queued,) = connection.execute("SELECT count(*) FROM leases WHERE queued").fetchone()
            # Answers are numbered from 1 and never deleted.
            (n_answers,) = connection.execute(
                "SELECT coalesce(max(answer), 0) FROM answers"
            ).fetchone()
        capacity = (
            _MAX_NEWCOMER_LEASES
            + _QUEUED_PER_ANNOTATOR * n_annotators
            + _QUEUED_PER_ANSWER * n_answers
        )
        return max(0, capacity - n_queued)

    def queue_counts(self, annotator: str | None = None) -> QueueCounts:
        """Count items of the page: available to this annotator, waiting, assigned to anybody."""
        available_sql = WAITING_SQL if annotator is None else AVAILABLE_SQL
        return QueueCounts(
            available=self._count_leases(available_sql, annotator),
            waiting=self._count_leases(WAITING_SQL, annotator),
            assigned=self._count_leases(ASSIGNED_SQL, annotator),
        )

    def _count_leases(self, condition: str, annotator: str | None) -> int:
        parameters = {"who": annotator, "now": lease_clock()}
        ((count,),) = self._db.rows(f"SELECT count(*) FROM leases WHERE {condition}", parameters)
        return int(count)

    def unopened(self) -> dict[str, list[int]]:
        """Return strategy → positions in the queue that nobody holds, or has labelled or skipped.

        A better batch may replace them.
        """
        positions: dict[str, list[int]] = {}
        for position, _, strategy in self._db.rows(UNOPENED):
            positions.setdefault(strategy, []).append(position)
        return positions

    def queued(self) -> tuple[list[int], list[int]]:
        """Return the positions that wait on the page, and all that are assigned, there or not."""
        now = lease_clock()
        waiting = []
        assigned = []
        for position, annotator, expires, queued in self._db.rows(
            "SELECT position, annotator, expires, queued FROM leases ORDER BY position"
        ):
            if queued and (annotator is None or expires <= now):
                waiting.append(position)
            elif queued or expires is None or expires > now:
                assigned.append(position)
        return waiting, assigned

    def n_completed(self) -> int:
        """Return how many items have a label or were skipped."""
        with self._db.reading() as connection:
            skipped = connection.execute(
                f"SELECT position FROM ({CURRENT_PASSES}) WHERE {PASSED}"
            ).fetchall()
            labelled = self._db.answered(connection).labelled
        return len(labelled.union(position for (position,) in skipped))

    def why(self, position: int) -> Why | None:
        """Return the rank and score of an item in its latest batch; None if it was in none."""
        with self._db.reading() as connection:
            return why_of(connection, check_position(position, count_items(connection), "position"))


class LeaseAssignment:
    """Collects the ``positions`` that one call of ``Queue.take`` assigns, in order."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        annotator: str,
        now: float,
        answers_wanted: Callable[[int], int],
    ) -> None:
        self.connection = connection
        self.annotator = annotator
        self.answers_wanted = answers_wanted
        self.positions: list[int] = []
        self._parameters = {"who": annotator, "now": now}

    def keep_current(self, n: int) -> None:
        """Keep up to ``n`` items that the annotator already holds."""
        rows = self._leases("queued AND annotator = :who")
        self.positions += [position for position, _ in rows[:n]]

    def assign_available(self, n: int) -> None:
        """Add available items until there are ``n``."""
        if len(self.positions) >= n:
            return
        for position, _ in self._leases(f"{WAITING_SQL} AND annotator IS NOT :who"):
            if len(self.positions) >= n:
                return
            # Checked row by row, because most rows are never reached.
            if count_labels(self.connection, position) >= self.answers_wanted(position):
                # Others answered it while it was assigned to somebody who then left; or the number
                # of answers wanted was lowered.
                self.connection.execute("DELETE FROM leases WHERE position = ?", (position,))
            elif self._is_unanswered(position):
                self.positions.append(position)

    def take_over_from_newcomers(self, n: int, experienced: set[str]) -> None:
        """Add items that newcomers hold, until there are ``n``."""
        order = "expires, batch, rank"
        for position, holder in self._leases(f"{ASSIGNED_SQL} AND annotator <> :who", order):
            if len(self.positions) >= n:
                return
            if holder not in experienced and self._is_unanswered(position):
                self.positions.append(position)

    def _leases(self, condition: str, order: str = "batch, rank") -> list[tuple[int, str]]:
        """Return position and holder of the leases that meet a condition."""
        return self.connection.execute(
            "SELECT leases.position, annotator FROM leases JOIN batch_items USING (batch, "
            f"position) WHERE {condition} ORDER BY {order}",
            self._parameters,
        ).fetchall()

    def _is_unanswered(self, position: int) -> bool:
        """Whether the annotator has neither labelled nor skipped the item."""
        parameters = {**self._parameters, "position": position}
        return self.connection.execute(_IS_UNANSWERED, parameters).fetchone() is not None


def newcomer_limit(n_items: int) -> int:
    """Return how many items all newcomers together may hold: half the pool, from 10 to 200."""
    return min(_MAX_NEWCOMER_LEASES, max(_MIN_NEWCOMER_LEASES, n_items // 2))


def newcomer_capacity(connection: sqlite3.Connection, experienced: set[str], now: float) -> int:
    """Return how many more items all newcomers together may hold; negative beyond the limit."""
    holders = connection.execute(f"SELECT annotator FROM leases WHERE {ASSIGNED_SQL}", {"now": now})
    n_held = sum(name not in experienced for (name,) in holders)
    return newcomer_limit(count_items(connection)) - n_held


def lease_to(
    connection: sqlite3.Connection, position: int, annotator: str, expires: float
) -> Lease:
    """Lease an item to an annotator, unless somebody else holds it or it was never in a batch.

    For an annotator who already holds ``MAX_LEASES`` items, the item only returns to the queue. The
    lease that is returned has expired if the annotator did not get the item.
    """
    why = why_of(connection, position)
    if why is None:
        return current_lease(connection, position, annotator)
    connection.execute(
        "INSERT INTO leases (position, batch, queued) VALUES (?, ?, 1) ON CONFLICT DO NOTHING",
        (position, why.batch),
    )
    (n_held,) = connection.execute(
        "SELECT count(*) FROM leases WHERE queued AND annotator = ? AND position <> ?",
        (annotator, position),
    ).fetchone()
    if n_held >= MAX_LEASES:
        return current_lease(connection, position, annotator)
    parameters = {
        "who": annotator,
        "expires": expires,
        "position": position,
        "now": lease_clock(),
    }
    connection.execute(
        "UPDATE leases SET annotator = :who, expires = :expires WHERE position = :position AND "
        f"({WAITING_SQL} OR queued AND annotator = :who)",
        parameters,
    )
    return current_lease(connection, position, annotator)


def current_lease(connection: sqlite3.Connection, position: int, annotator: str) -> Lease:
    """Return an annotator's lease of an item; if there is none, one that has just expired."""
    row = connection.execute(
        "SELECT expires FROM leases WHERE position = ? AND annotator = ? AND queued",
        (position, annotator),
    ).fetchone()
    expires = lease_clock() if row is None else row[0]
    return Lease(position, expires, why_of(connection, position))


def why_of(connection: sqlite3.Connection, position: int) -> Why | None:
    """Like ``Queue.why``, on an open connection."""
    row = connection.execute(
        "SELECT batch, rank, (SELECT count(*) FROM batch_items AS b WHERE b.batch = i.batch), "
        "score, initial_score, strategy FROM batch_items AS i JOIN batches USING (batch) WHERE "
        "position = ? ORDER BY batch DESC LIMIT 1",
        (position,),
    ).fetchone()
    return None if row is None else Why(*row)
