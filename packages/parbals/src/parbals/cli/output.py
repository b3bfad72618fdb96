"""The output of commands: text or JSON on standard output, a progress line for people."""

import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

from parbals.cli.base import RareOption
from parbals.wording import duration

__all__ = ["JSON", "Progress", "print_result", "printable", "progress", "table"]

JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    cls=RareOption,
    help="Print JSON for scripts instead of text.",
)

_BAR_WIDTH = 24
_MIN_BAR_WIDTH = 4  # a narrower bar shows nothing
_CLEAR = "\r\x1b[2K"  # the start of the line, then nothing on it
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_PAUSE = 0.1  # seconds between updates: faster ones cannot be read
_LOG_PAUSE = 30.0  # seconds between lines where the error stream is a file or a pipe
_SILENCE = 2.0  # seconds until a log has the first line: work that ends before needs none


class Progress(Protocol):
    """Shows how far a stage is; a stage with a new name starts its clock again."""

    def __call__(
        self, stage: str, done: float = 0, total: float | None = None, note: str = ""
    ) -> None: ...


def printable(text: str) -> str:
    """Text by other people, made safe for a terminal.

    Characters that would move the cursor, colour the screen or reverse the writing direction are
    escaped as ``\\u001b``, which JSON reads back.
    """
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_result(as_json: bool, record: Any, text: str) -> None:
    """Print the result of a command: a record for programs or a text for people."""
    click.echo(printable(json.dumps(record, ensure_ascii=False, default=str) if as_json else text))


@contextmanager
def progress(first: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Progress on the error stream; nothing where ``quiet``.

    In a terminal it is one line, which begins with the stage ``first``, is rewritten as work goes
    on, and is cleared at the end. In a log the stage is a line after two seconds, and progress one
    every half minute.
    """
    if quiet:
        yield lambda stage, done=0, total=None, note="": None
        return
    line = _ProgressLine(first)
    if not sys.stderr.isatty():
        timer = threading.Timer(_SILENCE, line.announce)
        timer.daemon = True
        timer.start()
        try:
            yield line.log
        finally:
            timer.cancel()
        return
    try:
        line.show(first)
        yield line.show
    finally:
        click.echo(_CLEAR, nl=False, err=True)


class _ProgressLine:
    """The stage that is shown, when and where it started, and when the line was last written."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._stage = ""
        self._started_at = 0.0
        self._first_done = 0.0
        self._written_at = time.monotonic()

    def announce(self) -> None:
        """Write the stage as a whole line."""
        click.echo(f"{self._stage or self._first} …", err=True)

    def show(self, stage: str, done: float = 0, total: float | None = None, note: str = "") -> None:
        """Write the line, unless that was done a moment ago."""
        now = time.monotonic()
        is_new = self._is_new(stage, done, now)
        if not is_new and now - self._written_at < _PAUSE and done != total:
            return
        self._written_at = now
        width = shutil.get_terminal_size().columns - 1
        amount = self._amount(done, total, now)
        line = "  ".join(words for words in (stage, amount, note) if words)
        if total:
            bar_width = min(_BAR_WIDTH, width - len(line) - 2)
            if bar_width >= _MIN_BAR_WIDTH:
                bar = ("█" * round(bar_width * min(done / total, 1.0))).ljust(bar_width, "░")
                line = "  ".join(words for words in (stage, bar, amount, note) if words)
        click.echo(f"{_CLEAR}{line[:width]}", nl=False, err=True)

    def log(self, stage: str, done: float = 0, total: float | None = None, note: str = "") -> None:
        """Write a whole line, unless one was written in the last half minute."""
        now = time.monotonic()
        self._is_new(stage, done, now)
        if now - self._written_at < _LOG_PAUSE:
            return
        self._written_at = now
        amount = f"{done:,.0f} of {total:,.0f}" if total else f"{done:,.0f}"
        left = ""
        if total and (seconds := self._seconds_left(done, total, now)) is not None:
            left = f"{duration(seconds)} left"
        click.echo(", ".join(words for words in (stage, amount, left, note) if words), err=True)

    def _is_new(self, stage: str, done: float, now: float) -> bool:
        """Whether a stage begins; work that an earlier run did does not count in its speed."""
        if stage == self._stage:
            return False
        self._stage = stage
        self._started_at = now
        self._first_done = done
        return True

    def _amount(self, done: float, total: float | None, now: float) -> str:
        """How much is done, and how long the rest takes where the total is known."""
        seconds = now - self._started_at
        if not total:
            return f"{done:,.0f}  {seconds:.0f} s" if done else ""
        left = ""
        if (seconds_left := self._seconds_left(done, total, now)) is not None:
            left = f", {seconds_left:.0f} s left"
        return f"{done:,.0f} of {total:,.0f}  {seconds:.0f} s{left}"

    def _seconds_left(self, done: float, total: float, now: float) -> float | None:
        """How long the rest of the stage takes; None before anything was done in it."""
        n_new = done - self._first_done
        if n_new <= 0 or done >= total:
            return None
        return (now - self._started_at) * (total - done) / n_new


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, each as wide as its widest cell; no cell is cut."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
