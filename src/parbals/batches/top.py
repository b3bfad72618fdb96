"""Top-B: the B points with the highest score, one by one, blind to what they share."""

import numpy as np

from parbals.batches.problem import Problem, batch_of
from parbals.scores.epig import epig
from parbals.scores.losses import Loss
from parbals.types import Batch

__all__ = ["target_scores", "top_batch"]


def top_batch(problem: Problem, scores: np.ndarray, tie_break: np.ndarray | None = None) -> Batch:
    """Highest scores first; among equals the higher tie_break, then the lower index. A NaN never wins."""
    ranked = np.where(problem.candidates() & ~np.isnan(scores), scores, -np.inf)
    keys = (-ranked,) if tie_break is None else (-tie_break, -ranked)
    chosen = np.lexsort(keys)[: problem.batch_size]
    return batch_of(problem, chosen, scores[chosen])


def target_scores(problem: Problem, loss: Loss | None = None) -> np.ndarray:
    """(N,) expected gain on the target set under a loss, by default the problem's."""
    return epig(*problem.samples(), problem.weights, loss=loss or problem.loss)
