"""The answers of a project: appended, never changed, each proved by its checksum."""

import sqlite3
from collections.abc import Sequence

from parbals.errors import InputError, LabelError
from parbals.store.current import CURRENT, SINCE, count_labels
from parbals.store.database import Database
from parbals.store.integrity import read_meta
from parbals.store.items import count_items, read_item
from parbals.store.records import Annotator, Answer, Submission, SubmitResult
from parbals.store.renames import Renames
from parbals.store.requests import Known, RequestUsedError, known_request, remember_request
from parbals.store.rows import check_position, check_text, now
from parbals.store.schema import COLUMNS
from parbals.store.settings import ProjectSettings

__all__ = ["SOURCES", "Answers", "HeldLabelError", "Pen"]

SOURCES = ("person", "import", "machine")
"""Who can have given an answer."""


class HeldLabelError(LabelError):
    """The annotator has given another label for the item; ``held`` is that label."""

    def __init__(self, message: str, held: str) -> None:
        super().__init__(message)
        self.held = held


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
        if (known.table, known.position, said) not in expected or known.annotator != self.annotator:
            raise RequestUsedError(
                f"{name} {request!r} was used for something else (item "
                f"{self.name(known.position)!r}, {known.said!r} by {known.annotator!r}); give "
                "every request its own id."
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


class Answers:
    """The part of the store that holds answers."""

    _db: Database

    def submit(
        self,
        answers: Sequence[Submission],
        *,
        annotator: str,
        source: str = "person",
        revise: bool = False,
    ) -> SubmitResult:
        """Store labels, all or none; when this returns they are on disk.

        The same ``request_id`` again, or the same label by the same annotator again, changes
        nothing. Another label for an item the annotator has answered is refused unless ``revise``,
        which keeps the earlier one as history; with it, another comment on the same label is a
        revision as well (no comment leaves the one there is). After a withdrawal the annotator may
        answer again. An item's lease ends if it is this annotator's or nobody's; an item of the
        page's queue stays there, free for others, while it has fewer labels than the setting
        ``answers_wanted``.
        """
        check_text(annotator, "annotator")
        if source not in SOURCES:
            raise InputError(f"source is {source!r}; choose one of: {', '.join(SOURCES)}.")
        stored = []
        with self._db.transaction() as connection:
            meta = read_meta(connection)[0]
            pen = Pen(self._db, connection, annotator, source, Renames.of(meta))
            classes, wanted = meta["classes"], ProjectSettings.of(meta).answers_wanted
            for row, submission in enumerate(answers):
                where, may_revise = f"answers[{row}]", revise or submission.revise
                stored.append(_store(pen, submission, where, classes, wanted, may_revise))
        outcomes = [outcome for outcome, _ in stored]
        counts = {outcome: outcomes.count(outcome) for outcome in ("new", "repeated", "revised")}
        return SubmitResult(
            **counts, answers=tuple(number for _, number in stored), outcomes=tuple(outcomes)
        )

    def withdraw(self, positions: Sequence[int], *, annotator: str) -> int:
        """Take back the annotator's labels of these items; history keeps them.

        Returns how many were taken back.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            pen = Pen(self._db, connection, annotator)
            first = pen.next
            for row, given in enumerate(positions):
                position = check_position(given, pen.n_items, f"positions[{row}]")
                _, revision, label, _ = pen.latest(position)
                if revision == 0:
                    raise InputError(
                        f"{annotator!r} has not answered item {pen.name(position)!r}; nothing to "
                        "withdraw."
                    )
                if label is not None:
                    pen.append(position, revision + 1, None, None, None)
        return pen.next - first

    def current_labels(self) -> dict[int, dict[str, str]]:
        """Position → {annotator: label} of what holds now; annotators as their labels came."""
        labels: dict[int, dict[str, str]] = {}
        for position, annotator, label, _ in self._current():
            labels.setdefault(position, {})[annotator] = label
        return labels

    def votes(self) -> dict[int, dict[str, str]]:
        """What decides an item: as ``current_labels``, machines only where no person answered."""
        people: dict[int, dict[str, str]] = {}
        machines: dict[int, dict[str, str]] = {}
        for position, annotator, label, source in self._current():
            (machines if source == "machine" else people).setdefault(position, {})[annotator] = (
                label
            )
        return dict(sorted({**machines, **people}.items()))

    def answered(self) -> list[int]:
        """Positions that were ever answered, in the order of their first answers."""
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT position FROM answers GROUP BY position ORDER BY min(answer)"
            )
            return [position for (position,) in rows]

    def _current(self) -> list[tuple[int, str, str, str]]:
        with self._db.reading() as connection:
            renames = Renames.read(connection)
            rows = connection.execute(
                f"SELECT position, annotator, label, source, answer FROM ({CURRENT}) AS c WHERE "
                f"label IS NOT NULL ORDER BY position, {SINCE}"
            )
            return [
                (position, annotator, str(renames.now(label, answer)), source)
                for position, annotator, label, source, answer in rows
            ]

    def history(self, position: int) -> list[Answer]:
        """Every answer an item ever got, in the order given, by the names classes had then."""
        with self._db.reading() as connection:
            checked = check_position(position, count_items(connection), "position")
            name = read_item(connection, self._db.project, checked).id
            rows = connection.execute(
                f"SELECT {COLUMNS['answers']} FROM answers WHERE position = ? ORDER BY answer",
                (checked,),
            ).fetchall()
            renames = Renames.read(connection)
        return [Answer(*[*row, name, renames.now(row[4], row[0])]) for row in rows]

    def annotators(self) -> list[Annotator]:
        """Everybody who ever answered, by name, with the number of their current labels."""
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT c.annotator, n, source, created FROM (SELECT annotator, sum(label IS NOT "
                f"NULL) AS n, max(answer) AS latest FROM ({CURRENT}) GROUP BY annotator) AS c JOIN "
                "answers ON answer = latest ORDER BY c.annotator"
            ).fetchall()
        return [Annotator(*row) for row in rows]

    def label_counts(self) -> dict[str, int]:
        """How many current answers each class has; two annotators of one item count twice."""
        with self._db.reading() as connection:
            counts: dict[str, int] = dict.fromkeys(read_meta(connection)[0]["classes"], 0)
        for _, _, label, _ in self._current():
            counts[label] = counts.get(label, 0) + 1
        return counts

    @property
    def n_labelled(self) -> int:
        """How many items have a label now, from whomever."""
        with self._db.reading() as connection:
            return int(
                connection.execute(
                    f"SELECT count(DISTINCT position) FROM ({CURRENT}) WHERE label IS NOT NULL"
                ).fetchone()[0]
            )


def _store(
    pen: Pen, submission: Submission, where: str, classes: list[str], wanted: int, revise: bool
) -> tuple[str, int]:
    """One answer: 'new', 'repeated' or 'revised', and its number."""
    position = check_position(submission.position, pen.n_items, f"{where}.position")
    label, request, comment = submission.label, submission.request_id, submission.comment
    label = pen.renames.understood(label, classes)
    if not isinstance(label, str) or label not in classes:
        raise LabelError(
            f"{where} (item {pen.name(position)!r}) has the label {label!r}, which is not one of "
            f"the classes {classes}; correct the label, or add the class to the project."
        )
    if comment is not None and comment != "":
        check_text(comment, f"{where}.comment")
    known = pen.known(request, f"{where}.request_id", ("answers", position, label))
    if known is not None:
        return "repeated", known.number
    answer, revision, held, remark = pen.latest(position)
    if held is not None and held != label and not revise:
        raise HeldLabelError(
            f"Item {pen.name(position)!r} already has the label {held!r} from {pen.annotator!r}; "
            f"to correct it to {label!r}, submit it as a revision (--revise; in Python "
            "revise=True).",
            held,
        )
    repeated = held == label and not (revise and comment and comment != remark)
    if repeated:
        pen.remember(request, "answers", answer, position, label)
    else:
        answer = pen.append(position, revision + 1, label, request, comment or None)
    pen.end_lease(position, wanted)
    return "repeated" if repeated else "new" if held is None else "revised", answer
