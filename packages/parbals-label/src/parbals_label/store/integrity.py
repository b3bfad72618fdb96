"""Is this project what was written? The questions asked on opening, and more of ``Store.check``.

Where it is not: the answers that can still be read and proved.
"""

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from parbals.errors import ProjectDamagedError, ProjectError

from parbals_label.answer_form import AnswerForm
from parbals_label.store.current import Renames
from parbals_label.store.folder import FILE_NAME, check_folder
from parbals_label.store.journal import Journal, proved_id, proved_start
from parbals_label.store.records import Answer
from parbals_label.store.rows import checksum, from_json
from parbals_label.store.schema import COLUMNS, new_schema_rows, schema_rows

__all__ = ["compare", "problems", "read_meta", "salvage"]

_UNREADABLE = (sqlite3.Error, ValueError, TypeError, ProjectDamagedError)
"""What reading a damaged database raises."""


def problems(connection: sqlite3.Connection, *, thorough: bool = False) -> Iterator[str]:
    """Every sign of damage, the ones that make further reading pointless first.

    On opening: the tables, the structure of the file, the settings, and every answer and pass.
    ``thorough`` adds what takes longer on a large pool: the items, whose checksums are otherwise
    checked whenever one is read.
    """
    if schema_rows(connection) != new_schema_rows():
        yield "its tables are not those of a project"
        return
    # quick_check does not compare indexes with their tables; a wrong one could hide a label.
    checks = ["quick_check", *(f"integrity_check('{table}')" for table in COLUMNS)]
    structure = [
        text
        for check in (checks if not thorough else ["integrity_check"])
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
    for table in COLUMNS:
        yield from _row_problems(connection, meta, table)
    if thorough:
        yield from _item_problems(connection, meta["project"])
        for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} belongs to nothing"


def read_meta(connection: sqlite3.Connection) -> tuple[dict[str, Any], list[str]]:
    """The settings, and which of them do not pass their checksum."""
    meta, bad = _parsed(tuple(connection.execute("SELECT key, value, checksum FROM meta")))
    return dict(meta), list(bad)


@lru_cache(maxsize=4)  # every answer asks, and they seldom change
def _parsed(rows: tuple[tuple[str, str, str], ...]) -> tuple[dict[str, Any], list[str]]:
    meta = {key: from_json(value) for key, value, _ in rows}
    owner = meta["project"]
    bad = [
        f"the setting {key!r} does not pass its checksum"
        for key, value, proof in rows
        if checksum(owner, "meta", (key, value)) != proof
    ]
    classes = meta["classes"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        bad.append("its classes cannot be read")
    return meta, bad


def _row_problems(
    connection: sqlite3.Connection, meta: dict[str, Any], table: str
) -> Iterator[str]:
    """Rows are numbered 1, 2, ... without a gap; SQLite counts for itself how many there were."""
    check = _answer_check(connection, meta) if table == "answers" else lambda fields: iter(())
    name, n_rows = COLUMNS[table].partition(",")[0], 0
    for *fields, proof in connection.execute(
        f"SELECT {COLUMNS[table]}, checksum FROM {table} ORDER BY rowid"
    ):
        n_rows += 1
        if checksum(meta["project"], table, fields) != proof:
            yield f"{name} {fields[0]} does not pass its checksum"
            continue
        if fields[0] != n_rows:
            yield f"{name} {n_rows} is missing"
            n_rows = fields[0]
        yield from check(fields)
    (counted,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,)
    ).fetchone()
    if counted > n_rows:
        yield f"{counted} {table} were confirmed but only {n_rows} are there"


def _answer_check(
    connection: sqlite3.Connection, meta: dict[str, Any]
) -> Callable[[list[Any]], Iterator[str]]:
    """What an answer must be besides; an annotator's revisions of an item have no gap either."""
    (n_items,) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items").fetchone()
    form, renames = AnswerForm.of(meta), Renames.of(meta)
    latest: dict[tuple[int, str], int] = {}

    def check(fields: list[Any]) -> Iterator[str]:
        answer, position, annotator, revision, label, *_ = fields
        if not 0 <= position < n_items:
            yield f"answer {answer} is for item {position}, which is missing"
        if label is not None and not form.fits(str(renames.current_name(label, answer))):
            yield f"answer {answer} has the label {label!r}, which is not a class"
        if revision != latest.get((position, annotator), 0) + 1:
            before = f"revision {revision - 1} of the answer of {annotator!r}"
            yield f"{before} for item {position} is missing"
        latest[position, annotator] = revision

    return check


def _item_problems(connection: sqlite3.Connection, project: str) -> Iterator[str]:
    for expected, (position, name, content, proof) in enumerate(
        connection.execute("SELECT position, id, content, checksum FROM items ORDER BY position")
    ):
        if position != expected:
            yield f"item {expected} is missing"
            return
        if checksum(project, "items", (position, name, content)) != proof:
            yield f"item {position} does not pass its checksum"


def compare(
    connection: sqlite3.Connection, project: str, lines: Iterable[bytes]
) -> tuple[str | None, dict[str, list[int]]]:
    """What a sound database has lost, and the rows that its journal lacks."""
    rows = {table: array("Q") for table in COLUMNS}
    for table, marks in rows.items():
        query = f"SELECT checksum FROM {table} ORDER BY rowid"
        marks.extend(int(proof, 16) for (proof,) in connection.execute(query))
    seen = {table: bytearray(len(marks)) for table, marks in rows.items()}
    most = {table: len(marks) for table, marks in rows.items()}
    for start in filter(None, map(proved_start, lines)):
        marks = rows[start.table]
        if start.project != project:
            return (
                "project.journal belongs to another project, or a -wal file of another project "
                "lies beside it"
            ), {}
        if start.number > len(marks):
            most[start.table] = max(most[start.table], start.number)
        elif marks[start.number - 1] != start.checksum:
            return (
                f"project.journal knows another row {start.number} of {start.table} (if the "
                "project was put back from a copy on purpose, move project.journal away)"
            ), {}
        else:
            seen[start.table][start.number - 1] = 1
    for table, count in most.items():
        if count > len(rows[table]):
            return (
                f"{count} {table} were confirmed but only {len(rows[table])} are there, so "
                "project.sqlite3-wal is missing or damaged (put it back; or, if the project was "
                "put back from an older copy on purpose, move project.journal away)"
            ), {}
    return None, {
        table: [number for number, is_seen in enumerate(flags, 1) if not is_seen]
        for table, flags in seen.items()
    }


def salvage(folder: Path) -> Iterator[Answer]:
    """Every answer that can be read and proved, by number, with its item's id where that is proved.

    From the journal; and what that lacks from the database, as far as SQLite can read it.
    """
    check_folder(folder)
    journal, file = Journal(folder), folder / FILE_NAME
    if not journal.file.exists() and not file.exists():
        raise ProjectError(f"There is no project in {folder}, so there is nothing to salvage.")
    names = [*COLUMNS["answers"].split(", "), "id"]
    answers: dict[int, Answer] = {}
    with closing(_database(file)) as database:
        project = _project_in(database)
        for line in journal.lines():
            start = proved_start(line)
            if start is None:
                continue
            project = project or start.project
            if start.project != project:
                raise ProjectError(
                    f"{journal.file} and {file} belong to different projects, or the journal to "
                    "two; move one of them out of the folder to take the answers out of the other."
                )
            if start.table == "answers":
                with suppress(KeyError, UnicodeDecodeError, ProjectDamagedError):
                    record = from_json(line.decode(), dict)
                    answers.setdefault(start.number, Answer(*(record[name] for name in names)))
        for answer in _readable_answers(database, project):
            answers.setdefault(answer.answer, answer)
    for _, answer in sorted(answers.items()):
        yield answer


def _database(file: Path) -> sqlite3.Connection:
    """The project's database for reading; an empty one where it is lost."""
    try:
        return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return sqlite3.connect(":memory:")


def _project_in(database: sqlite3.Connection) -> str | None:
    """The identity that the database has, where SQLite can read it."""
    with suppress(*_UNREADABLE):
        row = database.execute("SELECT value FROM meta WHERE key = 'project'").fetchone()
        return str(from_json(row[0], str))
    return None


def _readable_answers(database: sqlite3.Connection, project: str | None) -> Iterator[Answer]:
    """The answers that SQLite can still read and that pass their checksum."""
    with suppress(*_UNREADABLE):
        query = f"SELECT {COLUMNS['answers']}, checksum FROM answers"
        for *fields, proof in database.execute(query):
            if project is not None and checksum(project, "answers", fields) == proof:
                yield Answer(*[*fields, proved_id(database, project, fields[1])])
