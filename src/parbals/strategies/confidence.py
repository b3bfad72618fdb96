"""Confidence: the points whose most probable class is least probable (Lewis and Gale, 1994)."""

from parbals.batches.problem import Problem
from parbals.batches.top import top_batch
from parbals.scores.uncertainty import least_confidence
from parbals.types import Batch

__all__ = ["select_confidence"]


def select_confidence(problem: Problem) -> Batch:
    """Smallest max_y p̄(y|x)."""
    return top_batch(problem, least_confidence(problem.pool_probs, problem.weights))
