"""Softmax-BALD: points drawn with probability proportional to exp(β · score) (Kirsch et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.stochastic import noisy_batch, plain_score
from parbals.scores.uncertainty import bald
from parbals.types import Batch

__all__ = ["select_softmax_bald"]


def select_softmax_bald(problem: Problem) -> Batch:
    """Top-B of score + G/β."""
    return noisy_batch(problem, bald(problem.pool_probs, problem.weights), plain_score)
