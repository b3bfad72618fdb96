"""Strategies: a problem in, a batch out; ``table`` lists them. For one of your own:

from parbals.strategies import Batch, Problem, Strategy, batch_of
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parbals.strategies.table import STRATEGIES, Strategy, all_strategies, strategy_named

if TYPE_CHECKING:
    from parbals.strategies.problem import Labelled, Problem, batch_of
    from parbals.types import Batch

__all__ = ["STRATEGIES", "Batch", "Labelled", "Problem", "Strategy", "all_strategies", "batch_of"]
__all__ += ["strategy_named"]


def __getattr__(name: str) -> Any:
    """What loads NumPy and JAX waits until it is asked for."""
    if name in ("Batch", "Labelled", "Problem", "batch_of"):
        return getattr(import_module("parbals.strategies.problem"), name)
    raise AttributeError(f"module 'parbals.strategies' has no attribute {name!r}")
