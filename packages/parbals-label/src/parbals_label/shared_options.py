"""Options that commands of projects and of the experiment share."""

from typing import Any

import click

__all__ = ["ENCODER_OPTIONS", "comma_list"]

ENCODER_OPTIONS = (
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
    click.option(
        "--skip-bad",
        is_flag=True,
        help="Leave unreadable images blank instead of stopping at them.",
    ),
)
"""How an encoder is run: ``batch_size``, ``device``, ``half`` and ``skip_bad``."""


def comma_list(context: Any, parameter: Any, value: str | None) -> tuple[str, ...]:
    """The callback of an option that takes A,B,..."""
    return () if value is None else tuple(part.strip() for part in value.split(",") if part.strip())
