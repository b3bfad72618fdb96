"""The tables of a project, as schema.sql has them: version 1 of the schema.

A later version is another set of tables under another number; a file with a number that this
parbals does not know is refused before any of it is read.
"""

import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources

from parbals.errors import ProjectError

__all__ = ["APPLICATION_ID", "COLUMNS", "VERSION", "check_version", "make_tables", "schema_rows"]
__all__ += ["new_schema_rows", "triggers"]

APPLICATION_ID = 0x70617262
"""'parb' in the header of the file: tells a project from any other SQLite database."""
VERSION = 1
COLUMNS = {
    "answers": "answer, position, annotator, revision, label, source, request, comment, created",
    "passes": "pass, position, annotator, kind, request, comment, created",
    "requests": "repeat, position, annotator, kind, number, request, created",
}
"""What the checksum of a row is taken of, in order; these tables are written to the journal too."""

_TABLES = (
    resources.files("parbals_label.store").joinpath("schema.sql").read_text("utf-8").split(";")
)
_REVISION = "position = NEW.position AND annotator = NEW.annotator AND revision = NEW.revision"
_KEPT = {
    "answers": (
        "answers are kept as they were given; add a revision, or withdraw instead",
        ("answer = NEW.answer", "request = NEW.request", _REVISION),
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
"""Tables that only grow: the answer to a change, and the rows that a new one would replace."""


def triggers(table: str) -> list[tuple[str, str]]:
    """Name and statement of what keeps the rows of a table as they were written."""
    reason, clashes = _KEPT[table]
    refusal = f"BEGIN SELECT RAISE(ABORT, '{reason}'); END"
    rows = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {clash}" for clash in clashes)
    when = {
        "changed": "BEFORE UPDATE ON {table}",
        "deleted": "BEFORE DELETE ON {table}",
        # INSERT OR REPLACE deletes the rows in its way without asking the trigger above.
        "replaced": f"BEFORE INSERT ON {{table}} WHEN EXISTS ({rows})",
    }
    names = {f"{table}_are_never_{what}": moment for what, moment in when.items()}
    return [
        (name, f"CREATE TRIGGER {name} {moment.format(table=table)} {refusal}")
        for name, moment in names.items()
    ]


def make_tables(connection: sqlite3.Connection) -> None:
    """Give an empty database the tables of a project."""
    for statement in (*_TABLES, *(sql for table in _KEPT for _, sql in triggers(table))):
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
    """Every table, index and trigger as SQLite keeps it."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@cache  # it takes as long as everything else that opening a small project takes
def new_schema_rows() -> set[tuple[str, str, str, str | None]]:
    """Those of a new project."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        make_tables(fresh)
        return schema_rows(fresh)
