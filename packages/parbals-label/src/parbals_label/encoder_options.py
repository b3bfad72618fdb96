"""How an encoder is run, as options of a command."""

import click

__all__ = ["ENCODER_OPTIONS"]

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
