"""One strategy a file; ``table`` lists them. For strategies of your own, import from here.

from parbals.strategies import Batch, Problem, Strategy, batch_of
"""

from parbals.batches.problem import Labelled, Problem, batch_of
from parbals.strategies.table import STRATEGIES, Strategy, all_strategies, strategy_named
from parbals.types import Batch

__all__ = ["STRATEGIES", "Batch", "Labelled", "Problem", "Strategy", "all_strategies", "batch_of", "strategy_named"]
