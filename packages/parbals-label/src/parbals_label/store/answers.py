"""The answers of a project: appended, never changed, each proved by its checksum."""

from collections.abc import Sequence

from parbals.errors import InputError, LabelError

from parbals_label.store.current import CURRENT, SINCE, Renames
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items, read_item
from parbals_label.store.pen import Pen
from parbals_label.store.records import Annotator, Answer, Submission, SubmitResult
from parbals_label.store.rows import check_position, check_text
from parbals_label.store.schema import COLUMNS
from parbals_label.store.settings import ProjectSettings

__all__ = ["SOURCES", "Answers", "HeldLabelError"]

SOURCES = ("person", "import", "machine")
"""Who can have given an answer."""


class HeldLabelError(LabelError):
    """The annotator has given another label for the item; ``held`` is that label."""

    def __init__(self, message: str, held: str) -> None:
        super().__init__(message)
        self.held = held


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
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT c.annotator, n, source, created FROM (SELECT annotator, sum(label IS NOT "
                f"NULL) AS n, max(answer) AS latest FROM ({CURRENT}) GROUP BY annotator) AS c JOIN "
                "answers ON answer = latest ORDER BY c.annotator"
            ).fetchall()
        return [Annotator(*row) for row in rows]

    def labelled(self) -> list[int]:
        """Positions that have a label now, from whomever."""
        with self._db.reading() as connection:
            return list(self._db.labelled(connection))

    @property
    def n_labelled(self) -> int:
        """How many items have a label now."""
        with self._db.reading() as connection:
            return len(self._db.labelled(connection))


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
