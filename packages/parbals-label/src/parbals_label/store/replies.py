"""Replies of LLMs that were paid for: a cache, and the record of tokens and money.

They are in a file of their own beside the project's database: nothing else depends on it, so it can
be deleted, which loses the record and makes the next run pay again. It holds replies and hashes of
prompts, never prompts or keys.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from parbals.errors import ProjectError
from parbals.wording import counted

from parbals_label.store.folder import BUSY_SECONDS, check_folder, file_mode
from parbals_label.store.rows import utc_now

__all__ = ["REPLIES_NAME", "PaidReply", "Replies", "Usage", "money", "usage_of"]

REPLIES_NAME = "llm.sqlite3"
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    reply INTEGER PRIMARY KEY, prompt TEXT NOT NULL, created TEXT NOT NULL,
    annotator TEXT NOT NULL, model TEXT NOT NULL, content TEXT NOT NULL, confidence REAL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, counted INTEGER NOT NULL,
    cost REAL, usable INTEGER NOT NULL)"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_prompt ON replies (prompt)"


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A reply of a model.

    Attributes:
        content: what the model wrote.
        confidence: probability of the label by the model's own log-probabilities; None without.
        tokens_in, tokens_out: tokens of prompt and reply.
        counted: whether the server counted the tokens; otherwise they are estimated.
        cost: what it cost; None if no price is known.
    """

    content: str
    confidence: float | None
    tokens_in: int
    tokens_out: int
    counted: bool
    cost: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """What an LLM has used so far, over all runs.

    ``cost`` is None if no price was given; ``n_unpriced`` requests without a price are not in it.
    The tokens of ``n_estimated`` requests are estimated, because the server did not count them.

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

    def __init__(self, folder: Path) -> None:
        check_folder(folder)
        self._file = folder / REPLIES_NAME
        with self._explained():
            if not self._file.exists():
                os.close(os.open(self._file, os.O_CREAT | os.O_WRONLY, file_mode(folder)))
            self._connection = _connect(self._file, "rw")
            self._connection.execute(_TABLE)
            self._connection.execute(_INDEX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def usable(self, prompt: str) -> PaidReply | None:
        """The latest usable reply to a prompt, which is given by its hash."""
        with self._explained():
            row = self._connection.execute(
                "SELECT content, confidence, tokens_in, tokens_out, counted, cost FROM replies "
                "WHERE prompt = ? AND usable ORDER BY reply DESC LIMIT 1",
                (prompt,),
            ).fetchone()
        if row is None:
            return None
        content, confidence, tokens_in, tokens_out, counted, cost = row
        return PaidReply(content, confidence, tokens_in, tokens_out, bool(counted), cost)

    def add(
        self, prompt: str, annotator: str, model: str, reply: PaidReply, *, usable: bool
    ) -> None:
        """Record a reply on disk, before its label is stored."""
        row = (
            prompt,
            utc_now(),
            annotator,
            model,
            reply.content,
            reply.confidence,
            reply.tokens_in,
            reply.tokens_out,
            reply.counted,
            reply.cost,
            usable,
        )
        with self._explained():
            self._connection.execute(
                "INSERT INTO replies (prompt, created, annotator, model, content, confidence, "
                "tokens_in, tokens_out, counted, cost, usable) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                row,
            )

    def cost_of(self, annotator: str) -> float:
        """What an annotator has cost so far."""
        with self._explained():
            (cost,) = self._connection.execute(
                "SELECT coalesce(sum(cost), 0.0) FROM replies WHERE annotator = ?", (annotator,)
            ).fetchone()
        return float(cost)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise _fault(self._file, error) from None


def usage_of(folder: Path) -> list[Usage]:
    """Usage of every LLM that has labelled, in the order of their names; read without writing."""
    file = folder / REPLIES_NAME
    if not file.is_file():
        return []
    try:
        with closing(_connect(file, "ro")) as connection:
            rows = connection.execute(
                "SELECT annotator, max(model), count(*), sum(tokens_in), sum(tokens_out), "
                "sum(cost), sum(cost IS NULL), sum(NOT counted) FROM replies GROUP BY annotator "
                "ORDER BY annotator"
            ).fetchall()
    except sqlite3.Error as error:
        raise _fault(file, error) from None
    return [Usage(*row) for row in rows]


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    address = f"{file.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _fault(file: Path, error: Exception) -> ProjectError:
    return ProjectError(
        f"{file}, the record of what LLMs have cost, cannot be used ({error}); move it away to "
        "start a new one. Labels are not in it."
    )
