"""Power-BALD: points drawn with probability proportional to their score to the power β (Kirsch et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.stochastic import log_score, noisy_batch
from parbals.scores.uncertainty import bald
from parbals.types import Batch

__all__ = ["select_power_bald"]


def select_power_bald(problem: Problem) -> Batch:
    """Top-B of ln(score) + G/β; a score of zero is never drawn while a positive one is left."""
    return noisy_batch(problem, bald(problem.pool_probs, problem.weights), log_score)
