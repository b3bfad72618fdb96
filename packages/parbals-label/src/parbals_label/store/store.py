"""The project store: the one way in which anything is written to a project."""

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
from parbals_label.store.integrity import compare, problems, salvage
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

    What it promises:

    * P1 A call that has returned is on disk. It survives the death of the process, and power loss
      (SQLite, write-ahead log, synchronous FULL); answers and passes are in the journal as well. A
      call that raised has stored nothing, or its caller is told that it was not confirmed;
      repeating it is safe.
    * P2 There is one answer per item, annotator and revision. Repeating a request with its id
      changes nothing.
    * P3 A later answer never silently replaces an earlier one: it must be asked for, and history
      keeps both.
    * P4 A damaged project is noticed when it is opened (answers, settings, structure, lost files)
      or when the damaged row is read (items), and refused; ``salvage`` takes out the answers that
      can still be proved.
    * P5 Everything a batch depends on is kept (order of items, labels, what is out, seed and
      settings), so that the same seed and labels give the same batch again.
    * P6 Bad input is refused before anything changes, naming the row and what is wrong with it.
    * P8 Nothing in the files is ever executed: values are text, numbers and JSON, no pickle, and
      nothing in the schema that parbals did not put there.
    """

    def __init__(self, database: Database) -> None:
        """Use ``Store.create`` or ``Store.open``."""
        self._db = database

    @classmethod
    def create(
        cls, folder: str | PathLike[str], *, classes: Sequence[str], settings: dict[str, Any]
    ) -> Self:
        """A new, empty project; a folder that already holds one is refused."""
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
        """The project in a folder, after checking that it is undamaged."""
        return cls(Database(Path(folder), read_only=read_only))

    salvage = staticmethod(salvage)

    def close(self) -> None:
        """Close the project; closing twice is fine."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Calls inside the block share one commit, and none is on disk before the block has ended.

        A call that refuses its input stores nothing and leaves the others; any other error undoes
        the whole block.
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
        """Where the project lives."""
        return self._db.file.parent

    @property
    def identity(self) -> str:
        """A word that no other project has, given when it was made."""
        return self._db.project

    def visible_items(self, positions: Sequence[int]) -> list[Item]:
        """Items as annotators see them: without the columns that are hidden."""
        hidden = self.settings.hidden
        return [item.without(hidden) for item in self.items(positions)]

    @property
    def journal_behind(self) -> int:
        """Rows that this store has confirmed and could not write to the journal yet."""
        return self._db.journal.behind

    def save_report(self, body: dict[str, Any], n_labels: int) -> int:
        """Store a report written when there were ``n_labels`` labels; returns its number."""
        row = (utc_now(), int(n_labels), to_json(body, "body"))
        with self._db.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO reports (created, n_labels, body) VALUES (?, ?, ?)", row
            )
            return int(cursor.lastrowid or 0)

    def latest_report(self) -> Report | None:
        """The report stored last."""
        return next(iter(self._reports("ORDER BY report DESC LIMIT 1")), None)

    def reports(self, after: int = 0) -> list[Report]:
        """All stored reports, oldest first, or those with a number above ``after``."""
        return self._reports("WHERE report > ? ORDER BY report", after)

    def _reports(self, which: str, *values: int) -> list[Report]:
        rows = self._db.rows(f"SELECT report, created, n_labels, body FROM reports {which}", values)
        return [Report(number, at, n, from_json(body, dict)) for number, at, n, body in rows]

    def revision(self) -> tuple[int, ...]:
        """Numbers that change whenever answers, passes, batches, reports or settings do."""
        tables = ("answers", "passes", "batches", "reports")
        last = " UNION ALL ".join(f"SELECT coalesce(max(rowid), 0) FROM {name}" for name in tables)
        return (*(number for (number,) in self._db.rows(last)), self.settings_mark())

    def copy_database(self, file: Path) -> None:
        """The database as it is at this moment, in a file of its own that is not there yet."""
        with self._db.reading() as connection, closing(sqlite3.connect(file)) as copy:
            connection.backup(copy)

    def check(self) -> list[str]:
        """Everything that is wrong with the project's files; empty when it is sound.

        Reads all of them.
        """
        size = self._db.journal.size()
        faults: list[str] = []
        try:
            with self._db.reading() as connection:
                connection.execute("BEGIN")
                try:
                    check_version(connection)
                    faults += problems(connection, thorough=True)
                    lines = self._db.journal.lines(size)
                    if not faults:
                        lost, _ = compare(connection, self.identity, lines)
                        faults += [lost] if lost else []
                finally:
                    connection.execute("COMMIT")
        except ParbalsError as error:
            faults.append(str(error))
        return faults
