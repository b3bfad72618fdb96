"""BALD: the points whose label says most about the parameters (Houlsby et al., 2011)."""

from parbals.batches.problem import Problem
from parbals.batches.top import top_batch
from parbals.scores.uncertainty import bald
from parbals.types import Batch

__all__ = ["select_bald"]


def select_bald(problem: Problem) -> Batch:
    """Largest H(p̄) - Σ_k w_k H(p_k)."""
    return top_batch(problem, bald(problem.pool_probs, problem.weights))
