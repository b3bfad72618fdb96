"""How every command speaks: text or JSON on standard output, one progress bar for people."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import click

from parbals.files import network_file_system

__all__ = ["Progress", "about", "progress", "say", "ticking", "warn_of_network"]


class Progress(Protocol):
    """How far a stage is; a new stage begins a new line."""

    def __call__(
        self, stage: str, done: float = 0, total: float | None = None, note: str = ""
    ) -> None: ...


def say(as_json: bool, record: Any, text: str) -> None:
    """The outcome of a command: a record for programs or a text for people."""
    click.echo(json.dumps(record, ensure_ascii=False, default=str) if as_json else text)


def about(seconds: float) -> str:
    """A length of time as people say it."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def warn_of_network(folder: Path) -> None:
    """Tell people whose project would lie where SQLite's locks may not hold."""
    kind = network_file_system(folder)
    if kind is not None:
        click.echo(
            f"parbals: {folder} lies on a network file system ({kind}), where two computers that "
            "use the project at once can damage it; use it from one computer only, or keep it on a "
            "local disk.",
            err=True,
        )


@contextmanager
def ticking(show: Progress, stage: str, expected: float | None) -> Iterator[None]:
    """A bar that runs with the clock towards ``expected`` seconds, for work that says nothing."""
    ended, began = threading.Event(), time.monotonic()

    def tick() -> None:
        while not ended.wait(0.5):
            show(stage, min(round(time.monotonic() - began), round(total) - 1), round(total))

    total = max(expected or 0.0, 1.0)
    show(stage, 0, None if expected is None else round(total))
    thread = threading.Thread(target=tick, daemon=True)
    if expected is not None:
        thread.start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def progress(*, quiet: bool = False, in_bytes: bool = False) -> Iterator[Progress]:
    """A bar on the error stream of a terminal; in a log, or where ``quiet``, nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda stage, done=0, total=None, note="": None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    counts: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
    times = TextColumn("·"), TimeElapsedColumn(), TextColumn("gone, left:"), TimeRemainingColumn()
    words = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    columns = SpinnerColumn(), words[0], BarColumn(), counts, *times, words[1]
    with Bars(*columns, console=Console(stderr=True, highlight=False), transient=True) as bars:
        lines: dict[str, Any] = {}

        def show(stage: str, done: float = 0, total: float | None = None, note: str = "") -> None:
            if stage not in lines:
                lines[stage] = bars.add_task(stage, total=total, note=note)
            bars.update(lines[stage], completed=done, total=total, note=note)

        yield show
