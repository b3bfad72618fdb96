"""EPIG: the points whose label says most about the labels of the target set (Bickford Smith et al., 2023)."""

from parbals.batches.problem import Problem
from parbals.batches.top import target_scores, top_batch
from parbals.types import Batch

__all__ = ["select_epig"]


def select_epig(problem: Problem) -> Batch:
    """Largest mean gain over the target set; blind to what the points of the batch share.

    Most labels cannot change a decision, so the 0-1 loss gives many points a gain of exactly zero; log
    loss decides between them.
    """
    return top_batch(problem, target_scores(problem), None if problem.loss == "log" else target_scores(problem, "log"))
