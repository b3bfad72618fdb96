"""ParBaLS-EPIG: each point is chosen given labels the points before it might get (Hu and Mussmann, 2026)."""

from parbals.batches.greedy import greedy_batch
from parbals.batches.problem import Problem
from parbals.types import Batch

__all__ = ["select_parbals_epig"]


def select_parbals_epig(problem: Problem) -> Batch:
    """``n_universes`` joint labellings of the pool, each drawn from the posterior."""
    return greedy_batch(problem, problem.n_universes, most_probable=False)
