"""Integrity checks on opening a project and in ``Store.check``, and recovery of answers."""

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
from parbals_label.store.journal import Journal, verified_id, verified_start
from parbals_label.store.records import Answer
from parbals_label.store.rows import checksum, from_json
from parbals_label.store.schema import COLUMNS, new_schema_rows, schema_rows

__all__ = ["compare", "find_problems", "read_meta", "salvage"]

_READ_ERRORS = (sqlite3.Error, ValueError, TypeError, ProjectDamagedError)
"""Errors of reading a damaged database."""


def find_problems(connection: sqlite3.Connection, *, thorough: bool = False) -> Iterator[str]:
    """Iterate over all signs of damage; stop at one that makes further reading pointless.

    Checks the tables, the structure of the file, the settings, and every answer and pass.
    ``thorough`` also checks the items, which takes longer on a large pool; otherwise the checksum
    of an item is verified whenever it is read.
    """
    if schema_rows(connection) != new_schema_rows():
        yield "its tables are not those of a project"
        return
    # quick_check does not compare indexes with their tables; a wrong index could hide a label.
    checks = ["quick_check", *(f"integrity_check('{table}')" for table in COLUMNS)]
    if thorough:
        checks = ["integrity_check"]
    structural_faults = [
        text
        for check in checks
        for (text,) in connection.execute(f"PRAGMA {check}")
        if text != "ok"
    ]
    if structural_faults:
        yield from structural_faults
        return
    try:
        meta, faults = read_meta(connection)
    except (ProjectDamagedError, KeyError, TypeError):
        yield "its settings cannot be read"
        return
    yield from faults
    if faults:
        return
    for table in COLUMNS:
        yield from _row_problems(connection, meta, table)
    if thorough:
        yield from _item_problems(connection, meta["project"])
        for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} refers to a missing row"


def read_meta(connection: sqlite3.Connection) -> tuple[dict[str, Any], list[str]]:
    """Return the settings, and a sentence for each that fails its checksum."""
    meta, faults = _parsed(tuple(connection.execute("SELECT key, value, checksum FROM meta")))
    return dict(meta), list(faults)


@lru_cache(maxsize=4)  # they are read for every answer and seldom change
def _parsed(rows: tuple[tuple[str, str, str], ...]) -> tuple[dict[str, Any], list[str]]:
    meta = {key: from_json(value) for key, value, _ in rows}
    project = meta["project"]
    faults = [
        f"the setting {key!r} does not pass its checksum"
        for key, value, stored_checksum in rows
        if checksum(project, "meta", (key, value)) != stored_checksum
    ]
    classes = meta["classes"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        faults.append("its classes cannot be read")
    return meta, faults


def _row_problems(
    connection: sqlite3.Connection, meta: dict[str, Any], table: str
) -> Iterator[str]:
    """Check the checksums and numbers of the rows of a table.

    Rows are numbered 1, 2, ... without gaps, and SQLite stores the last number separately.
    """
    check = _answer_check(connection, meta) if table == "answers" else lambda fields: iter(())
    name = COLUMNS[table].partition(",")[0]
    n_rows = 0
    for *fields, row_checksum in connection.execute(
        f"SELECT {COLUMNS[table]}, checksum FROM {table} ORDER BY rowid"
    ):
        n_rows += 1
        if checksum(meta["project"], table, fields) != row_checksum:
            yield f"{name} {fields[0]} does not pass its checksum"
            continue
        if fields[0] != n_rows:
            yield f"{name} {n_rows} is missing"
            n_rows = fields[0]
        yield from check(fields)
    (last_number,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,)
    ).fetchone()
    if last_number > n_rows:
        yield f"{last_number} {table} were confirmed but only {n_rows} are there"


def _answer_check(
    connection: sqlite3.Connection, meta: dict[str, Any]
) -> Callable[[list[Any]], Iterator[str]]:
    """Return a check of an answer's item, label and revision, which has no gaps either."""
    (n_items,) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items").fetchone()
    form = AnswerForm.of(meta)
    renames = Renames.of(meta)
    latest: dict[tuple[int, str], int] = {}

    def check(fields: list[Any]) -> Iterator[str]:
        answer, position, annotator, revision, label, *_ = fields
        if not 0 <= position < n_items:
            yield f"answer {answer} is for item {position}, which is missing"
        if label is not None and not form.fits(str(renames.current_name(label, answer))):
            yield f"answer {answer} has the label {label!r}, which is not a class"
        if revision != latest.get((position, annotator), 0) + 1:
            missing = f"revision {revision - 1} of the answer of {annotator!r}"
            yield f"{missing} for item {position} is missing"
        latest[position, annotator] = revision

    return check


def _item_problems(connection: sqlite3.Connection, project: str) -> Iterator[str]:
    for expected, (position, name, content, row_checksum) in enumerate(
        connection.execute("SELECT position, id, content, checksum FROM items ORDER BY position")
    ):
        if position != expected:
            yield f"item {expected} is missing"
            return
        if checksum(project, "items", (position, name, content)) != row_checksum:
            yield f"item {position} does not pass its checksum"


def compare(
    connection: sqlite3.Connection, project: str, lines: Iterable[bytes]
) -> tuple[str | None, dict[str, list[int]]]:
    """Compare a sound database with its journal.

    Returns what the database has lost, None if nothing, and the rows that the journal lacks.
    """
    checksums = {table: array("Q") for table in COLUMNS}
    for table, values in checksums.items():
        query = f"SELECT checksum FROM {table} ORDER BY rowid"
        values.extend(int(row_checksum, 16) for (row_checksum,) in connection.execute(query))
    in_journal = {table: bytearray(len(values)) for table, values in checksums.items()}
    last_numbers = {table: len(values) for table, values in checksums.items()}
    for start in filter(None, map(verified_start, lines)):
        values = checksums[start.table]
        if start.project != project:
            return (
                "project.journal belongs to another project, or a -wal file of another project "
                "lies beside it"
            ), {}
        if start.number > len(values):
            last_numbers[start.table] = max(last_numbers[start.table], start.number)
        elif values[start.number - 1] != start.checksum:
            return (
                f"project.journal has another row {start.number} of {start.table} (if the "
                "project was put back from a copy on purpose, move project.journal away)"
            ), {}
        else:
            in_journal[start.table][start.number - 1] = 1
    for table, count in last_numbers.items():
        if count > len(checksums[table]):
            return (
                f"{count} {table} were confirmed but only {len(checksums[table])} are there, so "
                "project.sqlite3-wal is missing or damaged (put it back; or, if the project was "
                "put back from an older copy on purpose, move project.journal away)"
            ), {}
    return None, {
        table: [number for number, is_present in enumerate(flags, 1) if not is_present]
        for table, flags in in_journal.items()
    }


def salvage(folder: Path) -> Iterator[Answer]:
    """Iterate over all answers that can be read and verified, by number.

    They come from the journal and, where it lacks some, from the database as far as SQLite can
    read it. The id of an item is None if it cannot be verified.
    """
    check_folder(folder)
    journal = Journal(folder)
    file = folder / FILE_NAME
    if not journal.file.exists() and not file.exists():
        raise ProjectError(f"There is no project in {folder}, so there is nothing to salvage.")
    names = [*COLUMNS["answers"].split(", "), "id"]
    answers: dict[int, Answer] = {}
    with closing(_open_database(file)) as database:
        project = _project_id(database)
        for line in journal.lines():
            start = verified_start(line)
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


def _open_database(file: Path) -> sqlite3.Connection:
    """Open the project's database for reading; an empty one if it is lost."""
    try:
        return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return sqlite3.connect(":memory:")


def _project_id(database: sqlite3.Connection) -> str | None:
    """Return the project's id from the database, None if SQLite cannot read it."""
    with suppress(*_READ_ERRORS):
        row = database.execute("SELECT value FROM meta WHERE key = 'project'").fetchone()
        return str(from_json(row[0], str))
    return None


def _readable_answers(database: sqlite3.Connection, project: str | None) -> Iterator[Answer]:
    """Iterate over the answers that SQLite can read and whose checksum is right."""
    with suppress(*_READ_ERRORS):
        query = f"SELECT {COLUMNS['answers']}, checksum FROM answers"
        for *fields, row_checksum in database.execute(query):
            if project is not None and checksum(project, "answers", fields) == row_checksum:
                yield Answer(*[*fields, verified_id(database, project, fields[1])])
