"""`parbals strategies`: the strategy table for people and for programs."""

from typing import Any

import click

from parbals.cli.options import JSON
from parbals.cli.output import say

__all__ = ["as_records", "as_text", "strategies"]

_MARKS = ("needs_target", "needs_features", "needs_labels", "batch_aware")
_LETTERS = """\
N pool points, M target points, K posterior samples, C classes, D features, B batch, U universes,
L labelled points, S sampled label configurations."""


@click.command()
@JSON
def strategies(as_json: bool) -> None:
    """All strategies, what each needs, and what it costs; those of installed packages included.

    \b
    Examples:
      parbals strategies
      parbals strategies --json
    """
    say(as_json, as_records(), "" if as_json else as_text())


def as_records() -> list[dict[str, Any]]:
    """One record a strategy."""
    from parbals.strategies.table import STRATEGIES, all_strategies

    return [
        {
            "name": name,
            **{mark: getattr(strategy, mark) for mark in _MARKS},
            "stochastic": strategy.stochastic,
            "cost": strategy.cost,
            "reference": strategy.reference,
            "options": list(strategy.options),
            "built_in": name in STRATEGIES,
        }
        for name, strategy in all_strategies().items()
    ]


def as_text() -> str:
    """A table for the terminal; wider than a narrow window rather than folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("strategy", no_wrap=True)
    for heading in ("target\nset?", "\nfeatures?", "\nlabels?", "batch-\naware?"):
        table.add_column(heading, justify="center", no_wrap=True)
    for heading in ("\ncost", "\nreference"):
        table.add_column(heading, no_wrap=True)
    for record in as_records():
        marks = ("yes" if record[mark] else "" for mark in _MARKS)
        table.add_row(record["name"], *marks, record["cost"], record["reference"])
    console = Console(highlight=False, width=116)
    with console.capture() as text:
        console.print(table)
    return f"{text.get()}{_LETTERS}"
