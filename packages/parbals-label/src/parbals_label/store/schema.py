"""The tables of a project and their versions.

Version n of the schema is what the first n functions of ``MIGRATIONS`` make: a new project runs all
of them, an older one those it lacks, in one transaction. A later version is one more function at
the end of the list; released ones never change. Version 3 has the tables of version 2: it said that
a class was renamed, which a parbals that knows nothing of that would have called damage.
Version 4 remembers requests that repeated, knows people, and its events are a log: who did what,
from where, never changed. Version 5 keeps answers, passes and requests from being replaced as well.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing

from parbals.errors import ProjectError

__all__ = [
    "APPLICATION_ID",
    "COLUMNS",
    "MIGRATIONS",
    "READABLE",
    "WITH_PEOPLE",
    "check_version",
    "schema_of",
    "schema_rows",
    "upgrade",
]

APPLICATION_ID = 0x70617262
"""'parb' in the header of the file: tells a project from any other SQLite database."""
COLUMNS = {
    "answers": "answer, position, annotator, revision, label, source, request, comment, created",
    "passes": "pass, position, annotator, kind, request, comment, created",
    "requests": "repeat, position, annotator, kind, number, request, created",
}
"""What the checksum of a row is taken of, in order."""

_VERSION_1 = (
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
        source TEXT NOT NULL CHECK (source IN ('person', 'import', 'machine')),
        request TEXT UNIQUE,
        comment TEXT,
        created TEXT NOT NULL,
        checksum TEXT NOT NULL,
        UNIQUE (position, annotator, revision)
    )""",
    """CREATE TRIGGER answers_are_never_changed BEFORE UPDATE ON answers
        BEGIN SELECT RAISE(ABORT, 'answers are kept as they were given; add a revision'); END""",
    """CREATE TRIGGER answers_are_never_deleted BEFORE DELETE ON answers
        BEGIN SELECT RAISE(ABORT, 'answers are kept as they were given; withdraw instead'); END""",
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
    """CREATE TABLE leases(
        position INTEGER PRIMARY KEY REFERENCES items(position),
        batch INTEGER NOT NULL,
        annotator TEXT,
        expires REAL,
        FOREIGN KEY (batch, position) REFERENCES batch_items(batch, position)
    )""",
    """CREATE TABLE events(
        event INTEGER PRIMARY KEY AUTOINCREMENT,
        created TEXT NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL
    )""",
    """CREATE TABLE reports(
        report INTEGER PRIMARY KEY,
        created TEXT NOT NULL,
        n_labels INTEGER NOT NULL,
        body TEXT NOT NULL
    )""",
)

_VERSION_2 = (
    # 1: the item waits for anybody on the labelling page; 0: it is out with one person, as a file.
    "ALTER TABLE leases ADD COLUMN queued INTEGER NOT NULL DEFAULT 0",
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
    "CREATE INDEX batch_items_by_item ON batch_items(position)",
    """CREATE TRIGGER passes_are_never_changed BEFORE UPDATE ON passes
        BEGIN SELECT RAISE(ABORT, 'passes are kept as they were given; take back instead'); END""",
    """CREATE TRIGGER passes_are_never_deleted BEFORE DELETE ON passes
        BEGIN SELECT RAISE(ABORT, 'passes are kept as they were given; take back instead'); END""",
)

_VERSION_4 = (
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
    """CREATE TRIGGER requests_are_never_changed BEFORE UPDATE ON requests
        BEGIN SELECT RAISE(ABORT, 'requests are kept as they came'); END""",
    """CREATE TRIGGER requests_are_never_deleted BEFORE DELETE ON requests
        BEGIN SELECT RAISE(ABORT, 'requests are kept as they came'); END""",
    # Who did it (a name), and from where (this machine, or the address that a request came from).
    "ALTER TABLE events ADD COLUMN who TEXT",
    "ALTER TABLE events ADD COLUMN origin TEXT",
    """CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'the log is kept as it was written'); END""",
    """CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'the log is kept as it was written'); END""",
    # INSERT OR REPLACE deletes without asking the trigger above.
    """CREATE TRIGGER events_are_never_replaced BEFORE INSERT ON events
        WHEN EXISTS (SELECT 1 FROM events WHERE event = NEW.event)
        BEGIN SELECT RAISE(ABORT, 'the log is kept as it was written'); END""",
    # A link and a session are kept as hashes: who reads this file cannot open the page with it.
    """CREATE TABLE people(
        key TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL CHECK (role IN ('owner', 'annotator')),
        link TEXT UNIQUE,
        created TEXT NOT NULL
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


def _never_replaced(table: str, *unique: str) -> str:
    """INSERT OR REPLACE deletes the rows that are in its way without asking the other triggers."""
    clashes = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {clash}" for clash in unique)
    return f"""CREATE TRIGGER {table}_are_never_replaced BEFORE INSERT ON {table}
        WHEN EXISTS ({clashes})
        BEGIN SELECT RAISE(ABORT, '{table} are kept as they were given'); END"""


_SAME = "request = NEW.request"
_VERSION_5 = (
    _never_replaced(
        "answers",
        "answer = NEW.answer",
        _SAME,
        "position = NEW.position AND annotator = NEW.annotator AND revision = NEW.revision",
    ),
    _never_replaced("passes", "pass = NEW.pass", _SAME),
    _never_replaced("requests", "repeat = NEW.repeat", _SAME),
)


def _running(statements: Sequence[str]) -> Callable[[sqlite3.Connection], None]:
    def migrate(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return migrate


MIGRATIONS = [_running(step) for step in (_VERSION_1, _VERSION_2, (), _VERSION_4, _VERSION_5)]
READABLE = 2
"""The oldest version that can be read as it is: later ones have the same tables, and more."""
WITH_PEOPLE = 4
"""The version that has people, and says of an event who did it."""


def check_version(connection: sqlite3.Connection) -> int:
    """The schema's version; a database of another program or of a later parbals is refused."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise ProjectError("It is an SQLite database of another program, not a parbals project.")
    if version > len(MIGRATIONS):
        raise ProjectError(
            f"It was written by a newer parbals (schema {version}; this one knows "
            f"{len(MIGRATIONS)}); upgrade parbals."
        )
    if version < 1:
        raise ProjectError(f"Its schema version is {version}, which no parbals has written.")
    return int(version)


def upgrade(
    connection: sqlite3.Connection, copy: Callable[[int], None] = lambda version: None
) -> None:
    """Bring a new or older project to the newest schema: all the steps it lacks, or none.

    ``copy`` is called first, with the version there is, while nobody else can write.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if 0 < version < len(MIGRATIONS):
            copy(version)
        for migration in MIGRATIONS[version:]:
            migration(connection)
        if version < len(MIGRATIONS):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def schema_rows(connection: sqlite3.Connection) -> set[tuple[str, str, str, str | None]]:
    """Every table, index and trigger as SQLite keeps it."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def schema_of(version: int) -> set[tuple[str, str, str, str | None]]:
    """What ``schema_rows`` must say for a sound project of this version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in MIGRATIONS[:version]:
            migration(connection)
        return schema_rows(connection)
