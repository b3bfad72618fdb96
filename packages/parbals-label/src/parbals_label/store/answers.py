"""The answers of a project: appended, never changed, each proved by its checksum.

A request that was answered is known by its id for ever, so that a late retry is free. The id stands
with the answer or pass that the request made. One that made nothing, because the annotator had said
the same before, has a row of its own in ``requests`` that names what it repeated: without it, a
late retry would bring back what was corrected or withdrawn meanwhile.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from parbals.errors import InputError, LabelError

from parbals_label.answer_form import AnswerForm
from parbals_label.store.current import CURRENT, SINCE, Renames, by_machines, count_labels
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items, read_item
from parbals_label.store.records import Annotator, Answer, Submission, SubmitResult
from parbals_label.store.rows import check_position, check_text
from parbals_label.store.schema import COLUMNS
from parbals_label.store.settings import ProjectSettings

__all__ = ["SOURCES", "Answers", "HeldLabelError", "Known", "RequestUsedError", "Word", "Writer"]

SOURCES = ("person", "import", "machine", "bulk", "decision")
"""Who can have given an answer, and how: "bulk" is a person's of many items at once, "decision" an
owner's word on what others said differently."""
_ROWS = {
    "answers": "SELECT 'answers', answer, position, annotator, label FROM answers",
    "passes": "SELECT 'passes', pass, position, annotator, kind FROM passes",
}
_KNOWN = (
    f"{_ROWS['answers']} WHERE request = :id UNION ALL {_ROWS['passes']} WHERE request = :id UNION "
    "ALL SELECT kind, number, NULL, NULL, NULL FROM requests WHERE request = :id"
)
_LATEST = {
    "answers": "SELECT answer, revision, label, comment FROM answers",
    "passes": "SELECT pass, 0, kind, comment FROM passes",
}


class HeldLabelError(LabelError):
    """The annotator has given another label for the item; ``held`` is that label."""

    def __init__(self, message: str, held: str) -> None:
        super().__init__(message)
        self.held = held


class RequestUsedError(InputError):
    """The request id was used for something else."""


class Known(NamedTuple):
    """What a request was answered with: a row of ``answers`` or of ``passes``.

    ``said`` is the label by the name it had then (None: withdrawn), or the kind of the pass.
    """

    table: str
    number: int
    position: int
    annotator: str
    said: str | None


class Word(NamedTuple):
    """An annotator's word on an item, as a row of ``answers`` or of ``passes``; zeros if none.

    ``said`` is the label by its name of today (None: withdrawn), or the kind of the pass.
    """

    number: int = 0
    revision: int = 0
    said: str | None = None
    comment: str | None = None


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
            writer = Writer(self._db, connection, annotator, source, Renames.of(meta))
            form, wanted = AnswerForm.of(meta), ProjectSettings.of(meta).wanted_of
            for row, submission in enumerate(answers):
                where, may_revise = f"answers[{row}]", revise or submission.revise
                stored.append(_store(writer, submission, where, form, wanted, may_revise))
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
            writer, n_withdrawn = Writer(self._db, connection, annotator), 0
            for row, given in enumerate(positions):
                position = check_position(given, writer.n_items, f"positions[{row}]")
                held = writer.latest("answers", position)
                if not held.number:
                    name = writer.name(position)
                    raise InputError(
                        f"{annotator!r} has not answered item {name!r}; nothing to withdraw."
                    )
                if held.said is not None:
                    writer.append(position, held.revision + 1, None, None, None)
                    n_withdrawn += 1
        return n_withdrawn

    def current_labels(self) -> dict[int, dict[str, str]]:
        """Position → {annotator: label} of what holds now; annotators as their labels came."""
        labels: dict[int, dict[str, str]] = {}
        for position, annotator, label, _ in self._current():
            labels.setdefault(position, {})[annotator] = label
        return labels

    def confidences(self) -> dict[tuple[int, str], float]:
        """(position, annotator) → how sure a program said it was, of the labels that hold now."""
        rows = self._db.rows(
            "SELECT c.position, c.annotator, json_extract(comment, '$.confidence') FROM "
            f"({CURRENT}) AS c JOIN answers AS a USING (answer) WHERE a.source = 'machine' AND "
            "c.label IS NOT NULL AND json_valid(comment)"
        )
        return {(p, who): sure for p, who, sure in rows if isinstance(sure, int | float)}

    def votes(self, *, by_people: bool = False, decided: bool = True) -> dict[int, dict[str, str]]:
        """What decides an item: as ``current_labels``, machines only where no person answered.

        A decision stands alone; without ``decided`` it is a vote like others. ``by_people``:
        machines nowhere.
        """
        people: dict[int, dict[str, str]] = {}
        machines: dict[int, dict[str, str]] = {}
        decisions: dict[int, dict[str, str]] = {}
        kinds = {"machine": machines, "decision": decisions if decided else people}
        for position, annotator, label, source in self._current():
            kinds.get(source, people).setdefault(position, {})[annotator] = label
        return dict(sorted({**({} if by_people else machines), **people, **decisions}.items()))

    def unfinished(self) -> set[int]:
        """Positions that people have labelled, but fewer than are wanted, and nobody decided.

        A label that came with the data is whole.
        """
        with self._db.reading() as connection:
            settings = ProjectSettings.of(read_meta(connection)[0])
        again, people, whole = dict(settings.again), Counter[int](), set[int]()
        for position, _, _, source in self._current():
            people[position] += source != "machine"
            if source in ("import", "decision"):
                whole.add(position)
        wanted = settings.answers_wanted
        return {p for p, n in people.items() if 0 < n < again.get(p, wanted) and p not in whole}

    def uncounted(self) -> set[int]:
        """The audit's items that programs alone have labelled: these labels measure nothing."""
        with self._db.reading() as connection:
            audit = ProjectSettings.of(read_meta(connection)[0]).audit
            return {position for position in audit if by_machines(connection, position)}

    def answered(self) -> list[int]:
        """Positions that were ever answered, in the order of their first answers, people's first.

        A person's word on an item counts from when it was given, whatever a program said before.
        """
        query = (
            "SELECT position FROM answers GROUP BY position ORDER BY coalesce(min(CASE WHEN source "
            "<> 'machine' THEN answer END), min(answer))"
        )
        return [position for (position,) in self._db.rows(query)]

    def _current(self) -> list[tuple[int, str, str, str]]:
        with self._db.reading() as connection:
            renames = Renames.read(connection)
            rows = connection.execute(
                f"SELECT position, annotator, label, source, answer FROM ({CURRENT}) AS c WHERE "
                f"label IS NOT NULL ORDER BY position, {SINCE}"
            )
            return [
                (position, annotator, str(renames.now(label, answer)) if renames else label, source)
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
        rows = self._db.rows(
            "SELECT c.annotator, n, source, created FROM (SELECT annotator, sum(label IS NOT NULL) "
            f"AS n, max(answer) AS latest FROM ({CURRENT}) GROUP BY annotator) AS c JOIN answers "
            "ON answer = latest ORDER BY c.annotator"
        )
        return [Annotator(*row) for row in rows]

    def labelled(self) -> list[int]:
        """Positions that have a label now, from whomever."""
        with self._db.reading() as connection:
            return list(self._db.answered(connection).labelled)

    @property
    def n_labelled(self) -> int:
        """How many items have a label now."""
        return len(self.labelled())


class Writer:
    """Writes what an annotator says in one call, inside its transaction."""

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
        self.n_items = count_items(connection)
        self.renames = Renames.read(connection) if renames is None else renames

    def latest(self, table: str, position: int, before: int = 1 << 62) -> Word:
        """The annotator's latest row of that table about an item, before row ``before``."""
        row = self.connection.execute(
            f"{_LATEST[table]} WHERE position = ? AND annotator = ? AND rowid < ? ORDER BY rowid "
            "DESC LIMIT 1",
            (position, self.annotator, before),
        ).fetchone()
        if row is None:
            return Word()
        number, revision, said, comment = row
        if table == "answers":
            said = self.renames.now(said, number)
        return Word(number, revision, said, comment)

    def append(
        self,
        position: int,
        revision: int,
        label: str | None,
        request: str | None,
        comment: str | None,
        source: str | None = None,
    ) -> int:
        """Write an answer; its number."""
        said = (self.annotator, revision, label, source or self.source)
        return self.database.insert("answers", position, *said, request, comment)

    def known(
        self, request: str | None, name: str, *expected: tuple[str, int, str | None]
    ) -> Known | None:
        """What this request was answered with before, which must be one of the expected.

        Each is a table, a position, and what was said.
        """
        if request is None:
            return None
        row = self.connection.execute(_KNOWN, {"id": check_text(request, name)}).fetchone()
        if row is not None and row[2] is None:
            row = self.connection.execute(f"{_ROWS[row[0]]} WHERE rowid = ?", (row[1],)).fetchone()
        if row is None:
            return None
        known = Known(*row)
        is_answer = known.table == "answers"
        said = self.renames.now(known.said, known.number) if is_answer else known.said
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

    def remember(self, request: str | None, table: str, number: int, position: int) -> None:
        """Keep the id of a request that said what the annotator had said before, in that row."""
        if request is not None:
            self.database.insert("requests", position, self.annotator, table, number, request)

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


def _store(
    writer: Writer,
    given: Submission,
    where: str,
    form: AnswerForm,
    wanted: Callable[[int], int],
    revise: bool,
) -> tuple[str, int]:
    """One answer: 'new', 'repeated' or 'revised', and its number."""
    position = check_position(given.position, writer.n_items, f"{where}.position")

    def find(name: str) -> str:
        meant = writer.renames.understood(name, form.classes)
        if not isinstance(meant, str) or meant not in form.classes:
            raise LabelError(
                f"{where} (item {writer.name(position)!r}) has the label {name!r}, which is not "
                f"one of the classes {list(form.classes)}; correct the label, or add the class to "
                "the project."
            )
        return meant

    label = form.read(given.label, find, where)
    if given.comment:
        check_text(given.comment, f"{where}.comment")
    known = writer.known(given.request_id, f"{where}.request_id", ("answers", position, label))
    if known is not None:
        return "repeated", known.number
    answer, revision, held, comment = writer.latest("answers", position)
    if held is not None and held != label and not revise:
        raise HeldLabelError(
            f"Item {writer.name(position)!r} already has the label {held!r} from "
            f"{writer.annotator!r}; to correct it to {label!r}, submit it as a revision (--revise; "
            "in Python revise=True).",
            held,
        )
    repeated = held == label and not (revise and given.comment and given.comment != comment)
    repeated &= writer.source != "decision"  # which weighs more than the vote that it repeats
    if repeated:
        writer.remember(given.request_id, "answers", answer, position)
    else:
        answer = writer.append(
            position, revision + 1, label, given.request_id, given.comment or None
        )
    writer.end_lease(position, wanted(position))
    return "repeated" if repeated else "new" if held is None else "revised", answer
