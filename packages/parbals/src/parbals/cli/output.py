"""What commands share: text or JSON on standard output, one line of progress for people."""

import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

__all__ = ["JSON", "Progress", "progress", "say", "shown", "table"]

JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for scripts instead of text."
)

_BAR = 24
_CLEAR = "\r\x1b[2K"  # to the start of the line, and nothing on it
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_PAUSE = 0.1  # seconds in between: more often nobody could read it


class Progress(Protocol):
    """How far a stage is; a new stage begins anew."""

    def __call__(
        self, stage: str, done: float = 0, total: float | None = None, note: str = ""
    ) -> None: ...


def shown(text: str) -> str:
    """Text that others may have written, as a terminal can be trusted with it.

    What would move the cursor, colour the screen or turn the order of letters is written as
    ``\\u001b``, which JSON reads back.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(as_json: bool, record: Any, text: str) -> None:
    """The outcome of a command: a record for programs or a text for people."""
    click.echo(shown(json.dumps(record, ensure_ascii=False, default=str) if as_json else text))


@contextmanager
def progress(first: str = "", *, quiet: bool = False) -> Iterator[Progress]:
    """A line on the error stream of a terminal; in a log, or where ``quiet``, nothing.

    It says what is done ``first``, is written again as work goes on, and is gone at the end.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda stage, done=0, total=None, note="": None
        return
    current, began, written = "", 0.0, 0.0

    def show(stage: str, done: float = 0, total: float | None = None, note: str = "") -> None:
        nonlocal current, began, written
        now = time.monotonic()
        if stage != current:
            current, began = stage, now
        elif now - written < _PAUSE and done != total:
            return
        written, gone = now, f"{now - began:.0f} s"
        amount = f"{done:,.0f}  {gone}" if done else ""
        if total:
            share = min(done / total, 1.0)
            left = f", {(now - began) * (1.0 / share - 1.0):.0f} s left" if 0 < share < 1 else ""
            bar = ("█" * round(_BAR * share)).ljust(_BAR, "░")
            amount = f"{bar}  {done:,.0f} of {total:,.0f}  {gone}{left}"
        line = "  ".join(part for part in (stage, amount, note) if part)
        width = shutil.get_terminal_size().columns - 1
        click.echo(f"{_CLEAR}{line[:width]}", nl=False, err=True)

    try:
        if first:
            show(first)
        yield show
    finally:
        click.echo(_CLEAR, nl=False, err=True)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, as wide as their widest cell; wider than a window rather than cut."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
