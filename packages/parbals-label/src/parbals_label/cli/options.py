"""What several commands of a project share: options, and a warning."""

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from parbals.cli.output import comma_list, encoder_options

__all__ = ["AUDIT_BY", "ENCODE_WITH", "FOLDER", "FORCE", "GOAL", "NO_REPORT", "READING"]
__all__ += ["SECONDS", "SHOWN", "Share", "network_file_system", "warn_of_network"]

SECONDS = click.FloatRange(0, 1e9, min_open=True)
"""A time that somebody may wait for."""

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))

FORCE = click.option("--force", is_flag=True, help="Replace the file if it is there already.")

NO_REPORT = click.option(
    "--no-report", is_flag=True, help="Only store the labels; the report stays as it was."
)

AUDIT_BY = click.option(
    "--audit-by",
    type=click.Choice(["people", "anyone"]),
    help="Who is asked for the audit's labels. With anyone programs are, too, but what they say "
    "certifies nothing.  [default: people]",
)


def SHOWN(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which columns annotators see."""
    show = click.option(
        "--show",
        "shown",
        callback=comma_list,
        metavar="COLS",
        help="Columns to show although they may be the answer.",
    )
    hide = click.option(
        "--hide",
        "hidden",
        callback=comma_list,
        metavar="COLS",
        help="Columns that annotators do not see; those that may be the answer are hidden anyway.",
    )
    return show(hide(command))


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


def _packed(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Options that come to a command as one argument: what ``make`` makes of their values."""

    def add(command: Any) -> Any:
        def none() -> None:
            pass

        for option in options:
            option(none)
        names = [parameter.name for parameter in none.__click_params__]  # type: ignore[attr-defined]

        @wraps(command)
        def with_one(*arguments: Any, **values: Any) -> Any:
            values[name] = make(**{option: values.pop(option) for option in names})
            return command(*arguments, **values)

        for option in reversed(options):
            option(with_one)
        return with_one

    return add


READING = _packed(
    "reading",
    dict,
    click.option(
        "--names",
        callback=comma_list,
        metavar="A,B,..",
        help="Names for the columns of a table that has no header row.",
    ),
    click.option(
        "--encoding", metavar="NAME", help="Encoding of a text file, if it is detected wrong."
    ),
    click.option("--split", metavar="NAME", help="Split of a Hugging Face dataset folder."),
)
"""How data are read, where they do not tell: arguments of ``open_source``."""


def _options(**values: Any) -> Any:
    from parbals_label.encoders.base import Options

    return Options(**values)


ENCODE_WITH = _packed(
    "encode_with",
    _options,
    encoder_options("Leave unreadable images blank instead of stopping at them."),
)
"""How an encoder is run, for commands that make a project's features."""


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


GOAL = _packed(
    "goal",
    _given,
    click.option(
        "--goal-labels",
        type=click.IntRange(1),
        metavar="N",
        help="How many items are to be labelled; progress is shown against it.",
    ),
    click.option(
        "--goal-error",
        type=Share(),
        metavar="SHARE",
        help="An error to reach (5% or 0.05); progress is shown against it.",
    ),
)
"""What people set out for, as settings of the project."""


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
