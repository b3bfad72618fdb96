"""Margin: the points whose two most probable classes are closest (Scheffer et al., 2001)."""

from parbals.batches.problem import Problem
from parbals.batches.top import top_batch
from parbals.scores.uncertainty import margin
from parbals.types import Batch

__all__ = ["select_margin"]


def select_margin(problem: Problem) -> Batch:
    """Smallest gap between the two most probable classes of p̄."""
    return top_batch(problem, margin(problem.pool_probs, problem.weights))
