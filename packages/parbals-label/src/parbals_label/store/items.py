"""The items of a project: added once, then only read.

The checksum of a row is verified whenever it is read.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from parbals.errors import InputError, ProjectDamagedError

from parbals_label.store.database import Database
from parbals_label.store.folder import damage_message
from parbals_label.store.records import Item
from parbals_label.store.rows import check_position, check_text, checksum, from_json, to_json

__all__ = ["Items", "check_positions", "count_items", "read_item"]

_CHUNK_ITEMS = 1000
"""Items read at once while streaming."""


def count_items(connection: sqlite3.Connection) -> int:
    """Return the number of items; their positions run from 0 without gaps."""
    return int(connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items").fetchone()[0])


def check_positions(connection: sqlite3.Connection, positions: Iterable[int]) -> list[int]:
    """Return the positions as ints; one that no item has is refused."""
    n_items = count_items(connection)
    return [
        check_position(position, n_items, f"positions[{row}]")
        for row, position in enumerate(positions)
    ]


def read_item(connection: sqlite3.Connection, project: str, position: int) -> Item:
    """Return an item, verified by its checksum."""
    row = connection.execute(
        "SELECT position, id, content, checksum FROM items WHERE position = ?", (position,)
    ).fetchone()
    if row is None:
        raise ProjectDamagedError(
            f"Item {position} is missing from the project, so the project is damaged."
        )
    return _verified(project, row)


def _verified(project: str, row: tuple[int, str, str, str]) -> Item:
    """Return the item of a row, or raise an error if its checksum is wrong."""
    position, name, content, stored_checksum = row
    if checksum(project, "items", (position, name, content)) != stored_checksum:
        raise ProjectDamagedError(
            f"Item {position} does not pass its checksum, so the project is damaged; put back a "
            "copy of it."
        )
    return Item(position, name, from_json(content, dict))


class Items:
    """The part of the store that holds items."""

    _db: Database

    @property
    def n_items(self) -> int:
        """The number of items; their positions are 0 to ``n_items`` - 1."""
        with self._db.reading() as connection:
            return count_items(connection)

    def add_items(self, rows: Iterable[tuple[str, dict]]) -> int:
        """Append (id, columns) pairs, all or none, read one at a time; returns how many."""
        with self._db.transaction() as connection:
            start = count_items(connection)
            position = start
            if start:
                self._check_index(connection)
            for row, (name, columns) in enumerate(rows, 1):
                check_text(name, f"The id of row {row}")
                if not isinstance(columns, dict) or not all(
                    isinstance(key, str) for key in columns
                ):
                    raise InputError(
                        f"The columns of row {row} are not a table of column names to values."
                    )
                content = to_json(columns, f"Row {row} (id {name!r})")
                row_checksum = checksum(self._db.project, "items", (position, name, content))
                try:
                    connection.execute(
                        "INSERT INTO items VALUES (?, ?, ?, ?)",
                        (position, name, content, row_checksum),
                    )
                except sqlite3.IntegrityError:
                    (first,) = connection.execute(
                        "SELECT position FROM items WHERE id = ?", (name,)
                    ).fetchone()
                    first_row = first - start + 1
                    other = f"row {first_row}" if first_row > 0 else f"item {first} of the project"
                    raise InputError(
                        f"Row {row} has the id {name!r} that {other} already has; give every item "
                        "its own id."
                    ) from None
                position += 1
        self._db.checkpoint()
        return position - start

    def position_of(self, ids: Sequence[str]) -> list[int]:
        """Return the positions of these ids, in their order."""
        positions = []
        with self._db.reading() as connection:
            for name in ids:
                row = None
                with suppress(UnicodeEncodeError):  # text that cannot be stored is not an id
                    if isinstance(name, str):
                        row = connection.execute(
                            "SELECT position, content, checksum FROM items WHERE id = ?", (name,)
                        ).fetchone()
                if row is None:
                    self._check_index(connection)
                    raise InputError(
                        f"There is no item with the id {name!r} in the project; check the spelling."
                    )
                # Verified with the requested id: a damaged index must not lead to another item.
                positions.append(
                    _verified(self._db.project, (row[0], name, row[1], row[2])).position
                )
        return positions

    def known_positions(self, ids: Sequence[str]) -> dict[str, int]:
        """Return id → position of those ids that name an item."""
        positions: dict[str, int] = {}
        for name in ids:
            with suppress(InputError):
                positions[name] = self.position_of([name])[0]
        return positions

    def _check_index(self, connection: sqlite3.Connection) -> None:
        """Check the index of ids, once, because it takes long, before an id is called unknown."""
        if not self._db.index_checked:
            for (text,) in connection.execute("PRAGMA integrity_check('items')"):
                if text != "ok":
                    raise ProjectDamagedError(damage_message(self._db.file, text))
            self._db.index_checked = True

    def items(self, positions: Sequence[int]) -> list[Item]:
        """Return the items at these positions, in their order."""
        with self._db.reading() as connection:
            return [
                read_item(connection, self._db.project, position)
                for position in check_positions(connection, positions)
            ]

    def iter_items(self) -> Iterator[Item]:
        """Iterate over all items in order, reading chunks; other calls may come in between."""
        expected = 0
        while True:
            with self._db.reading() as connection:
                rows = connection.execute(
                    "SELECT position, id, content, checksum FROM items WHERE position >= ? ORDER "
                    "BY position LIMIT ?",
                    (expected, _CHUNK_ITEMS),
                ).fetchall()
            if not rows:
                return
            for row in rows:
                if row[0] != expected:
                    raise ProjectDamagedError(
                        f"Item {expected} is missing from the project, so the project is damaged."
                    )
                yield _verified(self._db.project, row)
                expected += 1
