"""The answers of a damaged project: what can still be read and proved."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from parbals.errors import ProjectDamagedError, ProjectError

from parbals_label.store.folder import check_folder
from parbals_label.store.journal import Journal, proved_id, proved_start
from parbals_label.store.records import Answer
from parbals_label.store.rows import checksum, from_json
from parbals_label.store.schema import COLUMNS

__all__ = ["salvage"]

_UNREADABLE = (sqlite3.Error, ValueError, TypeError, ProjectDamagedError)
"""What reading a damaged database raises."""


def salvage(folder: Path, file: Path) -> Iterator[Answer]:
    """Every answer that can be read and proved, by number, with its item's id where that is proved.

    From the journal; and what that lacks from the database, as far as SQLite can read it.
    """
    check_folder(folder)
    journal = Journal(folder)
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
