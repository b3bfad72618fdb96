"""Softmax-EPIG: points drawn with probability proportional to exp(β · score) (Kirsch et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.stochastic import noisy_batch, plain_score
from parbals.batches.top import target_scores
from parbals.types import Batch

__all__ = ["select_softmax_epig"]


def select_softmax_epig(problem: Problem) -> Batch:
    """Top-B of score + G/β."""
    return noisy_batch(problem, target_scores(problem), plain_score)
