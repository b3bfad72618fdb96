"""Random: uniform without replacement. The strategy every other one has to beat."""

import numpy as np

from parbals.batches.problem import Problem, batch_of
from parbals.randomness import derive_generator
from parbals.types import Batch

__all__ = ["select_random"]


def select_random(problem: Problem) -> Batch:
    """Every subset of B free points is equally probable."""
    free = np.flatnonzero(problem.candidates())
    chosen = derive_generator(problem.seed, "random").choice(free, problem.batch_size, replace=False)
    return batch_of(problem, chosen, np.zeros(problem.batch_size))
