"""The table of strategies for people and for programs."""

from typing import Any

from rich import box
from rich.table import Table

from parbals.strategies.table import STRATEGIES, all_strategies

__all__ = ["as_records", "as_table"]


def as_records() -> list[dict[str, Any]]:
    """One record a strategy."""
    return [
        {
            "name": name,
            "needs_target": strategy.needs_target,
            "needs_features": strategy.needs_features,
            "needs_labels": strategy.needs_labels,
            "batch_aware": strategy.batch_aware,
            "stochastic": strategy.stochastic,
            "cost": strategy.cost,
            "reference": strategy.reference,
            "options": list(strategy.options),
            "built_in": name in STRATEGIES,
        }
        for name, strategy in all_strategies().items()
    ]


def as_table() -> Table:
    """A table for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("strategy", no_wrap=True)
    for heading in ("target\nset?", "\nfeatures?", "\nlabels?", "batch-\naware?"):
        table.add_column(heading, justify="center", no_wrap=True)
    table.add_column("\ncost", no_wrap=True)
    table.add_column("\nreference", no_wrap=True)
    for record in as_records():
        marks = ("needs_target", "needs_features", "needs_labels", "batch_aware")
        table.add_row(
            record["name"],
            *("yes" if record[mark] else "" for mark in marks),
            record["cost"],
            record["reference"],
        )
    return table
