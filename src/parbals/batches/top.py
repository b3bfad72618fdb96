"""Top-B: the B points with the highest score, one by one, blind to what they share."""

import numpy as np

from parbals.batches.problem import Problem, batch_of
from parbals.scores.epig import epig
from parbals.types import Batch

__all__ = ["target_scores", "top_batch"]


def top_batch(problem: Problem, scores: np.ndarray, tie_break: np.ndarray | None = None) -> Batch:
    """Highest scores first; among equals the higher tie_break, then the lower index. A NaN never wins."""
    ranked = np.where(problem.candidates() & ~np.isnan(scores), scores, -np.inf)
    keys = (-ranked,) if tie_break is None else (-tie_break, -ranked)
    chosen = np.lexsort(keys)[: problem.batch_size]
    return batch_of(problem, chosen, scores[chosen])


def target_scores(problem: Problem) -> tuple[np.ndarray, np.ndarray | None]:
    """(N,) expected gain on the target set under the problem's loss, and what decides between equals.

    Most labels cannot change a decision, so the 0-1 loss gives many points a gain of exactly zero; log
    loss decides between them.
    """
    pool, target = problem.samples()
    information = epig(pool, target, problem.weights)
    if problem.loss == "log":
        return information, None
    return epig(pool, target, problem.weights, loss=problem.loss), information
