"""Requests to LLMs that are paid for: a cache of the replies, and the record of tokens and money.

A request is recorded before it is sent, with what it costs at most, and its reply takes the place
of that before anything is read from it: whatever happens in between, nothing that was paid for is
forgotten.

They are in a file of their own beside the project's database: nothing else depends on it, so it can
be deleted, which loses the record and makes the next run pay again. It holds replies and hashes of
prompts, never prompts or keys. Somebody else may have made the file: its tables are compared with
ours, its values are checked, and it is read for a bounded time.
"""

import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from parbals.errors import ProjectError
from parbals.wording import counted

from parbals_label.store.folder import BUSY_SECONDS, check_folder, file_mode
from parbals_label.store.rows import utc_now
from parbals_label.store.schema import schema_rows

__all__ = ["REPLIES_NAME", "PaidReply", "Replies", "Usage", "money", "usage_of"]

REPLIES_NAME = "llm.sqlite3"
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    reply INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created TEXT NOT NULL,
    annotator TEXT NOT NULL, model TEXT NOT NULL, content TEXT, confidence REAL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, counted INTEGER NOT NULL,
    cost REAL)"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_prompt ON replies (prompt)"
_IS_VALID = f"""(
    typeof(annotator) = 'text' AND typeof(model) = 'text' AND typeof(content) IN ('text', 'null')
    AND (confidence IS NULL OR typeof(confidence) = 'real' AND confidence BETWEEN 0 AND 1)
    AND typeof(tokens_in) = 'integer' AND tokens_in BETWEEN 0 AND {1 << 40}
    AND typeof(tokens_out) = 'integer' AND tokens_out BETWEEN 0 AND {1 << 40}
    AND typeof(counted) = 'integer' AND counted IN (0, 1)
    AND (cost IS NULL OR typeof(cost) = 'real' AND cost BETWEEN 0 AND 1e30))"""
"""Whether a row can be ours. Sums of so many tokens fit into the integers of SQLite."""
_MAX_SECONDS = 5.0
"""Longest time of a read."""
_MAX_BYTES = 1 << 20
"""Bytes of a value that are read."""
_STEPS = 10_000
"""Instructions of SQLite after which it looks at the time."""


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A reply of a model, or what a request costs at most of which no reply has come.

    Attributes:
        content: what the model wrote; None if no reply has come, or none that may be used.
        tokens_in, tokens_out: tokens of prompt and reply.
        counted: whether the server counted the tokens; otherwise they are estimated.
        cost: what it cost; None if no price is known.
    """

    content: str | None
    tokens_in: int
    tokens_out: int
    counted: bool
    cost: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """What an LLM has used so far, over all runs.

    ``cost`` is None if no price was given; ``n_unpriced`` requests without a price are not in it.
    The tokens of ``n_estimated`` requests are estimated: the server did not count them, or its
    reply never came.

    >>> Usage("machine:gpt", "gpt", 120, 51_000, 1_900, 0.0234, 0, 0).sentence
    'machine:gpt: 120 requests, 51,000 tokens in and 1,900 out, cost 0.0234'
    """

    annotator: str
    model: str
    n_requests: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    n_unpriced: int
    n_estimated: int

    @property
    def sentence(self) -> str:
        """The annotator's name, requests, tokens and money in words."""
        return f"{self.annotator}: {self.amounts}"

    @property
    def amounts(self) -> str:
        """Requests, tokens and money in words."""
        about = "about " if self.n_estimated else ""
        parts = [
            counted(self.n_requests, "request", "requests"),
            f"{about}{self.tokens_in:,} tokens in and {self.tokens_out:,} out",
        ]
        if self.cost is not None:
            parts.append(f"cost {about}{money(self.cost)}")
        if self.cost is not None and self.n_unpriced:
            parts.append(f"{self.n_unpriced:,} requests had no price")
        return ", ".join(parts)


def money(amount: float) -> str:
    """An amount with at least two decimals, and at least two digits that are not zero.

    >>> money(5), money(0.0234), money(0.000123)
    ('5.00', '0.0234', '0.00012')
    """
    if amount >= 1 or amount <= 0:
        return f"{amount:,.2f}"
    if amount >= 0.01:
        return f"{amount:.4f}".rstrip("0").ljust(4, "0")
    return f"{amount:.2g}" if amount >= 1e-4 else f"{amount:.6f}"


class Replies:
    """The replies in a project's folder; one connection, for one thread."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        check_folder(folder)
        self._file = folder / REPLIES_NAME
        self._end = 0.0
        with self._explained():
            if not read_only and not self._file.exists():
                os.close(os.open(self._file, os.O_CREAT | os.O_WRONLY, file_mode(folder)))
            address = f"{self._file.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, timeout=BUSY_SECONDS
            )
        try:
            with self._explained(_MAX_SECONDS):
                self._prepare(read_only=read_only)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, *, read_only: bool) -> None:
        """Limit what the file can cost, make its tables if it is new, and check them."""
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_BYTES)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._end, _STEPS)
        if not read_only and not schema_rows(self._connection):
            _make_tables(self._connection)
        if schema_rows(self._connection) != _own_schema_rows():
            raise sqlite3.DatabaseError("its tables are not those of this parbals")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def expect(self, prompt: str, annotator: str, model: str, cost: PaidReply) -> int:
        """Record a request, whose prompt is given by its hash, before it is sent; its number."""
        with self._explained():
            cursor = self._connection.execute(
                "INSERT INTO replies (prompt, created, annotator, model, content, tokens_in, "
                "tokens_out, counted, cost) VALUES (?,?,?,?,?,?,?,?,?)",
                (prompt, utc_now(), annotator, model, *_values(cost)),
            )
        return int(cursor.lastrowid or 0)

    def record(self, number: int, reply: PaidReply) -> None:
        """Record the reply to a request."""
        self._change(
            "UPDATE replies SET content = ?, tokens_in = ?, tokens_out = ?, counted = ?, cost = ? "
            "WHERE reply = ?",
            *_values(reply),
            number,
        )

    def record_confidence(self, number: int, confidence: float) -> None:
        """Record the probability of a reply's label by the model's own log-probabilities."""
        self._change("UPDATE replies SET confidence = ? WHERE reply = ?", confidence, number)

    def cancel(self, number: int) -> None:
        """Remove a request that is not paid for."""
        self._change("DELETE FROM replies WHERE reply = ?", number)

    def _change(self, statement: str, *values: str | float | None) -> None:
        with self._explained():
            self._connection.execute(statement, values)

    def to(self, prompt: str) -> list[tuple[str, float | None]]:
        """Replies to a prompt, each with its confidence, the latest one first."""
        with self._explained(_MAX_SECONDS):
            return self._connection.execute(
                "SELECT content, confidence FROM replies WHERE prompt = ? AND content IS NOT NULL "
                f"AND {_IS_VALID} ORDER BY reply DESC LIMIT 10",
                (prompt,),
            ).fetchall()

    def usage(self) -> list[Usage]:
        """Usage of every LLM that was asked, in the order of their names."""
        with self._explained(_MAX_SECONDS):
            (n_invalid,) = self._connection.execute(
                f"SELECT count(*) FROM replies WHERE {_IS_VALID} IS NOT TRUE"
            ).fetchone()
            if n_invalid:
                raise sqlite3.DatabaseError(f"{n_invalid:,} rows are no payments")
            rows = self._connection.execute(
                "SELECT annotator, max(model), count(*), sum(tokens_in), sum(tokens_out), "
                "sum(cost), sum(cost IS NULL), sum(NOT counted) FROM replies GROUP BY annotator "
                "ORDER BY annotator"
            ).fetchall()
        return [Usage(*row) for row in rows]

    def cost_of(self, annotator: str) -> float:
        """What an annotator has cost so far."""
        return sum(usage.cost or 0.0 for usage in self.usage() if usage.annotator == annotator)

    @contextmanager
    def _explained(self, seconds: float = math.inf) -> Iterator[None]:
        """Interrupt SQLite after some time, and explain its errors."""
        self._end = time.monotonic() + seconds
        try:
            yield
        except (OSError, ValueError, sqlite3.Error) as error:
            reason = str(error)
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                reason = f"reading it takes more than {seconds:g} s"
            raise ProjectError(
                f"{self._file}, the record of what LLMs have cost, cannot be used ({reason}); move "
                "it away to start a new one. Labels are not in it."
            ) from None


def usage_of(folder: Path) -> list[Usage]:
    """Usage of every LLM that was asked in a project; read without writing."""
    file = folder / REPLIES_NAME
    if not file.is_file() or not file.stat().st_size:
        return []
    with Replies(folder, read_only=True) as replies:
        return replies.usage()


def _values(reply: PaidReply) -> tuple[str | float | None, ...]:
    return (reply.content, reply.tokens_in, reply.tokens_out, reply.counted, reply.cost)


def _make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables at once; another process may have made them."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_TABLE)
    connection.execute(_INDEX)
    connection.execute("COMMIT")


@cache
def _own_schema_rows() -> set[tuple[str, str, str, str | None]]:
    """The tables and indexes of a new file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        _make_tables(fresh)
        return schema_rows(fresh)
