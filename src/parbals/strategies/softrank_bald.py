"""SoftRank-BALD: points drawn with probability proportional to rank to the power -β (Kirsch et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.stochastic import log_rank, noisy_batch
from parbals.scores.uncertainty import bald
from parbals.types import Batch

__all__ = ["select_softrank_bald"]


def select_softrank_bald(problem: Problem) -> Batch:
    """Top-B of -ln(rank) + G/β, the best point having rank 1."""
    return noisy_batch(problem, bald(problem.pool_probs, problem.weights), log_rank)
