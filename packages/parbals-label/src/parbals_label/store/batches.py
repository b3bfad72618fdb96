"""Batches that were handed out, and the leases that say which items are out now."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from parbals.errors import InputError

from parbals_label.store.current import CURRENT, UNSEEN, by_machines, labels_of
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import check_positions, count_items, read_item
from parbals_label.store.records import BatchItem, BatchRecord
from parbals_label.store.rows import check_position, check_text, from_json, moment, now, to_json
from parbals_label.store.settings import ProjectSettings

__all__ = ["Batches", "TakenError"]

_TWICE = "is in the batch twice"


class TakenError(InputError):
    """An item of the batch was answered or handed out before it was stored; choose again."""


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
        renew: Collection[str] = (),
    ) -> int:
        """Store a batch of (position, score, initial score), best first; its number.

        Its items are leased; those that have a label or are out already are refused. ``expires`` is
        a time as ``moment()`` gives it; without one an item is out until it is answered or given
        back. A ``queued`` batch waits on the labelling page for anybody; items that were answered
        or handed out while it was being chosen are left out of it, and the ranks of the others
        count without them. It takes the place of the items that wait there unseen and were chosen
        by strategies to ``renew``: they leave the queue and their batches, which hold what was
        handed out.
        """
        check_text(strategy, "strategy")
        if annotator is not None:
            check_text(annotator, "annotator")
        if not items:
            raise InputError("The batch has no items; choose at least one.")
        body = to_json(settings, "settings")
        with self._db.transaction() as connection:
            n_items = count_items(connection)
            batch = connection.execute(
                "INSERT INTO batches (created, strategy, seed, settings) VALUES (?, ?, ?, ?)",
                (now(), strategy, seed, body),
            ).lastrowid
            assert batch is not None
            at, rank = moment(), 0
            audit = frozenset(ProjectSettings.of(read_meta(connection)[0]).audit)
            waiting = connection.execute(UNSEEN).fetchall() if renew else []
            for position, chosen_in in (row[:2] for row in waiting if row[2] in renew):
                connection.execute("DELETE FROM leases WHERE position = ?", (position,))
                connection.execute(
                    "DELETE FROM batch_items WHERE batch = ? AND position = ?",
                    (chosen_in, position),
                )
            for row, (given, score, initial) in enumerate(items):
                position = check_position(given, n_items, f"items[{row}]")
                reason = _taken(connection, position, batch, at, position in audit)
                if reason and queued and (rank or row + 1 < len(items)):
                    continue
                if reason:
                    name = read_item(connection, self._db.project, position).id
                    kind = InputError if reason == _TWICE else TakenError
                    raise kind(f"items[{row}] (item {name!r}) {reason}; leave it out of the batch.")
                connection.execute(
                    "INSERT INTO batch_items VALUES (?, ?, ?, ?, ?)",
                    (batch, position, rank, _number(score), _number(initial)),
                )
                connection.execute(
                    "INSERT OR REPLACE INTO leases (position, batch, annotator, expires, queued) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (position, batch, annotator, _number(expires), int(queued)),
                )
                rank += 1
        return batch

    def pending(self, now: float | None = None, *, annotator: str | None = None) -> list[int]:
        """Positions that are out and not expired, or wait on the page, in order of batch and rank.

        With an ``annotator``, only those that are out with them as a batch of their own.
        """
        theirs = "" if annotator is None else "AND NOT queued AND annotator = :who "
        rows = self._db.rows(
            "SELECT position FROM leases JOIN batch_items USING (batch, position) WHERE (queued OR "
            f"expires IS NULL OR expires > :now) {theirs}ORDER BY batch, rank",
            {"now": moment() if now is None else now, "who": annotator},
        )
        return [position for (position,) in rows]

    def give_back(self, positions: Collection[int], *, annotator: str | None = None) -> int:
        """End the leases of these items, or of those that are the annotator's; how many did."""
        theirs = "" if annotator is None else " AND NOT queued AND annotator = :who"
        with self._db.transaction() as connection:
            return sum(
                connection.execute(
                    f"DELETE FROM leases WHERE position = :position{theirs}",
                    {"position": position, "who": annotator},
                ).rowcount
                for position in check_positions(connection, positions)
            )

    def batch_positions(self, batch: int) -> list[int]:
        """The items of a batch, best first."""
        query = "SELECT position FROM batch_items WHERE batch = ? ORDER BY rank"
        return [position for (position,) in self._db.rows(query, (batch,))]

    def chosen_by(self) -> dict[str | None, int]:
        """How many of the labelled items each strategy chose, most first; None: nobody did."""
        rows = self._db.rows(
            f"SELECT strategy, count(*) AS n FROM (SELECT DISTINCT position FROM ({CURRENT}) WHERE "
            "label IS NOT NULL) AS labelled LEFT JOIN batches ON batch = (SELECT max(batch) FROM "
            "batch_items AS i WHERE i.position = labelled.position) GROUP BY strategy ORDER BY n "
            "DESC, strategy"
        )
        return dict(rows)

    @property
    def n_batches(self) -> int:
        """How many batches were handed out."""
        return int(self._db.rows("SELECT count(DISTINCT batch) FROM batch_items")[0][0])

    def batches(self, strategy: str | None = None) -> list[BatchRecord]:
        """Every batch that was handed out, or those of one strategy, oldest first."""
        of, by = ("", ()) if strategy is None else ("WHERE strategy = ?", (strategy,))
        with self._db.reading() as connection:
            # Members first: a batch stored between the two reads is then left out whole.
            members: dict[int, list[BatchItem]] = {}
            for batch, *rest in connection.execute(
                "SELECT batch, position, rank, score, initial_score FROM batch_items WHERE batch "
                f"IN (SELECT batch FROM batches {of}) ORDER BY batch, rank",
                by,
            ):
                members.setdefault(batch, []).append(BatchItem(*rest))
            rows = connection.execute(f"SELECT * FROM batches {of} ORDER BY batch", by).fetchall()
        return [
            BatchRecord(batch, at, strategy, seed, from_json(settings, dict), tuple(members[batch]))
            for batch, at, strategy, seed, settings in rows
            if batch in members
        ]


def _taken(
    connection: sqlite3.Connection, position: int, batch: int, at: float, is_audit: bool
) -> str | None:
    """Why an item cannot be handed out; one of the audit is, until a person has labelled it."""
    lease = connection.execute(
        "SELECT batch, expires, queued FROM leases WHERE position = ?", (position,)
    ).fetchone()
    if lease is not None and lease[0] == batch:
        return _TWICE
    if lease is not None and (lease[2] or lease[1] is None or lease[1] > at):
        return f"is already out in batch {lease[0]}"
    if is_audit and by_machines(connection, position):
        return None
    for annotator, label, _ in labels_of(connection, position):
        return f"already has the label {label!r} from {annotator!r}"
    return None


def _number(value: float | None) -> float | None:
    """A float that SQLite can hold; NaN becomes None."""
    return None if value is None or value != value else float(value)
