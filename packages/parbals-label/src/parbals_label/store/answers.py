"""The answers of a project: appended, never changed, each verified by its checksum.

The id of every request is stored for ever, so that a late retry changes nothing. It is stored with
the answer or pass that the request made. A request that made nothing, because the annotator had
given the same answer before, has a row in ``requests`` that points to that answer: without it, a
late retry would restore a label that was corrected or undone in the meantime.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from parbals.errors import InputError, LabelError

from parbals_label.answer_form import AnswerForm
from parbals_label.store.counted import CountedAnnotators
from parbals_label.store.current import (
    CURRENT,
    CURRENT_OF,
    NOT_BY_PEOPLE,
    SINCE,
    Renames,
    count_labels,
)
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items, read_item
from parbals_label.store.records import Annotator, Answer, Submission, SubmitResult
from parbals_label.store.rows import check_position, check_text, to_json
from parbals_label.store.schema import COLUMNS
from parbals_label.store.settings import ProjectSettings

__all__ = [
    "SOURCES",
    "Answers",
    "CurrentAnswer",
    "LabelConflictError",
    "LatestEntry",
    "RequestIdReusedError",
    "RequestRecord",
    "Writer",
]

SOURCES = ("person", "import", "machine", "bulk", "decision")
"""Sources of an answer: "bulk" is a person's label for many items at once, "decision" the final
label that an owner set where annotators disagree."""
_ENTRY_BY_TABLE = {
    "answers": "SELECT 'answers', answer, position, annotator, label FROM answers",
    "passes": "SELECT 'passes', pass, position, annotator, kind FROM passes",
}
_BY_REQUEST = (
    f"{_ENTRY_BY_TABLE['answers']} WHERE request = :id UNION ALL "
    f"{_ENTRY_BY_TABLE['passes']} WHERE request = :id UNION ALL "
    "SELECT kind, number, NULL, NULL, NULL FROM requests WHERE request = :id"
)
_LATEST = {
    "answers": "SELECT answer, revision, label, comment FROM answers",
    "passes": "SELECT pass, 0, kind, comment FROM passes",
}


class LabelConflictError(LabelError):
    """The annotator has given the item another label, ``current_label``."""

    def __init__(self, message: str, current_label: str) -> None:
        super().__init__(message)
        self.current_label = current_label


class RequestIdReusedError(InputError):
    """The request id was used for something else."""


class RequestRecord(NamedTuple):
    """The row of ``answers`` or ``passes`` that a request made or repeated.

    ``value`` is the label by its name at the time (None: undone), or the kind of the pass.
    """

    table: str
    number: int
    position: int
    annotator: str
    value: str | None


class CurrentAnswer(NamedTuple):
    """An annotator's current label of an item, by its current name, and its source."""

    position: int
    annotator: str
    label: str
    source: str


class AnswerNumbers(NamedTuple):
    """Numbers of an annotator's first and last answer to an item."""

    first: int
    last: int


class LatestEntry(NamedTuple):
    """An annotator's latest row of ``answers`` or ``passes`` about an item; ``number`` 0 if none.

    ``value`` is the label by its current name (None: undone), or the kind of the pass.
    """

    number: int = 0
    revision: int = 0
    value: str | None = None
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

        Repeating a ``request_id``, or the same label by the same annotator, changes nothing.
        Another label for an item that the annotator has labelled is refused unless ``revise``,
        which keeps the earlier one in the history; then another comment on the same label is a
        revision, too (no comment keeps the present one). After an undo the annotator may label the
        item again. The item's lease ends if this annotator or nobody holds it. An item in the
        page's queue stays there, available to others, while it has fewer labels than the setting
        ``answers_wanted``.
        """
        check_text(annotator, "annotator")
        if source not in SOURCES:
            raise InputError(f"source is {source!r}; choose one of: {', '.join(SOURCES)}.")
        outcomes = []
        numbers = []
        with self._db.transaction() as connection:
            meta = read_meta(connection)[0]
            writer = Writer(self._db, connection, annotator, source, Renames.of(meta))
            form = AnswerForm.of(meta)
            answers_wanted = ProjectSettings.of(meta).wanted_of
            for row, submission in enumerate(answers):
                outcome, number = _store_answer(
                    writer,
                    submission,
                    name=f"answers[{row}]",
                    form=form,
                    answers_wanted=answers_wanted,
                    revise=revise or submission.revise,
                )
                outcomes.append(outcome)
                numbers.append(number)
        return SubmitResult(
            new=outcomes.count("new"),
            repeated=outcomes.count("repeated"),
            revised=outcomes.count("revised"),
            answers=tuple(numbers),
            outcomes=tuple(outcomes),
        )

    def undo_labels(self, positions: Sequence[int], *, annotator: str) -> int:
        """Undo the annotator's labels of these items; the history keeps them.

        Returns how many were undone.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            n_undone = 0
            for row, value in enumerate(positions):
                position = check_position(value, writer.n_items, f"positions[{row}]")
                latest = writer.latest("answers", position)
                if not latest.number:
                    name = writer.name(position)
                    raise InputError(
                        f"{annotator!r} has not labelled item {name!r}; there is nothing to undo."
                    )
                if latest.value is not None:
                    writer.append(position, latest.revision + 1, None, None, None)
                    n_undone += 1
        return n_undone

    def current_labels(self) -> dict[int, dict[str, str]]:
        """Return position → {annotator: label} of current labels, in the order of the answers."""
        labels: dict[int, dict[str, str]] = {}
        for position, annotator, label, _ in self._current():
            labels.setdefault(position, {})[annotator] = label
        return labels

    def positions_labelled_by(self, annotator: str) -> list[int]:
        """Return the positions of an annotator's current labels, in the order of the answers."""
        rows = self._db.rows(
            f"SELECT position FROM ({CURRENT}) AS c WHERE label IS NOT NULL AND annotator = ? "
            "ORDER BY answer",
            (annotator,),
        )
        return [position for (position,) in rows]

    def confidences(self) -> dict[tuple[int, str], float]:
        """Return (position, annotator) → confidence that a program reported for a current label."""
        rows = self._db.rows(
            "SELECT c.position, c.annotator, json_extract(comment, '$.confidence') FROM "
            f"({CURRENT}) AS c JOIN answers AS a USING (answer) WHERE a.source = 'machine' AND "
            "c.label IS NOT NULL AND json_valid(comment)"
        )
        return {
            (position, annotator): confidence
            for position, annotator, confidence in rows
            if isinstance(confidence, int | float)
        }

    def votes(self, *, by_people: bool = False, decided: bool = True) -> dict[int, dict[str, str]]:
        """Return the labels that count, like ``current_labels``.

        Labels of programs count only where no person has labelled, and with ``by_people`` nowhere.
        A final label set by an owner counts alone; without ``decided`` it counts like others.
        """
        people: dict[int, dict[str, str]] = {}
        machines: dict[int, dict[str, str]] = {}
        decisions: dict[int, dict[str, str]] = {}
        by_source = {"machine": machines, "decision": decisions if decided else people}
        for position, annotator, label, source in self._current():
            by_source.get(source, people).setdefault(position, {})[annotator] = label
        votes = people | decisions
        if not by_people:
            votes = machines | votes
        return dict(sorted(votes.items()))

    def is_counted(self, annotator: str, source: str = "person") -> bool:
        """Whether answers of this annotator count in a measurement of the error."""
        return self._counted_annotators()(annotator, source)

    def counted_answers(self, positions: Collection[int]) -> list[CurrentAnswer]:
        """Return the current answers to these items that count in a measurement of the error."""
        if not positions:
            return []
        is_counted = self._counted_annotators()
        return [
            answer
            for answer in self._current(positions)
            if is_counted(answer.annotator, answer.source)
        ]

    def counted_history(self, positions: Collection[int]) -> list[Answer]:
        """Return all answers of people who count to these items, also earlier ones, in order.

        ``label`` and ``label_now`` are None where the annotator undid a label, or gave another in a
        way that does not count.
        """
        if not positions:
            return []
        is_counted = self._counted_annotators()
        answers = []
        with self._db.reading() as connection:
            renames = Renames.read(connection)
            rows = connection.execute(
                f"SELECT {COLUMNS['answers']} FROM answers WHERE position IN (SELECT value FROM "
                "json_each(?)) ORDER BY answer",
                (to_json([*positions], "positions"),),
            ).fetchall()
        for row in rows:
            answer = Answer(*row)
            label = answer.label if is_counted(answer.annotator, answer.source) else None
            label_now = renames.current_name(label, answer.answer)
            answers.append(replace(answer, label=label, label_now=label_now))
        return answers

    def _counted_annotators(self) -> CountedAnnotators:
        with self._db.reading() as connection:
            return CountedAnnotators.read(connection, self._db.answered(connection))

    def unfinished(self) -> set[int]:
        """Return positions that need more answers: people have labelled them, but too few.

        A final label of an owner, and a label that came with the data, is enough.
        """
        with self._db.reading() as connection:
            settings = ProjectSettings.of(read_meta(connection)[0])
        again = dict(settings.again)
        n_people = Counter[int]()
        complete = set[int]()
        for position, _, _, source in self._current():
            n_people[position] += source != "machine"
            if source in ("import", "decision"):
                complete.add(position)
        return {
            position
            for position, n in n_people.items()
            if 0 < n < again.get(position, settings.answers_wanted) and position not in complete
        }

    def audit_labelled_by_programs(self) -> set[int]:
        """Return audit items that have only labels that do not count in a measurement."""
        with self._db.reading() as connection:
            audit = ProjectSettings.of(read_meta(connection)[0]).audit
            labelled = self._db.answered(connection).labelled.intersection(audit)
        return labelled - {answer.position for answer in self.counted_answers(labelled)}

    def answer_numbers(self) -> dict[tuple[int, str], AnswerNumbers]:
        """Return (position, annotator) → numbers of their first and last answer."""
        rows = self._db.rows(
            "SELECT position, annotator, min(answer), max(answer) FROM answers GROUP BY position, "
            "annotator"
        )
        return {(position, name): AnswerNumbers(*numbers) for position, name, *numbers in rows}

    def answered(self) -> list[int]:
        """Return positions that were ever answered, in the order of their first answers.

        The first answer of a person counts, even if a program answered before.
        """
        query = (
            "SELECT position FROM answers GROUP BY position ORDER BY coalesce(min(CASE WHEN source "
            "<> 'machine' THEN answer END), min(answer))"
        )
        return [position for (position,) in self._db.rows(query)]

    def _current(self, positions: Collection[int] | None = None) -> list[CurrentAnswer]:
        """Return the current answers with a label, of all items or of some."""
        current = CURRENT if positions is None else CURRENT_OF
        parameters = {} if positions is None else {"positions": to_json([*positions], "positions")}
        with self._db.reading() as connection:
            renames = Renames.read(connection)
            rows = connection.execute(
                f"SELECT position, annotator, label, source, answer FROM ({current}) AS c WHERE "
                f"label IS NOT NULL ORDER BY position, {SINCE}",
                parameters,
            )
            return [
                CurrentAnswer(
                    position,
                    annotator,
                    str(renames.current_name(label, answer)) if renames else label,
                    source,
                )
                for position, annotator, label, source, answer in rows
            ]

    def history(self, position: int) -> list[Answer]:
        """Return all answers of an item in order, with the class names of their time."""
        with self._db.reading() as connection:
            position = check_position(position, count_items(connection), "position")
            name = read_item(connection, self._db.project, position).id
            rows = connection.execute(
                f"SELECT {COLUMNS['answers']} FROM answers WHERE position = ? ORDER BY answer",
                (position,),
            ).fetchall()
            renames = Renames.read(connection)
        return [Answer(*[*row, name, renames.current_name(row[4], row[0])]) for row in rows]

    def annotators(self) -> list[Annotator]:
        """Return everybody who ever answered, by name, with the number of their current labels."""
        rows = self._db.rows(
            "SELECT c.annotator, n, source, created FROM (SELECT annotator, sum(label IS NOT NULL) "
            f"AS n, max(answer) AS latest FROM ({CURRENT}) GROUP BY annotator) AS c JOIN answers "
            "ON answer = latest ORDER BY c.annotator"
        )
        return [Annotator(*row) for row in rows]

    def labelled(self) -> list[int]:
        """Return the positions that have a current label, from anybody."""
        with self._db.reading() as connection:
            return list(self._db.answered(connection).labelled)

    @property
    def n_labelled(self) -> int:
        """The number of items that have a current label."""
        return len(self.labelled())


class Writer:
    """Writes the answers of an annotator in one call, inside its transaction."""

    def __init__(
        self,
        database: Database,
        connection: sqlite3.Connection,
        annotator: str,
        source: str = "person",
        renames: Renames | None = None,
    ) -> None:
        self.database = database
        self.connection = connection
        self.annotator = annotator
        self.source = source
        self.n_items = count_items(connection)
        self.renames = Renames.read(connection) if renames is None else renames

    def latest(self, table: str, position: int, before: int = 1 << 62) -> LatestEntry:
        """Return the annotator's latest row about an item, before the row number ``before``."""
        row = self.connection.execute(
            f"{_LATEST[table]} WHERE position = ? AND annotator = ? AND rowid < ? ORDER BY rowid "
            "DESC LIMIT 1",
            (position, self.annotator, before),
        ).fetchone()
        if row is None:
            return LatestEntry()
        entry = LatestEntry(*row)
        if table == "answers":
            label = self.renames.current_name(entry.value, entry.number)
            entry = entry._replace(value=label)
        return entry

    def append(
        self,
        position: int,
        revision: int,
        label: str | None,
        request: str | None,
        comment: str | None,
        source: str | None = None,
    ) -> int:
        """Append an answer; returns its number."""
        return self.database.insert(
            "answers",
            position,
            self.annotator,
            revision,
            label,
            source or self.source,
            request,
            comment,
        )

    def earlier_request(
        self, request: str | None, name: str, *expected: tuple[str, int, str | None]
    ) -> RequestRecord | None:
        """Return the row that an earlier request with this id made, None if the id is new.

        The row must be one of the ``expected`` (table, position, value).
        """
        if request is None:
            return None
        row = self.connection.execute(_BY_REQUEST, {"id": check_text(request, name)}).fetchone()
        if row is not None and row[2] is None:
            row = self.connection.execute(
                f"{_ENTRY_BY_TABLE[row[0]]} WHERE rowid = ?", (row[1],)
            ).fetchone()
        if row is None:
            return None
        record = RequestRecord(*row)
        value = record.value
        if record.table == "answers":
            value = self.renames.current_name(value, record.number)
        is_own = record.annotator == self.annotator
        if not is_own or (record.table, record.position, value) not in expected:
            # Answers of others must not be revealed to somebody who guesses their ids.
            usage = "by another annotator"
            if is_own:
                usage = f"item {self.name(record.position)!r}, {record.value!r}"
            raise RequestIdReusedError(
                f"{name} {request!r} was used for something else ({usage}); give every request its "
                "own id."
            )
        return record

    def store_repeat(self, request: str | None, table: str, number: int, position: int) -> None:
        """Store the id of a request that repeats the annotator's row ``number``."""
        if request is not None:
            self.database.insert("requests", position, self.annotator, table, number, request)

    def name(self, position: int) -> str:
        """Return the id of an item."""
        return read_item(self.connection, self.database.project, position).id

    def end_lease(self, position: int, n_wanted: int) -> None:
        """End the annotator's lease; while answers are missing, the item stays in the queue."""
        own_lease = "position = ? AND (annotator IS NULL OR annotator = ?)"
        statements = [f"DELETE FROM leases WHERE {own_lease}"]
        # If one answer is wanted and a person gave it, labels need not be counted.
        is_enough = n_wanted == 1 and self.source not in NOT_BY_PEOPLE
        if not is_enough and count_labels(self.connection, position) < n_wanted:
            statements = [
                f"DELETE FROM leases WHERE {own_lease} AND NOT queued",
                f"UPDATE leases SET annotator = NULL, expires = NULL WHERE {own_lease}",
            ]
        for statement in statements:
            self.connection.execute(statement, (position, self.annotator))


def _store_answer(
    writer: Writer,
    submission: Submission,
    *,
    name: str,
    form: AnswerForm,
    answers_wanted: Callable[[int], int],
    revise: bool,
) -> tuple[str, int]:
    """Store one answer; returns 'new', 'repeated' or 'revised', and its number.

    ``name`` is what an error message calls the submission.
    """
    position = check_position(submission.position, writer.n_items, f"{name}.position")

    def find_class(label: str) -> str:
        resolved = writer.renames.resolve(label, form.classes)
        if not isinstance(resolved, str) or resolved not in form.classes:
            raise LabelError(
                f"{name} (item {writer.name(position)!r}) has the label {label!r}, which is not "
                f"one of the classes {list(form.classes)}; correct the label, or add the class to "
                "the project."
            )
        return resolved

    label = form.read(submission.label, find_class, name)
    if submission.comment:
        check_text(submission.comment, f"{name}.comment")
    request = submission.request_id
    earlier = writer.earlier_request(request, f"{name}.request_id", ("answers", position, label))
    if earlier is not None:
        return "repeated", earlier.number
    latest = writer.latest("answers", position)
    if latest.value is not None and latest.value != label and not revise:
        raise LabelConflictError(
            f"Item {writer.name(position)!r} already has the label {latest.value!r} from "
            f"{writer.annotator!r}; to correct it to {label!r}, submit it as a revision (--revise; "
            "in Python revise=True).",
            latest.value,
        )
    has_new_comment = bool(submission.comment) and submission.comment != latest.comment
    is_repeated = latest.value == label and not (revise and has_new_comment)
    if writer.source == "decision":  # it has more weight than the vote that it repeats
        is_repeated = False
    if is_repeated:
        writer.store_repeat(request, "answers", latest.number, position)
        outcome = "repeated"
        number = latest.number
    else:
        comment = submission.comment or None
        number = writer.append(position, latest.revision + 1, label, request, comment)
        outcome = "new" if latest.value is None else "revised"
    writer.end_lease(position, answers_wanted(position))
    return outcome, number
