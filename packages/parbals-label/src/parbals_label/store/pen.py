"""Writing answers inside a transaction: what the annotator said before, and what is said now."""

import sqlite3

from parbals_label.store.current import Renames, count_labels
from parbals_label.store.database import Database
from parbals_label.store.items import read_item
from parbals_label.store.requests import Known, RequestUsedError, known_request, remember_request
from parbals_label.store.rows import check_text, now

__all__ = ["Pen"]


class Pen:
    """Writes the answers of one call inside its transaction."""

    def __init__(
        self,
        database: Database,
        connection: sqlite3.Connection,
        annotator: str,
        source: str = "person",
        renames: Renames | None = None,
    ) -> None:
        self.database, self.connection = database, connection
        self.annotator, self.source = annotator, source
        self.n_items, self.next = connection.execute(
            "SELECT (SELECT coalesce(max(position) + 1, 0) FROM items), (SELECT coalesce(max("
            "answer), 0) + 1 FROM answers)"
        ).fetchone()
        self.renames = Renames.read(connection) if renames is None else renames

    def latest(self, position: int) -> tuple[int, int, str | None, str | None]:
        """Number, revision, label and comment of the annotator's last answer; zeros if none.

        The label by its name of today.
        """
        row = self.connection.execute(
            "SELECT answer, revision, label, comment FROM answers WHERE position = ? AND annotator "
            "= ? ORDER BY revision DESC LIMIT 1",
            (position, self.annotator),
        ).fetchone()
        if row is None:
            return 0, 0, None, None
        answer, revision, label, comment = row
        return answer, revision, self.renames.now(label, answer), comment

    def append(
        self,
        position: int,
        revision: int,
        label: str | None,
        request: str | None,
        comment: str | None,
    ) -> int:
        fields = (self.next, position, self.annotator, revision, label, self.source)
        self.database.insert("answers", (*fields, request, comment, now()))
        self.next += 1
        return self.next - 1

    def known(
        self, request: str | None, name: str, *expected: tuple[str, int, str | None]
    ) -> Known | None:
        """What this request was answered with before, which must be one of the expected.

        Each is a table, a position, and what was said.
        """
        if request is None:
            return None
        known = known_request(self.connection, check_text(request, name))
        if known is None:
            return None
        said = known.said
        if known.table == "answers":
            said = self.renames.now(said, known.number)
        is_theirs = known.annotator == self.annotator
        if (known.table, known.position, said) not in expected or not is_theirs:
            # What others said is not for everybody who tries their ids.
            what = (
                f"item {self.name(known.position)!r}, {known.said!r}" if is_theirs else "another's"
            )
            raise RequestUsedError(
                f"{name} {request!r} was used for something else ({what}); give every request its "
                "own id."
            )
        return known

    def remember(
        self, request: str | None, table: str, number: int, position: int, said: str
    ) -> None:
        """A request that said what the annotator had said before, in that row."""
        known = Known(table, number, position, self.annotator, said)
        remember_request(self.database, self.connection, request, known)

    def name(self, position: int) -> str:
        return read_item(self.connection, self.database.project, position).id

    def end_lease(self, position: int, wanted: int) -> None:
        """The annotator is done with an item; on the page it may wait for more answers."""
        mine = "position = ? AND (annotator IS NULL OR annotator = ?)"
        statements = [f"DELETE FROM leases WHERE {mine}"]
        # Where one person's answer is wanted and this is one, nobody need be counted.
        is_enough = wanted == 1 and self.source != "machine"
        if not is_enough and count_labels(self.connection, position) < wanted:
            statements = [
                f"DELETE FROM leases WHERE {mine} AND NOT queued",
                f"UPDATE leases SET annotator = NULL, expires = NULL WHERE {mine}",
            ]
        for statement in statements:
            self.connection.execute(statement, (position, self.annotator))
