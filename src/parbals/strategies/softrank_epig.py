"""SoftRank-EPIG: points drawn with probability proportional to rank to the power -β (Kirsch et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.stochastic import log_rank, noisy_batch
from parbals.batches.top import target_scores
from parbals.types import Batch

__all__ = ["select_softrank_epig"]


def select_softrank_epig(problem: Problem) -> Batch:
    """Top-B of -ln(rank) + G/β, the best point having rank 1."""
    return noisy_batch(problem, target_scores(problem), log_rank)
