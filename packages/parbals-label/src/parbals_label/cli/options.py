"""What several commands of a project share: options, a bar that runs with the clock, a warning."""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from parbals.cli.options import comma_list, encoder_options
from parbals.cli.output import Progress

__all__ = ["AUDIT_BY", "ENCODER_OPTIONS", "ENCODING", "FOLDER", "FORCE", "NAMES", "NO_REPORT"]
__all__ += ["SECONDS", "SPLIT", "VERBOSE", "Share", "about", "goal_options", "network_file_system"]
__all__ += ["ticking", "warn_of_network"]

SECONDS = click.FloatRange(0, 1e9, min_open=True)
"""A time that somebody may wait for."""

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))

FORCE = click.option("--force", is_flag=True, help="Replace the file if it is there already.")

NO_REPORT = click.option(
    "--no-report", is_flag=True, help="Only store the labels; the report stays as it was."
)

VERBOSE = click.option(
    "--verbose", is_flag=True, help="Also name strategies, and give losses in nats."
)

AUDIT_BY = click.option(
    "--audit-by",
    type=click.Choice(["people", "anyone"]),
    help="Who is asked for the audit's labels. With anyone programs are, too, but what they say "
    "certifies nothing.  [default: people]",
)

ENCODING = click.option(
    "--encoding", metavar="NAME", help="Encoding of a text file, if it is detected wrong."
)

SPLIT = click.option("--split", metavar="NAME", help="Split of a Hugging Face dataset folder.")


class Share(click.ParamType):
    """5% or 0.05; a bare 5 could mean either, and is refused."""

    name = "share"

    def convert(self, value: Any, parameter: Any, context: Any) -> float:
        text = str(value).strip()
        is_percent = text.endswith("%")
        try:
            share = float(text.removesuffix("%")) / (100.0 if is_percent else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 < share < 1.0:
            self.fail(f"{text!r} is not a share; say 5% or 0.05.", parameter, context)
        return share


NAMES = click.option(
    "--names",
    callback=comma_list,
    metavar="A,B,..",
    help="Names for the columns of a table that has no header row.",
)


ENCODER_OPTIONS = encoder_options("Leave unreadable images blank instead of stopping at them.")
"""Of commands that make a project's features."""


def goal_options(command: Any) -> Any:
    """``goal_labels`` and ``goal_error``, what people set out for."""
    for option in (
        click.option(
            "--goal-error",
            type=Share(),
            metavar="SHARE",
            help="An error to reach (5% or 0.05); progress is shown against it.",
        ),
        click.option(
            "--goal-labels",
            type=click.IntRange(1),
            metavar="N",
            help="How many items are to be labelled; progress is shown against it.",
        ),
    ):
        command = option(command)
    return command


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


_NETWORK = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"),
    *("nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "virtiofs", "davfs"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.davfs2"),
)


def network_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The kind of the network file system that ``path`` lies on; None on a local disk.

    ``path`` need not be there yet. Linux says what is mounted where; elsewhere nothing is known.
    """
    try:
        lines = mounts.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place, kind, longest = Path(os.path.realpath(path)), None, -1
    for line in lines:  # 36 35 98:0 /root /mounted/here rw shared:1 - ext4 /dev/sda rw
        before, _, after = line.partition(" - ")
        words, kinds = before.split(), after.split()
        if len(words) < 5 or not kinds:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4])
        # A later mount on the same place hides the earlier one.
        if place.is_relative_to(point) and len(point) >= longest:
            longest, kind = len(point), kinds[0]
    return kind if kind in _NETWORK else None
