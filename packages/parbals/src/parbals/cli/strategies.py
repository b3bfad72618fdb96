"""`parbals strategies`: the strategy table for people and for programs."""

from typing import Any

import click

from parbals.cli.options import JSON
from parbals.cli.output import say, table

__all__ = ["as_records", "as_text", "strategies"]

_MARKS = ("needs_target", "needs_features", "needs_labels", "batch_aware")
_HEADINGS = ("target?", "features?", "labels?", "batch-aware?")
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
    rows = [("strategy", *_HEADINGS, "cost", "reference")]
    for record in as_records():
        marks = ("yes" if record[mark] else "" for mark in _MARKS)
        rows.append((record["name"], *marks, record["cost"], record["reference"]))
    return f"{table(rows)}\n\n{_LETTERS}"
