"""Batches of chosen items, and the leases that assign them."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from parbals.errors import InputError

from parbals_label.store.counted import CountedAnnotators
from parbals_label.store.current import CURRENT, UNOPENED, labels_of
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import check_positions, count_items, read_item
from parbals_label.store.records import BatchItem, BatchRecord
from parbals_label.store.rows import (
    check_position,
    check_text,
    from_json,
    lease_clock,
    to_json,
    utc_now,
)
from parbals_label.store.settings import ProjectSettings

__all__ = ["Batches", "ItemsUnavailableError"]

_DUPLICATE = "is in the batch twice"


class ItemsUnavailableError(InputError):
    """An item of the batch was labelled or assigned before the batch was stored; choose again."""


class Batches:
    """The part of the store that holds batches and leases."""

    _db: Database

    def record_batch(
        self,
        strategy: str,
        seed: int | None,
        items: Sequence[tuple[int, float | None, float | None]],
        settings: dict[str, Any],
        *,
        annotator: str | None = None,
        expires: float | None = None,
        queued: bool = False,
        replaces: Collection[str] = (),
        takes_assigned: bool = False,
    ) -> int:
        """Store a batch and lease its items; returns the number of the batch.

        Args:
            strategy: the name of the strategy that chose the batch.
            seed: its random seed.
            items: (position, score, initial score), best first. An item that has a label or is
                already assigned is refused.
            settings: further settings of the strategy.
            annotator: to whom the items are assigned.
            expires: when the leases expire (see ``lease_clock``); None: when they are answered or
                released.
            queued: the items wait on the labelling page for anybody. Items that were labelled or
                assigned while the batch was being chosen are left out, and do not count in the
                ranks of the others.
            replaces: strategies whose unopened items in the queue this batch replaces. Those items
                also leave their batches, which list only items that were assigned.
            takes_assigned: take items that are assigned already, too. Whoever holds one keeps it;
                if ``queued``, an item that was handed out otherwise waits on the page as well.
        """
        check_text(strategy, "strategy")
        if annotator is not None:
            check_text(annotator, "annotator")
        if not items:
            raise InputError("The batch has no items; choose at least one.")
        settings_json = to_json(settings, "settings")
        with self._db.transaction() as connection:
            n_items = count_items(connection)
            batch = connection.execute(
                "INSERT INTO batches (created, strategy, seed, settings) VALUES (?, ?, ?, ?)",
                (utc_now(), strategy, seed, settings_json),
            ).lastrowid
            assert batch is not None
            now = lease_clock()
            audit = frozenset(ProjectSettings.of(read_meta(connection)[0]).audit)
            is_counted = CountedAnnotators.read(connection, self._db.answered(connection))
            if replaces:
                _remove_unopened(connection, replaces)
            rank = 0
            for index, (given_position, score, initial_score) in enumerate(items):
                position = check_position(given_position, n_items, f"items[{index}]")
                counted_if = is_counted if position in audit else None
                lease = _lease(connection, position)
                is_held = lease is not None and lease.is_current(now)
                reason = _why_labelled(connection, position, counted_if)
                if lease is not None and lease.batch == batch:
                    reason = _DUPLICATE
                elif lease is not None and is_held and not takes_assigned:
                    reason = f"is already assigned in batch {lease.batch}"
                # A queued batch loses unavailable items, unless none would be left.
                if reason and queued and (rank or index + 1 < len(items)):
                    continue
                if reason:
                    name = read_item(connection, self._db.project, position).id
                    error = InputError if reason == _DUPLICATE else ItemsUnavailableError
                    raise error(
                        f"items[{index}] (item {name!r}) {reason}; leave it out of the batch."
                    )
                connection.execute(
                    "INSERT INTO batch_items VALUES (?, ?, ?, ?, ?)",
                    (batch, position, rank, _number(score), _number(initial_score)),
                )
                row: tuple[Any, ...] = (position, batch, annotator, _number(expires), int(queued))
                if lease is not None and is_held and (lease.queued or not queued):
                    row = (position, batch, lease.annotator, lease.expires, lease.queued)
                connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)", row)
                rank += 1
        return batch

    def remove_batch(self, batch: int) -> None:
        """Remove a batch that nobody has answered: its items are neither assigned nor chosen."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM leases WHERE batch = ?", (batch,))
            connection.execute("DELETE FROM batch_items WHERE batch = ?", (batch,))

    def pending(self, now: float | None = None, *, annotator: str | None = None) -> list[int]:
        """Return positions that are assigned or wait on the page, in order of batch and rank.

        With an ``annotator``, only those of batches that were assigned to them as a whole, not
        through the page.
        """
        by_annotator = "" if annotator is None else "AND NOT queued AND annotator = :who "
        rows = self._db.rows(
            "SELECT position FROM leases JOIN batch_items USING (batch, position) WHERE (queued OR "
            f"expires IS NULL OR expires > :now) {by_annotator}ORDER BY batch, rank",
            {"now": lease_clock() if now is None else now, "who": annotator},
        )
        return [position for (position,) in rows]

    def end_leases(self, positions: Collection[int], *, annotator: str | None = None) -> int:
        """End the leases of these items; returns how many. ``annotator`` as for ``pending``."""
        by_annotator = "" if annotator is None else " AND NOT queued AND annotator = :who"
        with self._db.transaction() as connection:
            return sum(
                connection.execute(
                    f"DELETE FROM leases WHERE position = :position{by_annotator}",
                    {"position": position, "who": annotator},
                ).rowcount
                for position in check_positions(connection, positions)
            )

    def batch_positions(self, batch: int) -> list[int]:
        """Return the positions of a batch, best first."""
        query = "SELECT position FROM batch_items WHERE batch = ? ORDER BY rank"
        return [position for (position,) in self._db.rows(query, (batch,))]

    def chosen_by(self) -> dict[str | None, int]:
        """Count labelled items by the strategy that chose them, most first; None: no strategy."""
        rows = self._db.rows(
            f"SELECT strategy, count(*) AS n FROM (SELECT DISTINCT position FROM ({CURRENT}) WHERE "
            "label IS NOT NULL) AS labelled LEFT JOIN batches ON batch = (SELECT max(batch) FROM "
            "batch_items AS i WHERE i.position = labelled.position) GROUP BY strategy ORDER BY n "
            "DESC, strategy"
        )
        return dict(rows)

    @property
    def n_batches(self) -> int:
        """The number of batches with items."""
        return int(self._db.rows("SELECT count(DISTINCT batch) FROM batch_items")[0][0])

    def batches(self, strategy: str | None = None) -> list[BatchRecord]:
        """Return every batch, or those of one strategy, oldest first."""
        if strategy is None:
            return self._batches("")
        return self._batches("WHERE strategy = ?", strategy)

    def batch_numbers(self, strategy: str) -> list[int]:
        """Return the numbers of all batches of a strategy, oldest first, removed ones included."""
        rows = self._db.rows(
            "SELECT batch FROM batches WHERE strategy = ? ORDER BY batch", (strategy,)
        )
        return [batch for (batch,) in rows]

    def latest_batch(self, strategy: str) -> BatchRecord | None:
        """Return the latest batch of a strategy that has items, None if there is none.

        Earlier batches and their settings, which may be large, are not read.
        """
        latest = (
            "WHERE batch = (SELECT max(batch) FROM batch_items JOIN batches USING (batch) WHERE "
            "strategy = ?)"
        )
        return next(iter(self._batches(latest, strategy)), None)

    def _batches(self, condition: str, *parameters: str) -> list[BatchRecord]:
        """Return the batches that fulfil a condition, oldest first."""
        with self._db.reading() as connection:
            # Members first: a batch stored between the two queries is then left out entirely.
            members: dict[int, list[BatchItem]] = {}
            for batch, *fields in connection.execute(
                "SELECT batch, position, rank, score, initial_score FROM batch_items WHERE batch "
                f"IN (SELECT batch FROM batches {condition}) ORDER BY batch, rank",
                parameters,
            ):
                members.setdefault(batch, []).append(BatchItem(*fields))
            rows = connection.execute(
                f"SELECT * FROM batches {condition} ORDER BY batch", parameters
            ).fetchall()
        return [
            BatchRecord(
                batch=batch,
                created=created,
                strategy=strategy,
                seed=seed,
                settings=from_json(settings, dict),
                items=tuple(members[batch]),
            )
            for batch, created, strategy, seed, settings in rows
            if batch in members
        ]


def _remove_unopened(connection: sqlite3.Connection, strategies: Collection[str]) -> None:
    """Remove unopened items that these strategies chose from the queue and their batches."""
    for position, batch, strategy in connection.execute(UNOPENED).fetchall():
        if strategy in strategies:
            connection.execute("DELETE FROM leases WHERE position = ?", (position,))
            connection.execute(
                "DELETE FROM batch_items WHERE batch = ? AND position = ?", (batch, position)
            )


class _StoredLease(NamedTuple):
    """Who holds an item, in which batch; ``queued`` is 1 for items of the page."""

    batch: int
    annotator: str | None
    expires: float | None
    queued: int

    def is_current(self, now: float) -> bool:
        """Whether the item is assigned, or waits on the page."""
        return bool(self.queued) or self.expires is None or self.expires > now


def _lease(connection: sqlite3.Connection, position: int) -> _StoredLease | None:
    """Return the lease of an item, also one that has ended; None if there is none."""
    row = connection.execute(
        "SELECT batch, annotator, expires, queued FROM leases WHERE position = ?", (position,)
    ).fetchone()
    return None if row is None else _StoredLease(*row)


def _why_labelled(
    connection: sqlite3.Connection, position: int, counted_if: CountedAnnotators | None
) -> str | None:
    """Return that an item has a label, None if it has none.

    An audit item stays available until it has a label that counts (``counted_if``), whatever
    programs have answered.
    """
    for annotator, label, source in labels_of(connection, position):  # one label is enough
        if counted_if is None or counted_if(annotator, source):
            return f"already has the label {label!r} from {annotator!r}"
    return None


def _number(value: float | None) -> float | None:
    """Return a float that SQLite can store; NaN becomes None."""
    return None if value is None or value != value else float(value)
