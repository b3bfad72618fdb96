"""Is this project what was written? The questions asked on opening, and more of ``Store.check``."""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from parbals.errors import ProjectDamagedError
from parbals.store.journal import proved_start
from parbals.store.rows import checksum, from_json
from parbals.store.schema import COLUMNS, schema_of, schema_rows

__all__ = ["Comparison", "problems", "read_meta"]


def problems(
    connection: sqlite3.Connection, version: int, *, thorough: bool = False
) -> Iterator[str]:
    """Every sign of damage, the ones that make further reading pointless first.

    On opening: the tables, the structure of the file, the settings, and every answer and pass.
    ``thorough`` adds what takes longer on a large pool: the items, whose checksums are otherwise
    checked whenever one is read.
    """
    if schema_rows(connection) != schema_of(version):
        yield "its tables are not those of a project"
        return
    # quick_check does not compare indexes with their tables; a wrong one could hide a label.
    kept = ("answers", "passes") if version > 1 else ("answers",)
    checks = (
        ["integrity_check"]
        if thorough
        else ["quick_check", *(f"integrity_check('{table}')" for table in kept)]
    )
    structure = [
        text
        for check in checks
        for (text,) in connection.execute(f"PRAGMA {check}")
        if text != "ok"
    ]
    if structure:
        yield from structure
        return
    try:
        meta, bad = read_meta(connection)
    except (ProjectDamagedError, KeyError, TypeError):
        yield "its settings cannot be read"
        return
    yield from bad
    if bad:
        return
    yield from _answer_problems(connection, meta["project"], set(meta["classes"]))
    if "passes" in kept:
        yield from _pass_problems(connection, meta["project"])
    if thorough:
        yield from _item_problems(connection, meta["project"])
        for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} belongs to nothing"


def read_meta(connection: sqlite3.Connection) -> tuple[dict[str, Any], list[str]]:
    """The settings, and which of them do not pass their checksum."""
    rows = {
        key: (value, proof)
        for key, value, proof in connection.execute("SELECT key, value, checksum FROM meta")
    }
    meta = {key: from_json(value) for key, (value, _) in rows.items()}
    owner = meta["project"]
    bad = [
        f"the setting {key!r} does not pass its checksum"
        for key, (value, proof) in rows.items()
        if checksum(owner, "meta", (key, value)) != proof
    ]
    if not isinstance(meta["classes"], list):
        bad.append("its classes cannot be read")
    return meta, bad


def _answer_problems(
    connection: sqlite3.Connection, project: str, classes: set[str]
) -> Iterator[str]:
    """Answers are numbered 1, 2, ... without a gap; so are the revisions of an item's annotator."""
    (n_items,) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items").fetchone()
    latest: dict[tuple[int, str], int] = {}
    n_answers = 0
    for *fields, proof in connection.execute(
        f"SELECT {COLUMNS['answers']}, checksum FROM answers ORDER BY answer"
    ):
        answer, position, annotator, revision, label, *_ = fields
        n_answers += 1
        if checksum(project, "answers", fields) != proof:
            yield f"answer {answer} does not pass its checksum"
            continue
        if answer != n_answers:
            yield f"answer {n_answers} is missing"
            n_answers = answer
        if not 0 <= position < n_items:
            yield f"answer {answer} is for item {position}, which is missing"
        if label is not None and label not in classes:
            yield f"answer {answer} has the label {label!r}, which is not a class"
        if revision != latest.get((position, annotator), 0) + 1:
            before = f"revision {revision - 1} of the answer of {annotator!r}"
            yield f"{before} for item {position} is missing"
        latest[position, annotator] = revision
    yield from _uncounted(connection, "answers", n_answers)


def _pass_problems(connection: sqlite3.Connection, project: str) -> Iterator[str]:
    """Passes are numbered 1, 2, ... without a gap."""
    n_passes = 0
    for *fields, proof in connection.execute(
        f"SELECT {COLUMNS['passes']}, checksum FROM passes ORDER BY pass"
    ):
        n_passes += 1
        if checksum(project, "passes", fields) != proof:
            yield f"pass {fields[0]} does not pass its checksum"
        elif fields[0] != n_passes:
            yield f"pass {n_passes} is missing"
            n_passes = fields[0]
    yield from _uncounted(connection, "passes", n_passes)


def _uncounted(connection: sqlite3.Connection, table: str, n_rows: int) -> Iterator[str]:
    """SQLite counts for itself how many rows a table has had."""
    (counted,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,)
    ).fetchone()
    if counted > n_rows:
        yield f"{counted} {table} were confirmed but only {n_rows} are there"


def _item_problems(connection: sqlite3.Connection, project: str) -> Iterator[str]:
    for expected, (position, name, content, proof) in enumerate(
        connection.execute("SELECT position, id, content, checksum FROM items ORDER BY position")
    ):
        if position != expected:
            yield f"item {expected} is missing"
            return
        if checksum(project, "items", (position, name, content)) != proof:
            yield f"item {position} does not pass its checksum"


class Comparison:
    """A sound database beside what the journal, and the witness of an older parbals, say of it.

    Attributes:
        problem: what was confirmed and is not in the database; None if all is there.
        missing: numbers of the rows of each table that the journal lacks.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        project: str,
        lines: Iterable[bytes],
        witness: tuple[str, bytes] | None,
    ) -> None:
        self._project = project
        self._rows = {table: array("Q") for table in COLUMNS}
        for table in tables_of(connection):
            query = f"SELECT checksum FROM {table} ORDER BY rowid"
            self._rows[table].extend(int(proof, 16) for (proof,) in connection.execute(query))
        self._seen = {table: bytearray(len(rows)) for table, rows in self._rows.items()}
        self.problem = next(self._problems(lines, witness), None)
        self.missing = {
            table: [number for number, is_seen in enumerate(seen, 1) if not is_seen]
            for table, seen in self._seen.items()
        }

    def _problems(self, lines: Iterable[bytes], witness: tuple[str, bytes] | None) -> Iterator[str]:
        most = {table: len(rows) for table, rows in self._rows.items()}
        for line in lines:
            start = proved_start(line)
            if start is None:
                continue
            rows = self._rows[start.table]
            if start.project != self._project:
                yield _foreign("project.journal")
            elif start.number > len(rows):
                most[start.table] = max(most[start.table], start.number)
            elif rows[start.number - 1] != start.checksum:
                yield _other("project.journal", start.table, start.number)
            else:
                self._seen[start.table][start.number - 1] = 1
        for table, count in most.items():
            if count > len(self._rows[table]):
                yield _lost("project.journal", table, count, len(self._rows[table]))
        if witness is not None:
            project, marks = witness
            rows = self._rows["answers"]
            if project != self._project:
                yield _foreign("project.witness")
            for number, (mark, row) in enumerate(zip(marks, rows, strict=False), 1):
                if mark not in (0, row >> 56 or 1):
                    yield _other("project.witness", "answers", number)
            if len(marks) > len(rows):
                yield _lost("project.witness", "answers", len(marks), len(rows))


def tables_of(connection: sqlite3.Connection) -> list[str]:
    """The tables of answers and passes that there are: schema 1 had no passes."""
    names = {name for _, name, _, _ in schema_rows(connection)}
    return [table for table in COLUMNS if table in names]


def _foreign(file: str) -> str:
    return f"{file} belongs to another project, or a -wal file of another project lies beside it"


def _other(file: str, table: str, number: int) -> str:
    return (
        f"{file} knows another row {number} of {table} (if the project was put back from a copy on "
        f"purpose, move {file} away)"
    )


def _lost(file: str, table: str, confirmed: int, there: int) -> str:
    return (
        f"{confirmed} {table} were confirmed but only {there} are there, so project.sqlite3-wal is "
        "missing or damaged (put it back; or, if the project was put back from an older copy on "
        f"purpose, move {file} away)"
    )
