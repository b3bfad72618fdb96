"""Passes: an annotator skips an item or is unsure.

Kept like answers: appended, never changed, proved by a checksum.
"""

from parbals.errors import InputError

from parbals_label.store.answers import HeldLabelError, Word, Writer
from parbals_label.store.current import CURRENT, CURRENT_PASSES, PASS_TAKEN_BACK, PASSED, has_label
from parbals_label.store.queue import held_lease, lease_to
from parbals_label.store.records import WITHDRAWN, Lease
from parbals_label.store.rows import check_position, check_text, moment
from parbals_label.store.settings import Settings

__all__ = ["KINDS", "Passes"]

KINDS = ("skip", "unsure")
"""Why an item was passed."""


_LABELS_OF = (
    f"SELECT c.position, c.revision, c.source FROM ({CURRENT}) AS c JOIN answers USING (answer) "
    "WHERE c.annotator = :who AND c.label IS NOT NULL AND created >= :since ORDER BY answer"
)
_PASSES_OF = (
    f"SELECT c.position FROM ({CURRENT_PASSES}) AS c JOIN passes USING (pass) WHERE c.annotator = "
    f":who AND c.{PASSED} AND created >= :since ORDER BY pass"
)


class Passes(Settings):
    """The part of the store that holds passes and takes things back."""

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
        if comment:
            check_text(comment, "comment")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            position = check_position(position, writer.n_items, "position")
            if writer.known(request_id, "request_id", ("passes", position, kind)) is not None:
                return "repeated"
            held = writer.latest("answers", position).said
            if held is not None:
                raise HeldLabelError(
                    f"Item {writer.name(position)!r} already has the label {held!r} from "
                    f"{annotator!r}; take it back before passing the item.",
                    held,
                )
            before = _standing_pass(writer, position)
            repeated = before.said == kind and (not comment or comment == before.comment)
            if repeated:
                writer.remember(request_id, "passes", before.number, position)
            else:
                self._db.insert("passes", position, annotator, kind, request_id, comment or None)
            connection.execute(
                "UPDATE leases SET annotator = NULL, expires = NULL WHERE position = ? AND "
                "annotator = ? AND queued",
                (position, annotator),
            )
        return "repeated" if repeated else "new" if before.said is None else "revised"

    def undo(
        self, position: int, annotator: str, *, lease_seconds: float, request_id: str | None = None
    ) -> tuple[dict[str, str], Lease]:
        """Take back an annotator's label of an item, or else their pass, and lease it to them.

        What it was comes back: a ``label`` or a ``kind``, and the ``comment`` if there was one.
        History keeps both. The same ``request_id`` again takes back nothing more, nor does it lease
        the item again.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            position = check_position(position, writer.n_items, "position")
            taken_back = (("answers", position, None), ("passes", position, PASS_TAKEN_BACK))
            known = writer.known(request_id, "request_id", *taken_back)
            if known is None:
                undone = _take_back(writer, position, request_id)
                lease = lease_to(connection, position, annotator, moment() + lease_seconds)
            else:  # what it took back is the annotator's row before its own
                earlier = writer.latest(known.table, position, known.number)
                undone = _undone(known.table, earlier)
                lease = held_lease(connection, position, annotator)
        return undone, lease

    def withdraw_all(self, annotator: str, since: str = "") -> tuple[int, int]:
        """Take back what a person said, or what they said ``since`` a time (as ``now()``).

        How many labels and passes: all or none. One event remembers it, and history keeps them.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            asked = {"who": annotator, "since": since}
            labels = connection.execute(_LABELS_OF, asked).fetchall()
            passes = connection.execute(_PASSES_OF, asked).fetchall()
            for position, revision, source in labels:
                writer.append(position, revision + 1, None, None, None, source)
            for (position,) in passes:
                self._db.insert("passes", position, annotator, PASS_TAKEN_BACK, None, None)
            if labels or passes:
                counts = {"answers": len(labels), "passes": len(passes)}
                self._log(connection, WITHDRAWN, {"name": annotator, "since": since, **counts})
        return len(labels), len(passes)

    def passes(self) -> dict[int, dict[str, str]]:
        """Position → {annotator: 'skip' or 'unsure'} of those who have not labelled it since."""
        passes: dict[int, dict[str, str]] = {}
        for position, annotator, kind in self._db.rows(
            f"SELECT position, annotator, kind FROM ({CURRENT_PASSES}) AS p WHERE {PASSED} AND NOT "
            f"{has_label('p.position', 'p.annotator')} ORDER BY position, pass"
        ):
            passes.setdefault(position, {})[annotator] = kind
        return passes


def _standing_pass(writer: Writer, position: int) -> Word:
    """The annotator's pass of an item, unless there is none or it was taken back."""
    word = writer.latest("passes", position)
    return Word() if word.said == PASS_TAKEN_BACK else word


def _take_back(writer: Writer, position: int, request: str | None) -> dict[str, str]:
    answer = writer.latest("answers", position)
    if answer.said is not None:
        writer.append(position, answer.revision + 1, None, request, None)
        return _undone("answers", answer)
    word = _standing_pass(writer, position)
    if word.said is None:
        raise InputError(
            f"{writer.annotator!r} has neither labelled nor passed item {writer.name(position)!r}."
        )
    writer.database.insert("passes", position, writer.annotator, PASS_TAKEN_BACK, request, None)
    return _undone("passes", word)


def _undone(table: str, word: Word) -> dict[str, str]:
    was = {"label" if table == "answers" else "kind": word.said, "comment": word.comment}
    return {name: value for name, value in was.items() if value is not None}
