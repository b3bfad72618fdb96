"""The project store: everything that is written to a project goes through it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from parbals.errors import ParbalsError

from parbals_label.store.answers import Answers
from parbals_label.store.batches import Batches
from parbals_label.store.database import Database
from parbals_label.store.folder import create_file
from parbals_label.store.integrity import compare, find_problems, salvage
from parbals_label.store.items import Items
from parbals_label.store.passes import Passes
from parbals_label.store.people import People
from parbals_label.store.queue import Queue
from parbals_label.store.records import Item, Report
from parbals_label.store.rows import from_json, to_json, utc_now
from parbals_label.store.schema import check_version
from parbals_label.store.settings import check_classes, checked_settings, write_meta

__all__ = ["Store"]


class Store(People, Items, Answers, Batches, Passes, Queue):
    """A labelling project in a folder, used from one thread; many processes may have it open.

    Guarantees:

    * P1 A call that has returned is on disk. It survives a crash of the process and power loss
      (SQLite, write-ahead log, synchronous FULL); answers and passes are in the journal as well. A
      call that raised an error has stored nothing, or says that it was not confirmed; repeating it
      is safe.
    * P2 There is one answer per item, annotator and revision. Repeating a request with its id
      changes nothing.
    * P3 A later answer never silently replaces an earlier one: a revision must be requested, and
      the history keeps both.
    * P4 Damage is detected when the project is opened (answers, settings, structure, lost files) or
      when a damaged row is read (items), and the project is refused; ``salvage`` recovers the
      answers that can still be verified.
    * P5 Everything that a batch depends on is stored (order of items, labels, assigned items, seed
      and settings), so that the same seed and labels give the same batch again.
    * P6 Bad input is refused before anything changes, naming the row and what is wrong with it.
    * P8 Nothing in the files is ever executed: values are text, numbers and JSON, never pickle, and
      the schema contains only what parbals created.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with Store.create(f"{folder}/mail", classes=["ham", "spam"], settings={}) as store:
    ...         store.add_items([("m1", {"text": "Win a prize"}), ("m2", {"text": "Lunch?"})])
    2
    """

    def __init__(self, database: Database) -> None:
        """Use ``Store.create`` or ``Store.open``."""
        self._db = database

    @classmethod
    def create(
        cls, folder: str | PathLike[str], *, classes: Sequence[str], settings: dict[str, Any]
    ) -> Self:
        """Create an empty project; a folder that already contains one is refused."""
        meta = {
            **checked_settings(settings),
            "classes": check_classes(classes, settings.get("task")),
            "project": uuid4().hex,
        }

        def fill(connection: sqlite3.Connection) -> None:
            write_meta(connection, meta["project"], meta)

        create_file(Path(folder), fill)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | PathLike[str], *, read_only: bool = False) -> Self:
        """Open the project in a folder, after checking that it is undamaged."""
        return cls(Database(Path(folder), read_only=read_only))

    salvage = staticmethod(salvage)

    def close(self) -> None:
        """Close the project; closing twice is fine."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all calls inside the block together; none is on disk before the block ends.

        A call that refuses its input stores nothing and does not affect the others; any other
        error rolls back the whole block.
        """
        with self._db.transaction():
            yield

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """The project's folder."""
        return self._db.file.parent

    @property
    def read_only(self) -> bool:
        """Whether the project was opened for reading only."""
        return self._db.read_only

    @property
    def identity(self) -> str:
        """The unique id of the project."""
        return self._db.project

    def visible_items(self, positions: Sequence[int]) -> list[Item]:
        """Return items without their hidden columns, as annotators see them."""
        hidden = self.settings.hidden
        return [item.without(hidden) for item in self.items(positions)]

    @property
    def journal_behind(self) -> int:
        """The number of stored rows that could not be written to the journal yet."""
        return self._db.journal.behind

    def save_report(self, body: dict[str, Any], n_labels: int) -> int:
        """Store a report on ``n_labels`` labels; returns its number."""
        row = (utc_now(), int(n_labels), to_json(body, "body"))
        with self._db.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO reports (created, n_labels, body) VALUES (?, ?, ?)", row
            )
            return int(cursor.lastrowid or 0)

    def latest_report(self) -> Report | None:
        """Return the latest report, None if there is none."""
        return next(iter(self._reports("ORDER BY report DESC LIMIT 1")), None)

    def reports(self, after: int = 0) -> list[Report]:
        """Return the reports with a number above ``after``, oldest first."""
        return self._reports("WHERE report > ? ORDER BY report", after)

    def _reports(self, clause: str, *values: int) -> list[Report]:
        rows = self._db.rows(
            f"SELECT report, created, n_labels, body FROM reports {clause}", values
        )
        return [
            Report(report=number, created=created, n_labels=n_labels, body=from_json(body, dict))
            for number, created, n_labels, body in rows
        ]

    def revision(self) -> tuple[int, ...]:
        """Return numbers that change whenever answers, passes, batches, reports or settings do."""
        tables = ("answers", "passes", "batches", "reports")
        query = " UNION ALL ".join(f"SELECT coalesce(max(rowid), 0) FROM {name}" for name in tables)
        last_rows = [number for (number,) in self._db.rows(query)]
        return (*last_rows, self.settings_mark())

    def copy_database(self, file: Path) -> None:
        """Copy the database to a new file, in its present state."""
        with self._db.reading() as connection, closing(sqlite3.connect(file)) as copy:
            connection.backup(copy)

    def check(self) -> list[str]:
        """Check all files of the project; returns a sentence for every fault."""
        size = self._db.journal.size()
        faults: list[str] = []
        try:
            with self._db.reading() as connection:
                connection.execute("BEGIN")
                try:
                    check_version(connection)
                    faults += find_problems(connection, thorough=True)
                    lines = self._db.journal.lines(size)
                    if not faults:
                        lost, _ = compare(connection, self.identity, lines)
                        faults += [lost] if lost else []
                finally:
                    connection.execute("COMMIT")
        except ParbalsError as error:
            faults.append(str(error))
        return faults
