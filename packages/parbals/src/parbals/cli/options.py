"""Options that several commands share, so that they are called and explained alike."""

from collections.abc import Callable
from typing import Any

import click

__all__ = ["JSON", "comma_list", "encoder_options"]

JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for scripts instead of text."
)


def comma_list(context: Any, parameter: Any, value: str | None) -> tuple[str, ...]:
    """The callback of an option that takes A,B,..."""
    return () if value is None else tuple(part.strip() for part in value.split(",") if part.strip())


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
