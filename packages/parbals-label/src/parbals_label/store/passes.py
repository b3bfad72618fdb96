"""Passes: an annotator skips an item or marks it unsure; and undo of answers and passes.

Passes are stored like answers: appended, never changed, verified by a checksum.
"""

from collections.abc import Collection

from parbals.errors import InputError

from parbals_label.store.answers import LabelConflictError, LatestEntry, Writer
from parbals_label.store.counted import CountedAnnotators
from parbals_label.store.current import CURRENT, CURRENT_PASSES, PASS_UNDONE, PASSED, has_label
from parbals_label.store.queue import current_lease, lease_to
from parbals_label.store.records import WORK_REMOVED, Lease, Pass
from parbals_label.store.rows import check_position, check_text, lease_clock, to_json
from parbals_label.store.settings import Settings

__all__ = ["KINDS", "Passes"]

KINDS = ("skip", "unsure")
"""Kinds of a pass."""


_LABELS_OF = (
    f"SELECT c.position, c.revision, c.source FROM ({CURRENT}) AS c JOIN answers USING (answer) "
    "WHERE c.annotator = :who AND c.label IS NOT NULL AND created >= :since ORDER BY answer"
)
_PASSES_OF = (
    f"SELECT c.position FROM ({CURRENT_PASSES}) AS c JOIN passes USING (pass) WHERE c.annotator = "
    f":who AND c.{PASSED} AND created >= :since ORDER BY pass"
)


class Passes(Settings):
    """The part of the store that holds passes, and undoes answers and passes."""

    def pass_over(
        self,
        position: int,
        kind: str,
        *,
        annotator: str,
        request_id: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Store that an annotator skips an item or is unsure; returns the outcome.

        The outcome is 'new', 'repeated' or 'revised'. The item goes back into the queue for others
        and is not offered to this annotator again. An annotator who has labelled the item must
        undo the label first.
        """
        check_text(annotator, "annotator")
        if kind not in KINDS:
            raise InputError(f"kind is {kind!r}; choose one of: {', '.join(KINDS)}.")
        if comment:
            check_text(comment, "comment")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            position = check_position(position, writer.n_items, "position")
            expected = ("passes", position, kind)
            if writer.earlier_request(request_id, "request_id", expected) is not None:
                return "repeated"
            label = writer.latest("answers", position).value
            if label is not None:
                raise LabelConflictError(
                    f"Item {writer.name(position)!r} already has the label {label!r} from "
                    f"{annotator!r}; undo it before skipping the item.",
                    label,
                )
            current = _current_pass(writer, position)
            is_repeated = current.value == kind and (not comment or comment == current.comment)
            if is_repeated:
                writer.store_repeat(request_id, "passes", current.number, position)
            else:
                self._db.insert("passes", position, annotator, kind, request_id, comment or None)
            connection.execute(
                "UPDATE leases SET annotator = NULL, expires = NULL WHERE position = ? AND "
                "annotator = ? AND queued",
                (position, annotator),
            )
        if is_repeated:
            return "repeated"
        return "new" if current.value is None else "revised"

    def undo(
        self, position: int, annotator: str, *, lease_seconds: float, request_id: str | None = None
    ) -> tuple[dict[str, str], Lease]:
        """Undo an annotator's label of an item, or else their pass, and lease it to them.

        Returns what was undone, a ``label`` or a ``kind`` with the ``comment`` if there was one,
        and the lease. The history keeps the answer and the undo. Repeating a ``request_id``
        neither undoes nor leases anything more.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            position = check_position(position, writer.n_items, "position")
            undos = (("answers", position, None), ("passes", position, PASS_UNDONE))
            earlier = writer.earlier_request(request_id, "request_id", *undos)
            if earlier is None:
                undone = _undo_latest(writer, position, request_id)
                lease = lease_to(connection, position, annotator, lease_clock() + lease_seconds)
            else:  # the request was repeated: it undid the annotator's row before its own
                entry = writer.latest(earlier.table, position, earlier.number)
                undone = _undone_fields(earlier.table, entry)
                lease = current_lease(connection, position, annotator)
        return undone, lease

    def remove_labels(self, annotator: str, since: str = "") -> tuple[int, int]:
        """Remove all labels and passes of a person, or those ``since`` a time (see ``utc_now``).

        Returns the numbers of labels and passes. All are removed or none. The log has one entry,
        and the history keeps them.
        """
        check_text(annotator, "annotator")
        with self._db.transaction() as connection:
            writer = Writer(self._db, connection, annotator)
            parameters = {"who": annotator, "since": since}
            labels = connection.execute(_LABELS_OF, parameters).fetchall()
            passes = connection.execute(_PASSES_OF, parameters).fetchall()
            for position, revision, source in labels:
                writer.append(position, revision + 1, None, None, None, source)
            for (position,) in passes:
                self._db.insert("passes", position, annotator, PASS_UNDONE, None, None)
            if labels or passes:
                counts = {"answers": len(labels), "passes": len(passes)}
                self._log(connection, WORK_REMOVED, {"name": annotator, "since": since, **counts})
        return len(labels), len(passes)

    def passes(self) -> dict[int, dict[str, str]]:
        """Return position → {annotator: 'skip' or 'unsure'}, unless they have labelled it since."""
        passes: dict[int, dict[str, str]] = {}
        for position, annotator, kind in self._db.rows(
            f"SELECT position, annotator, kind FROM ({CURRENT_PASSES}) AS p WHERE {PASSED} AND NOT "
            f"{has_label('p.position', 'p.annotator')} ORDER BY position, pass"
        ):
            passes.setdefault(position, {})[annotator] = kind
        return passes

    def counted_passes(self, positions: Collection[int]) -> list[Pass]:
        """Return all passes of these items by people who count in a measurement of the error.

        Also those that were undone, in order.
        """
        if not positions:
            return []
        with self._db.reading() as connection:
            is_counted = CountedAnnotators.read(connection, self._db.answered(connection))
            rows = connection.execute(
                "SELECT position, annotator, kind, created FROM passes WHERE position IN (SELECT "
                "value FROM json_each(?)) ORDER BY pass",
                (to_json([*positions], "positions"),),
            ).fetchall()
        entries = [Pass(*row) for row in rows]
        return [entry for entry in entries if is_counted(entry.annotator, "person")]

    def active_between(self, since: str, until: str) -> list[str]:
        """Return the people who count and labelled or skipped anything between two times."""
        period = "created BETWEEN :since AND :until"
        query = (
            f"SELECT DISTINCT annotator, source FROM answers WHERE {period} UNION SELECT DISTINCT "
            f"annotator, 'person' FROM passes WHERE {period}"
        )
        with self._db.reading() as connection:
            is_counted = CountedAnnotators.read(connection, self._db.answered(connection))
            rows = connection.execute(query, {"since": since, "until": until}).fetchall()
        return sorted({name for name, source in rows if is_counted(name, source)})


def _current_pass(writer: Writer, position: int) -> LatestEntry:
    """Return the annotator's pass of an item; empty if there is none or it was undone."""
    entry = writer.latest("passes", position)
    return LatestEntry() if entry.value == PASS_UNDONE else entry


def _undo_latest(writer: Writer, position: int, request: str | None) -> dict[str, str]:
    """Undo the annotator's label of an item, or else their pass; returns what was undone."""
    answer = writer.latest("answers", position)
    if answer.value is not None:
        writer.append(position, answer.revision + 1, None, request, None)
        return _undone_fields("answers", answer)
    current_pass = _current_pass(writer, position)
    if current_pass.value is None:
        raise InputError(
            f"{writer.annotator!r} has neither labelled nor skipped item {writer.name(position)!r}."
        )
    writer.database.insert("passes", position, writer.annotator, PASS_UNDONE, request, None)
    return _undone_fields("passes", current_pass)


def _undone_fields(table: str, entry: LatestEntry) -> dict[str, str]:
    """Return the label or kind, and the comment, as far as there are any."""
    name = "label" if table == "answers" else "kind"
    fields = {name: entry.value, "comment": entry.comment}
    return {name: value for name, value in fields.items() if value is not None}
