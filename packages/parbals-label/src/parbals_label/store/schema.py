"""The tables of a project: version 1 of the schema.

A later version is another set of tables under another number; a file with a number that this
parbals does not know is refused before any of it is read.
"""

import sqlite3
from contextlib import closing

from parbals.errors import ProjectError

__all__ = ["APPLICATION_ID", "COLUMNS", "VERSION", "check_version", "make_tables", "schema_rows"]
__all__ += ["triggers"]

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
    """CREATE TABLE meta(
        key TEXT PRIMARY KEY NOT NULL,
        value TEXT NOT NULL,
        checksum TEXT NOT NULL
    )""",
    """CREATE TABLE items(
        position INTEGER PRIMARY KEY CHECK (position >= 0),
        id TEXT UNIQUE NOT NULL,
        content TEXT NOT NULL,
        checksum TEXT NOT NULL
    )""",
    """CREATE TABLE answers(
        answer INTEGER PRIMARY KEY AUTOINCREMENT,
        position INTEGER NOT NULL REFERENCES items(position),
        annotator TEXT NOT NULL,
        revision INTEGER NOT NULL CHECK (revision >= 1),
        label TEXT,
        source TEXT NOT NULL
            CHECK (source IN ('person', 'import', 'machine', 'bulk', 'decision')),
        request TEXT UNIQUE,
        comment TEXT,
        created TEXT NOT NULL,
        checksum TEXT NOT NULL,
        UNIQUE (position, annotator, revision)
    )""",
    """CREATE TABLE passes(
        pass INTEGER PRIMARY KEY AUTOINCREMENT,
        position INTEGER NOT NULL REFERENCES items(position),
        annotator TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('skip', 'unsure', 'taken back')),
        request TEXT UNIQUE,
        comment TEXT,
        created TEXT NOT NULL,
        checksum TEXT NOT NULL
    )""",
    "CREATE INDEX passes_by_item ON passes(position, annotator)",
    # Requests that repeated what was there: ``number`` is the row of the table ``kind``.
    """CREATE TABLE requests(
        repeat INTEGER PRIMARY KEY AUTOINCREMENT,
        position INTEGER NOT NULL REFERENCES items(position),
        annotator TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('answers', 'passes')),
        number INTEGER NOT NULL,
        request TEXT UNIQUE NOT NULL,
        created TEXT NOT NULL,
        checksum TEXT NOT NULL
    )""",
    """CREATE TABLE batches(
        batch INTEGER PRIMARY KEY,
        created TEXT NOT NULL,
        strategy TEXT NOT NULL,
        seed INTEGER,
        settings TEXT NOT NULL
    )""",
    """CREATE TABLE batch_items(
        batch INTEGER NOT NULL REFERENCES batches(batch),
        position INTEGER NOT NULL REFERENCES items(position),
        rank INTEGER NOT NULL,
        score REAL,
        initial_score REAL,
        PRIMARY KEY (batch, position)
    )""",
    "CREATE INDEX batch_items_by_item ON batch_items(position)",
    # queued: the item waits for anybody on the labelling page; else one person has it as a file.
    """CREATE TABLE leases(
        position INTEGER PRIMARY KEY REFERENCES items(position),
        batch INTEGER NOT NULL,
        annotator TEXT,
        expires REAL,
        queued INTEGER NOT NULL,
        FOREIGN KEY (batch, position) REFERENCES batch_items(batch, position)
    )""",
    # Whom an item of the page was ever given to: an answer may come after its lease has ended.
    """CREATE TABLE given(
        position INTEGER NOT NULL REFERENCES items(position),
        annotator TEXT NOT NULL,
        PRIMARY KEY (position, annotator)
    ) WITHOUT ROWID""",
    # who: a name; origin: this machine, or the address that a request came from.
    """CREATE TABLE events(
        event INTEGER PRIMARY KEY AUTOINCREMENT,
        created TEXT NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL,
        who TEXT NOT NULL,
        origin TEXT NOT NULL
    )""",
    """CREATE TABLE reports(
        report INTEGER PRIMARY KEY,
        created TEXT NOT NULL,
        n_labels INTEGER NOT NULL,
        body TEXT NOT NULL
    )""",
    # A link and a session are kept as hashes: who reads this file cannot open the page with it.
    """CREATE TABLE people(
        key TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL CHECK (role IN ('owner', 'annotator')),
        link TEXT UNIQUE,
        created TEXT NOT NULL,
        expires REAL
    )""",
    """CREATE TABLE sessions(
        session TEXT PRIMARY KEY NOT NULL,
        key TEXT NOT NULL,
        link TEXT NOT NULL,
        place TEXT NOT NULL,
        created REAL NOT NULL,
        expires REAL NOT NULL
    )""",
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


def schema_rows(
    connection: sqlite3.Connection | None = None,
) -> set[tuple[str, str, str, str | None]]:
    """Every table, index and trigger as SQLite keeps it; without a connection, of a new project."""
    if connection is not None:
        return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        make_tables(fresh)
        return schema_rows(fresh)
