"""Entropy: the points whose averaged prediction is most spread out (Shannon, 1948)."""

from parbals.batches.problem import Problem
from parbals.batches.top import top_batch
from parbals.scores.uncertainty import predictive_entropy
from parbals.types import Batch

__all__ = ["select_entropy"]


def select_entropy(problem: Problem) -> Batch:
    """Largest H(p̄)."""
    return top_batch(problem, predictive_entropy(problem.pool_probs, problem.weights))
