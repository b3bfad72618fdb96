"""Is this project what was written? The questions asked on opening, and the longer list of
``Store.check``."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from parbals.errors import ProjectDamagedError
from parbals.store.rows import checksum, from_json
from parbals.store.schema import schema_of, schema_rows
from parbals.store.witness import Testimony, mark

__all__ = ["ANSWER_COLUMNS", "PASS_COLUMNS", "answer_marks", "problems", "read_meta"]

ANSWER_COLUMNS = "answer, position, annotator, revision, label, source, request, comment, created"
PASS_COLUMNS = "pass, position, annotator, kind, request, comment, created"


def problems(
    connection: sqlite3.Connection,
    version: int,
    testimony: Testimony | None,
    *,
    thorough: bool = False,
) -> Iterator[str]:
    """Every sign of damage, the ones that make further reading pointless first.

    On opening: the tables, the structure of the file, the settings, and every answer and pass.
    ``thorough`` adds what takes longer on a large pool: the items, whose checksums are otherwise
    checked whenever one is read.
    """
    if schema_rows(connection) != schema_of(version):
        yield "its tables are not those of a project"
        return
    # quick_check leaves out whether indexes agree with their tables; for answers a wrong index
    # could hide a label.
    kept = ("answers", "passes") if version > 1 else ("answers",)
    checks = (
        ["integrity_check"]
        if thorough
        else ["quick_check", *(f"integrity_check('{table}')" for table in kept)]
    )
    structure = [
        text
        for check in checks
        for (text,) in connection.execute(f"PRAGMA {check}")
        if text != "ok"
    ]
    if structure:
        yield from structure
        return
    try:
        meta, bad = read_meta(connection, testimony.project if testimony else None)
    except (ProjectDamagedError, KeyError, TypeError):
        yield "its settings cannot be read"
        return
    yield from bad
    if bad:
        return
    yield from _answer_problems(
        connection, meta["project"], set(meta["classes"]), testimony.marks if testimony else b""
    )
    if "passes" in kept:
        yield from _pass_problems(connection, meta["project"])
    if thorough:
        yield from _item_problems(connection, meta["project"])
        for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} belongs to nothing"


def read_meta(
    connection: sqlite3.Connection, project: str | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The settings, and which of them do not pass their checksum (or belong to another project)."""
    rows = {
        key: (value, proof)
        for key, value, proof in connection.execute("SELECT key, value, checksum FROM meta")
    }
    meta = {key: from_json(value) for key, (value, _) in rows.items()}
    owner = meta["project"]
    bad = [
        f"the setting {key!r} does not pass its checksum"
        for key, (value, proof) in rows.items()
        if checksum(owner, "meta", (key, value)) != proof
    ]
    if not isinstance(meta["classes"], list):
        bad.append("its classes cannot be read")
    if project is not None and owner != project and not bad:
        bad.append(
            "project.witness belongs to another project, or a -wal file of another project lies "
            "beside this one"
        )
    return meta, bad


def answer_marks(connection: sqlite3.Connection) -> bytes:
    """The witness's byte of every answer, in order."""
    return bytes(
        mark(proof)
        for (proof,) in connection.execute("SELECT checksum FROM answers ORDER BY answer")
    )


def _answer_problems(
    connection: sqlite3.Connection, project: str, classes: set[str], marks: bytes
) -> Iterator[str]:
    """Answers are numbered 1, 2, ...

    without a gap, and so are the revisions of each item and annotator.
    """
    (n_items,) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items").fetchone()
    latest: dict[tuple[int, str], int] = {}
    n_answers = 0
    for *fields, proof in connection.execute(
        f"SELECT {ANSWER_COLUMNS}, checksum FROM answers ORDER BY answer"
    ):
        answer, position, annotator, revision, label, *_ = fields
        n_answers += 1
        if checksum(project, "answers", fields) != proof:
            yield f"answer {answer} does not pass its checksum"
            continue
        if answer != n_answers:
            yield f"answer {n_answers} is missing"
            n_answers = answer
        if not 0 <= position < n_items:
            yield f"answer {answer} is for item {position}, which is missing"
        if label is not None and label not in classes:
            yield f"answer {answer} has the label {label!r}, which is not a class"
        if revision != latest.get((position, annotator), 0) + 1:
            yield f"revision {revision - 1} of the answer of {annotator!r} for item {position} is missing"
        latest[position, annotator] = revision
        if answer <= len(marks) and marks[answer - 1] not in (0, mark(proof)):
            yield (
                f"project.witness knows another answer {answer} (if the project was put back from "
                "a copy on purpose, delete project.witness)"
            )
            return
    (counted,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'answers'"
    ).fetchone()
    n_confirmed = max(counted, len(marks))
    if n_confirmed > n_answers:
        yield (
            f"{n_confirmed} answers were confirmed but only {n_answers} are there, so "
            "project.sqlite3-wal is missing or damaged (put it back; or, if the project was put "
            "back from an older copy on purpose, delete project.witness)"
        )


def _pass_problems(connection: sqlite3.Connection, project: str) -> Iterator[str]:
    """Passes are numbered 1, 2, ... without a gap."""
    n_passes = 0
    for *fields, proof in connection.execute(
        f"SELECT {PASS_COLUMNS}, checksum FROM passes ORDER BY pass"
    ):
        n_passes += 1
        if checksum(project, "passes", fields) != proof:
            yield f"pass {fields[0]} does not pass its checksum"
        elif fields[0] != n_passes:
            yield f"pass {n_passes} is missing"
            n_passes = fields[0]
    (counted,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'passes'"
    ).fetchone()
    if counted > n_passes:
        yield f"{counted} passes were confirmed but only {n_passes} are there"


def _item_problems(connection: sqlite3.Connection, project: str) -> Iterator[str]:
    for expected, (position, name, content, proof) in enumerate(
        connection.execute("SELECT position, id, content, checksum FROM items ORDER BY position")
    ):
        if position != expected:
            yield f"item {expected} is missing"
            return
        if checksum(project, "items", (position, name, content)) != proof:
            yield f"item {position} does not pass its checksum"
