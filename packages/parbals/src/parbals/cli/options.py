"""Options that several commands share, so that they are called and explained alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = [
    "ENCODER_OPTIONS",
    "ENCODING",
    "FOLDER",
    "FORCE",
    "JSON",
    "NAMES",
    "NO_REPORT",
    "SECONDS",
    "SPLIT",
    "VERBOSE",
    "Share",
    "comma_list",
    "encoder_options",
    "goal_options",
]

SECONDS = click.FloatRange(0, 1e9, min_open=True)
"""A time that somebody may wait for."""

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))

FORCE = click.option("--force", is_flag=True, help="Replace the file if it is there already.")

JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for scripts instead of text."
)

NO_REPORT = click.option(
    "--no-report", is_flag=True, help="Only store the labels; the report stays as it was."
)

VERBOSE = click.option(
    "--verbose", is_flag=True, help="Also name strategies, and give losses in nats."
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


def comma_list(context: Any, parameter: Any, value: str | None) -> tuple[str, ...]:
    """The callback of an option that takes A,B,..."""
    return () if value is None else tuple(part.strip() for part in value.split(",") if part.strip())


NAMES = click.option(
    "--names",
    callback=comma_list,
    metavar="A,B,..",
    help="Names for the columns of a table that has no header row.",
)


def encoder_options(skip_bad: str) -> Callable[[Any], Any]:
    """``batch_size``, ``device``, ``half`` and ``skip_bad``; the help of the last is given."""
    options = (
        click.option(
            "--batch-size",
            default=32,
            show_default=True,
            type=click.IntRange(1, 256),
            help="Items encoded at once.",
        ),
        click.option(
            "--device",
            metavar="NAME",
            help="cuda, cuda:1, cpu, ...; by default the GPU if there is one.",
        ),
        click.option("--half", is_flag=True, help="Compute and store in half precision."),
        click.option("--skip-bad", is_flag=True, help=skip_bad),
    )

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


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
