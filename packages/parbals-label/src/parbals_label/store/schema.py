"""The tables of a project (schema.sql), version 1 of the schema.

A file with a version that this parbals does not know is refused before anything is read.
"""

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from parbals.errors import ProjectError

__all__ = [
    "APPLICATION_ID",
    "COLUMNS",
    "VERSION",
    "check_version",
    "make_tables",
    "new_schema_rows",
    "schema_rows",
    "triggers",
]

APPLICATION_ID = 0x70617262
"""'parb' in the header of the file: identifies a project among SQLite databases."""
VERSION = 1
COLUMNS = {
    "answers": "answer, position, annotator, revision, label, source, request, comment, created",
    "passes": "pass, position, annotator, kind, request, comment, created",
    "requests": "repeat, position, annotator, kind, number, request, created",
}
"""The columns that a row's checksum covers, in order; these tables are also in the journal."""

_TABLES = Path(__file__).with_name("schema.sql").read_text("utf-8").split(";")
_SAME_REVISION = "position = NEW.position AND annotator = NEW.annotator AND revision = NEW.revision"
_APPEND_ONLY = {
    "answers": (
        "answers are kept as they were given; add a revision, or withdraw instead",
        ("answer = NEW.answer", "request = NEW.request", _SAME_REVISION),
    ),
    "passes": (
        "passes are kept as they were given; take back instead",
        ("pass = NEW.pass", "request = NEW.request"),
    ),
    "requests": (
        "requests are kept as they were given",
        ("repeat = NEW.repeat", "request = NEW.request"),
    ),
    "events": ("the log is kept as it was written", ("event = NEW.event",)),
}
"""Append-only tables: the error message of a change, and conditions for rows that a new one would
replace. The triggers are stored in every project, so these texts must not change."""


def triggers(table: str) -> list[tuple[str, str]]:
    """Return names and statements of the triggers that make a table append-only."""
    message, conflicts = _APPEND_ONLY[table]
    action = f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    rows = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {conflict}" for conflict in conflicts)
    events = {
        "changed": "BEFORE UPDATE ON {table}",
        "deleted": "BEFORE DELETE ON {table}",
        # INSERT OR REPLACE deletes conflicting rows without firing the trigger above.
        "replaced": f"BEFORE INSERT ON {{table}} WHEN EXISTS ({rows})",
    }
    statements = []
    for verb, event in events.items():
        name = f"{table}_are_never_{verb}"
        statement = f"CREATE TRIGGER {name} {event.format(table=table)} {action}"
        statements.append((name, statement))
    return statements


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a project in an empty database."""
    for statement in (*_TABLES, *(sql for table in _APPEND_ONLY for _, sql in triggers(table))):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check_version(connection: sqlite3.Connection) -> None:
    """Refuse a database of another program, or of another version of the schema."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise ProjectError("It is an SQLite database of another program, not a parbals project.")
    if version > VERSION:
        raise ProjectError(
            f"It was written by a newer parbals (schema {version}; this one knows {VERSION}); "
            "upgrade parbals."
        )
    if version != VERSION:
        raise ProjectError(f"Its schema version is {version}, which no parbals has written.")


def schema_rows(connection: sqlite3.Connection) -> set[tuple[str, str, str, str | None]]:
    """Return every table, index and trigger of a database."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@cache  # it takes as long as opening a small project
def new_schema_rows() -> set[tuple[str, str, str, str | None]]:
    """Return every table, index and trigger of a new project."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        make_tables(fresh)
        return schema_rows(fresh)
