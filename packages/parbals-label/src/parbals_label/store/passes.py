"""Passes: an annotator skips an item or is unsure.

Kept like answers: appended, never changed, proved by a checksum.
"""

import sqlite3

from parbals.errors import InputError

from parbals_label.store.answers import HeldLabelError, Known, Writer
from parbals_label.store.current import CURRENT_PASSES, PASSED, TAKEN_BACK, has_label
from parbals_label.store.database import Database
from parbals_label.store.queue import held_lease, lease_to
from parbals_label.store.records import Lease, Pass, Undone
from parbals_label.store.rows import check_position, check_text, moment, now
from parbals_label.store.schema import COLUMNS

__all__ = ["KINDS", "Passes"]

KINDS = ("skip", "unsure")
"""Why an item was passed."""


class Passes:
    """The part of the store that holds passes and takes things back."""

    _db: Database

    def pass_over(
        self,
        position: int,
        kind: str,
        *,
        annotator: str,
        request_id: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Store that an annotator does not label an item: 'new', 'repeated' or 'revised'.

        The item goes back into the queue for others and is not offered to this annotator again.
        Whoever has labelled it must take the label back first.
        """
        check_text(annotator, "annotator")
        if kind not in KINDS:
            raise InputError(f"kind is {kind!r}; choose one of: {', '.join(KINDS)}.")
        if comment is not None and comment != "":
            check_text(comment, "comment")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            position = check_position(position, writer.n_items, "position")
            if writer.known(request_id, "request_id", ("passes", position, kind)) is not None:
                return "repeated"
            _, _, held, _ = writer.latest(position)
            if held is not None:
                raise HeldLabelError(
                    f"Item {writer.name(position)!r} already has the label {held!r} from "
                    f"{annotator!r}; take it back before passing the item.",
                    held,
                )
            number, earlier, remark = _latest(connection, position, annotator)
            repeated = earlier == kind and (not comment or comment == remark)
            if repeated:
                writer.remember(request_id, "passes", number, position)
            else:
                _append(writer, position, kind, request_id, comment or None)
            connection.execute(
                "UPDATE leases SET annotator = NULL, expires = NULL WHERE position = ? AND "
                "annotator = ? AND queued",
                (position, annotator),
            )
        return "repeated" if repeated else "new" if earlier is None else "revised"

    def undo(
        self, position: int, annotator: str, *, lease_seconds: float, request_id: str | None = None
    ) -> tuple[Undone, Lease]:
        """Take back an annotator's label of an item, or else their pass, and lease it to them.

        History keeps both. The same ``request_id`` again takes back nothing more, nor does it lease
        the item again.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            position = check_position(position, writer.n_items, "position")
            taken_back = (("answers", position, None), ("passes", position, TAKEN_BACK))
            known = writer.known(request_id, "request_id", *taken_back)
            if known is not None:
                return _undone(connection, writer, known), held_lease(
                    connection, position, annotator
                )
            undone = _take_back(connection, writer, position, request_id)
            lease = lease_to(connection, position, annotator, moment() + lease_seconds)
        return undone, lease

    def passes(self) -> dict[int, dict[str, str]]:
        """Position → {annotator: 'skip' or 'unsure'} of those who have not labelled it since."""
        passes: dict[int, dict[str, str]] = {}
        with self._db.reading() as connection:
            rows = connection.execute(
                f"SELECT position, annotator, kind FROM ({CURRENT_PASSES}) AS p WHERE {PASSED} AND "
                f"NOT {has_label('p.position', 'p.annotator')} ORDER BY position, pass"
            )
            for position, annotator, kind in rows:
                passes.setdefault(position, {})[annotator] = kind
        return passes

    def pass_history(self, position: int) -> list[Pass]:
        """Every pass of an item, also those taken back, in the order given."""
        with self._db.reading() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS['passes']} FROM passes WHERE position = ? ORDER BY pass",
                (position,),
            ).fetchall()
        return [Pass(*row) for row in rows]


def _latest(
    connection: sqlite3.Connection, position: int, annotator: str
) -> tuple[int, str | None, str | None]:
    """Number, kind and comment of an annotator's pass of an item; 0 and None if there is none."""
    row = connection.execute(
        "SELECT pass, kind, comment FROM passes WHERE position = ? AND annotator = ? ORDER BY pass "
        "DESC LIMIT 1",
        (position, annotator),
    ).fetchone()
    return (0, None, None) if row is None or row[1] == TAKEN_BACK else row


def _append(
    writer: Writer, position: int, kind: str, request: str | None, comment: str | None
) -> None:
    (number,) = writer.connection.execute(
        "SELECT 1 + coalesce(max(pass), 0) FROM passes"
    ).fetchone()
    fields = (number, position, writer.annotator, kind, request, comment, now())
    writer.database.insert("passes", fields)


def _take_back(
    connection: sqlite3.Connection, writer: Writer, position: int, request: str | None
) -> Undone:
    _, revision, held, comment = writer.latest(position)
    if held is not None:
        writer.append(position, revision + 1, None, request, None)
        return Undone(held, None, comment)
    _, kind, comment = _latest(connection, position, writer.annotator)
    if kind is None:
        raise InputError(
            f"{writer.annotator!r} has neither labelled nor passed item {writer.name(position)!r}."
        )
    _append(writer, position, TAKEN_BACK, request, None)
    return Undone(None, kind, comment)


def _undone(connection: sqlite3.Connection, writer: Writer, known: Known) -> Undone:
    """What an earlier request took back: the annotator's row before its own."""
    mine = (known.position, known.annotator, known.number)
    if known.table == "answers":
        label, comment, answer = connection.execute(
            "SELECT label, comment, answer FROM answers WHERE position = ? AND annotator = ? AND "
            "answer < ? ORDER BY answer DESC LIMIT 1",
            mine,
        ).fetchone()
        return Undone(writer.renames.now(label, answer), None, comment)
    kind, comment = connection.execute(
        "SELECT kind, comment FROM passes WHERE position = ? AND annotator = ? AND pass < ? ORDER "
        "BY pass DESC LIMIT 1",
        mine,
    ).fetchone()
    return Undone(None, kind, comment)
