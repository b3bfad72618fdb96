"""Query strategies: a problem in, a batch out; :mod:`~parbals.strategies.table` lists them.

To write a strategy:

    from parbals.strategies import Batch, Problem, Strategy, batch_of
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parbals.strategies.table import STRATEGIES, Strategy, all_strategies, strategy_named

if TYPE_CHECKING:
    from parbals.strategies.problem import Labelled, Problem, batch_of
    from parbals.types import Batch

__all__ = [
    "STRATEGIES",
    "Batch",
    "Labelled",
    "Problem",
    "Strategy",
    "all_strategies",
    "batch_of",
    "strategy_named",
]


def __getattr__(name: str) -> Any:
    """Load names that need NumPy on first use."""
    if name in ("Batch", "Labelled", "Problem", "batch_of"):
        return getattr(import_module("parbals.strategies.problem"), name)
    raise AttributeError(f"module 'parbals.strategies' has no attribute {name!r}")
