"""Removes a person's name from a project; their answers stay, under a pseudonym.

This is the only place where append-only rows are changed, with their checksums, because each
contains the name. The journal, which contains the old rows, is deleted before the database changes
and written again afterwards; if the process is killed in between, the next one to open the project
completes the journal. Earlier backups and exports still contain the name.
"""

import sqlite3
from typing import Any

from parbals.errors import InputError

from parbals_label.store.names import name_key
from parbals_label.store.records import PERSON_REMOVED
from parbals_label.store.rows import checksum, from_json, to_json
from parbals_label.store.schema import COLUMNS, triggers
from parbals_label.store.settings import write_meta
from parbals_label.store.store import Store

__all__ = ["forget_person"]

_CHANGED_TABLES = (*COLUMNS, "events")


def forget_person(store: Store, name: str) -> dict[str, str]:
    """Replace every spelling of a name; returns spelling → pseudonym.

    Nobody else may use the project meanwhile.
    """
    names = store.annotator_names()
    everybody = dict.fromkeys([*names, *(person.name for person in store.people())])
    spellings = [spelling for spelling in everybody if name_key(spelling) == name_key(name)]
    if not spellings:
        raise InputError(f"Nobody called {name!r} was invited or has labelled anything.")
    candidates = (f"person {n}" for n in range(1, len(everybody) + len(spellings) + 1))
    unused = (candidate for candidate in candidates if candidate not in everybody)
    pseudonyms = dict(zip(spellings, unused, strict=False))
    database = store._db
    with database.transaction() as connection:
        for table in _CHANGED_TABLES:
            for trigger, _ in triggers(table):
                connection.execute(f"DROP TRIGGER {trigger}")
        for old, new in pseudonyms.items():
            _rename(connection, database.project, old, new)
        labelled = [new for old, new in pseudonyms.items() if old in names]
        _replace_person(connection, name_key(name), labelled)
        for table in _CHANGED_TABLES:
            for _, statement in triggers(table):
                connection.execute(statement)
        write_meta(connection, database.project, {"heard": []})  # the next report stores it again
        store._log(connection, PERSON_REMOVED, {"name": ", ".join(pseudonyms.values())})
        database.journal.file.unlink(missing_ok=True)
    store.close()
    with Store.open(store.folder) as reopened, reopened._db.reading() as connection:
        connection.execute("VACUUM")  # removes the name from free pages of the file
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return pseudonyms


def _rename(connection: sqlite3.Connection, project: str, old: str, new: str) -> None:
    """Replace a name in all tables."""
    for table, columns in COLUMNS.items():
        rows = connection.execute(
            f"SELECT {columns} FROM {table} WHERE annotator = ?", (old,)
        ).fetchall()
        names = columns.split(", ")
        for row in rows:
            fields = dict(zip(names, row, strict=True)) | {"annotator": new}
            request = fields["request"]
            if isinstance(
                request, str
            ):  # ids of Label Studio end with the annotator's e-mail address
                fields["request"] = request.replace(f":{old}", f":{new}")
            proof = checksum(project, table, list(fields.values()))
            connection.execute(
                f"UPDATE {table} SET annotator = ?, request = ?, checksum = ? WHERE rowid = ?",
                (new, fields["request"], proof, row[0]),
            )
    for table in ("leases", "given"):
        connection.execute(f"UPDATE {table} SET annotator = ? WHERE annotator = ?", (new, old))
    for event, detail, who in connection.execute(
        "SELECT event, detail, who FROM events"
    ).fetchall():
        new_detail = to_json(_replace_name(from_json(detail), old, new), "detail")
        if (new_detail, who) != (detail, old):
            connection.execute(
                "UPDATE events SET detail = ?, who = ? WHERE event = ?",
                (new_detail, new if who == old else who, event),
            )


def _replace_person(connection: sqlite3.Connection, key: str, pseudonyms: list[str]) -> None:
    """End the link and the sessions of a person; the pseudonyms are people of the project instead.

    Otherwise answers that came in files would no longer count in a measurement.
    """
    row = connection.execute("SELECT role, created FROM people WHERE key = ?", (key,)).fetchone()
    if row is None:
        return
    connection.execute(
        "DELETE FROM sessions WHERE link IN (SELECT link FROM people WHERE key = ?)", (key,)
    )
    connection.execute("DELETE FROM people WHERE key = ?", (key,))
    connection.executemany(
        "INSERT INTO people VALUES (?, ?, ?, NULL, ?, NULL)",
        [(name_key(name), name, *row) for name in pseudonyms],
    )


def _replace_name(value: Any, old: str, new: str) -> Any:
    """Replace a name in keys, values and elements of a JSON value."""
    if isinstance(value, dict):
        return {
            _replace_name(key, old, new): _replace_name(element, old, new)
            for key, element in value.items()
        }
    if isinstance(value, list):
        return [_replace_name(element, old, new) for element in value]
    return new if value == old else value
