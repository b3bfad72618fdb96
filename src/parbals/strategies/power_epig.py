"""Power-EPIG: points drawn with probability proportional to their score to the power β (Kirsch et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.stochastic import log_score, noisy_batch
from parbals.batches.top import target_scores
from parbals.types import Batch

__all__ = ["select_power_epig"]


def select_power_epig(problem: Problem) -> Batch:
    """Top-B of ln(score) + G/β; a score of zero is never drawn while a positive one is left."""
    return noisy_batch(problem, target_scores(problem), log_score)
