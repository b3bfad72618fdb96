"""Passes: an annotator skips an item or is unsure.

Kept like answers: appended, never changed, proved by a checksum.
"""

import sqlite3
import time

from parbals.errors import InputError
from parbals.store.answers import HeldLabelError, Pen, RequestUsedError
from parbals.store.current import CURRENT_PASSES, PASSED, TAKEN_BACK, has_label
from parbals.store.database import Database
from parbals.store.records import Lease, Pass, Undone
from parbals.store.rows import check_position, check_text, now
from parbals.store.schema import COLUMNS

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
        if request_id is not None:
            check_text(request_id, "request_id")
        with self._db.transaction() as connection:
            pen = Pen(self._db, connection, annotator, "person")
            position = check_position(position, pen.n_items, "position")
            before = _by_request(connection, request_id)
            if before is not None:
                if before != (position, annotator, kind):
                    raise RequestUsedError(
                        f"The request id {request_id!r} was used for something else; use a new one."
                    )
                return "repeated"
            _, _, held, _ = pen.latest(position)
            if held is not None:
                raise HeldLabelError(
                    f"Item {pen.name(position)!r} already has the label {held!r} from "
                    f"{annotator!r}; take it back before passing the item.",
                    held,
                )
            earlier, remark = _latest(connection, position, annotator)
            repeated = earlier == kind and (not comment or comment == remark)
            if not repeated:
                _append(pen, position, kind, request_id, comment or None)
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

        History keeps both. The same ``request_id`` again takes back nothing more.
        """
        from parbals.store.queue import lease_to

        check_text(annotator, "annotator")
        if request_id is not None:
            check_text(request_id, "request_id")
        with self._db.transaction() as connection:
            pen = Pen(self._db, connection, annotator, "person")
            position = check_position(position, pen.n_items, "position")
            undone = _undone_before(connection, pen, position, request_id)
            if undone is None:
                undone = _take_back(connection, pen, position, request_id)
            lease = lease_to(connection, position, annotator, time.time() + lease_seconds)
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
) -> tuple[str | None, str | None]:
    """Kind and comment of an annotator's pass of an item; None if there is none now."""
    row = connection.execute(
        "SELECT kind, comment FROM passes WHERE position = ? AND annotator = ? ORDER BY pass DESC "
        "LIMIT 1",
        (position, annotator),
    ).fetchone()
    return (None, None) if row is None or row[0] == TAKEN_BACK else row


def _by_request(connection: sqlite3.Connection, request: str | None) -> tuple[int, str, str] | None:
    row: tuple[int, str, str] | None = connection.execute(
        "SELECT position, annotator, kind FROM passes WHERE request = ?", (request,)
    ).fetchone()
    return row


def _append(pen: Pen, position: int, kind: str, request: str | None, comment: str | None) -> None:
    (number,) = pen.connection.execute("SELECT 1 + coalesce(max(pass), 0) FROM passes").fetchone()
    fields = (number, position, pen.annotator, kind, request, comment, now())
    pen.database.insert("passes", fields)


def _take_back(
    connection: sqlite3.Connection, pen: Pen, position: int, request: str | None
) -> Undone:
    _, revision, held, comment = pen.latest(position)
    if held is not None:
        pen.append(position, revision + 1, None, request, None)
        return Undone(held, None, comment)
    kind, comment = _latest(connection, position, pen.annotator)
    if kind is None:
        raise InputError(
            f"{pen.annotator!r} has neither labelled nor passed item {pen.name(position)!r}."
        )
    _append(pen, position, TAKEN_BACK, request, None)
    return Undone(None, kind, comment)


def _undone_before(
    connection: sqlite3.Connection, pen: Pen, position: int, request: str | None
) -> Undone | None:
    """What this very request took back earlier."""
    answer = connection.execute(
        "SELECT position, annotator, label, revision FROM answers WHERE request = ?", (request,)
    ).fetchone()
    passed = _by_request(connection, request)
    if answer is None and passed is None:
        return None
    mine = (position, pen.annotator)
    if answer is not None and (*answer[:2], answer[2]) == (*mine, None):
        row = connection.execute(
            "SELECT label, comment, answer FROM answers WHERE position = ? AND annotator = ? AND "
            "revision = ?",
            (*mine, answer[3] - 1),
        ).fetchone()
        return Undone(pen.renames.now(row[0], row[2]), None, row[1])
    if passed == (*mine, TAKEN_BACK):
        row = connection.execute(
            "SELECT kind, comment FROM passes WHERE position = ? AND annotator = ? AND pass < "
            "(SELECT pass FROM passes WHERE request = ?) ORDER BY pass DESC LIMIT 1",
            (*mine, request),
        ).fetchone()
        return Undone(None, row[0], row[1])
    raise RequestUsedError(
        f"The request id {request!r} was used for something else; use a new one."
    )
