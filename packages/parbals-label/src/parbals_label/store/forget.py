"""A person's name leaves a project; what they said stays, under a number.

Rows that are never changed are changed here, once, with their checksums: the name is in each of
them. The journal, which knows the old rows, is removed before the database changes and written
again after it; a process that dies in between leaves a project whose journal is made whole when it
is opened next. Backups and exports that were made before still hold the name.
"""

import sqlite3
from typing import Any

from parbals.errors import InputError

from parbals_label.store.people import name_key
from parbals_label.store.records import FORGOTTEN
from parbals_label.store.rows import checksum, from_json, to_json
from parbals_label.store.schema import COLUMNS, triggers
from parbals_label.store.settings import write_meta
from parbals_label.store.store import Store

__all__ = ["forget_person"]

_CHANGED = (*COLUMNS, "events")


def forget_person(store: Store, name: str) -> dict[str, str]:
    """Replace every spelling of a name; spelling → the number that stands for it now.

    Nobody else may use the project meanwhile.
    """
    names = store.annotator_names()
    everybody = [*names, *(person.name for person in store.people())]
    spellings = [one for one in dict.fromkeys(everybody) if name_key(one) == name_key(name)]
    if not spellings:
        raise InputError(f"Nobody called {name!r} was invited or has labelled anything.")
    free = (f"person {n}" for n in range(1, len(names) + len(spellings) + 1))
    numbers = dict(zip(spellings, (one for one in free if one not in names), strict=False))
    database = store._db
    with database.transaction() as connection:
        for table in _CHANGED:
            for title, _ in triggers(table):
                connection.execute(f"DROP TRIGGER {title}")
        for old, new in numbers.items():
            _rename(connection, database.project, old, new)
        for table in _CHANGED:
            for _, statement in triggers(table):
                connection.execute(statement)
        write_meta(connection, database.project, {"heard": []})  # the next report has it again
        store._log(connection, FORGOTTEN, {"name": ", ".join(numbers.values())})
        database.journal.file.unlink(missing_ok=True)
    store.close()
    with Store.open(store.folder) as again, again._db.reading() as connection:  # a new journal
        connection.execute("VACUUM")  # nothing of the name stays in pages that are free now
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return numbers


def _rename(connection: sqlite3.Connection, project: str, old: str, new: str) -> None:
    for table, columns in COLUMNS.items():
        rows = connection.execute(
            f"SELECT {columns} FROM {table} WHERE annotator = ?", (old,)
        ).fetchall()
        names = columns.split(", ")
        for row in rows:
            fields = dict(zip(names, row, strict=True)) | {"annotator": new}
            request = fields["request"]
            if isinstance(request, str):  # Label Studio's ends in the annotator's address
                fields["request"] = request.replace(f":{old}", f":{new}")
            proof = checksum(project, table, list(fields.values()))
            connection.execute(
                f"UPDATE {table} SET annotator = ?, request = ?, checksum = ? WHERE rowid = ?",
                (new, fields["request"], proof, row[0]),
            )
    for table in ("leases", "given"):
        connection.execute(f"UPDATE {table} SET annotator = ? WHERE annotator = ?", (new, old))
    connection.execute(
        "DELETE FROM sessions WHERE link IN (SELECT link FROM people WHERE name = ?)", (old,)
    )
    connection.execute("DELETE FROM people WHERE name = ?", (old,))
    for event, detail, who in connection.execute(
        "SELECT event, detail, who FROM events"
    ).fetchall():
        changed = to_json(_without(from_json(detail), old, new), "detail")
        if (changed, who) != (detail, old):
            connection.execute(
                "UPDATE events SET detail = ?, who = ? WHERE event = ?",
                (changed, new if who == old else who, event),
            )


def _without(value: Any, old: str, new: str) -> Any:
    """The same value with another name in it."""
    if isinstance(value, dict):
        return {_without(k, old, new): _without(v, old, new) for k, v in value.items()}
    if isinstance(value, list):
        return [_without(one, old, new) for one in value]
    return new if value == old else value
