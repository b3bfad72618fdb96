"""Requests that were answered: each is known by its id for ever, so that a late retry is free.

An id stands with the answer or pass that it made. One that made nothing, because the annotator had
said the same before, has a row of its own in ``requests`` that names what it repeated: without it,
a late retry would bring back what was corrected or withdrawn meanwhile.
"""

import sqlite3
from typing import NamedTuple

from parbals.errors import InputError

from parbals_label.store.database import Database
from parbals_label.store.rows import now

__all__ = ["Known", "RequestUsedError", "known_request", "remember_request"]

_LOOK = {
    "answers": "SELECT 'answers', answer, position, annotator, label FROM answers WHERE ",
    "passes": "SELECT 'passes', pass, position, annotator, kind FROM passes WHERE ",
}
_KNOWN = (
    f"{_LOOK['answers']} request = :id UNION ALL {_LOOK['passes']} request = :id UNION ALL SELECT "
    "kind, number, NULL, NULL, NULL FROM requests WHERE request = :id"
)


class RequestUsedError(InputError):
    """The request id was used for something else."""


class Known(NamedTuple):
    """What a request was answered with: a row of ``answers`` or of ``passes``.

    ``said`` is the label by the name it had then (None: withdrawn), or the kind of the pass.
    """

    table: str
    number: int
    position: int
    annotator: str
    said: str | None


def known_request(connection: sqlite3.Connection, request: str | None) -> Known | None:
    """What a request with this id was answered with; None if there was none."""
    if request is None:
        return None
    row = connection.execute(_KNOWN, {"id": request}).fetchone()
    if row is not None and row[2] is None:
        query = f"{_LOOK[row[0]]} rowid = ?"
        row = connection.execute(query, (row[1],)).fetchone()
    return None if row is None else Known(*row)


def remember_request(
    database: Database, connection: sqlite3.Connection, request: str | None, repeated: Known
) -> None:
    """Keep the id of a request that made no row; inside a transaction."""
    if request is None:
        return
    (last,) = connection.execute("SELECT coalesce(max(repeat), 0) FROM requests").fetchone()
    fields = (last + 1, repeated.position, repeated.annotator, repeated.table, repeated.number)
    database.insert("requests", (*fields, request, now()))
