"""The table of strategies for people and for programs."""

from typing import Any

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
    table = Table()
    for heading in ("strategy", "target set?", "features?", "labels?", "batch-aware?", "cost", "reference"):
        centred = "center" if heading.endswith("?") else "left"
        table.add_column(heading, justify=centred, no_wrap=heading in ("strategy", "cost"))
    for record in as_records():
        marks = ("needs_target", "needs_features", "needs_labels", "batch_aware")
        table.add_row(
            record["name"], *("yes" if record[mark] else "" for mark in marks), record["cost"], record["reference"]
        )
    return table
