"""DropQuery: representatives of the items whose predicted class changes (Gupte et al., 2024).

Three times, three in four features of every row are dropped at random and the others rescaled. A
row is uncertain if its predicted class changes in more than half of the passes. The uncertain rows
are clustered by k-means into as many clusters as there are points to choose, and the row nearest to
each centre is chosen.

A dropped feature becomes its mean over the pool, so that neither its unit nor its origin matters:

    x' = x̄ + m ∘ (x - x̄) / (1 - ρ),    m_d ~ Bernoulli(1 - ρ),    ρ = 0.75.

The paper's features have means near zero, and it puts zero in their place. If fewer rows are
uncertain than there are points to choose, representatives of those whose class changes in fewer
passes follow.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.randomness import derive_generator
from parbals.strategies.problem import Problem, batch_of
from parbals.strategies.rows import ScaledRows, content_order, nearest_to_centres
from parbals.types import Batch

__all__ = ["select_dropquery"]

_DROPPED_SHARE = 0.75
_N_PASSES = 3
_BLOCK_ROWS = 1024


def select_dropquery(problem: Problem) -> Batch:
    """The score of a point is the share of passes in which its predicted class changes."""
    features = problem.require_features()
    free = np.flatnonzero(problem.candidates())
    free = free[content_order(features[free])]
    n_changes = _count_changes(problem, free)
    n_sufficient = _N_PASSES // 2 + 1
    levels = np.minimum(n_changes, n_sufficient)
    chosen = free[:0]
    for level in range(n_sufficient, -1, -1):
        rows = free[levels == level]
        n_missing = min(problem.batch_size - len(chosen), len(rows))
        if n_missing:
            nearest = nearest_to_centres(ScaledRows(features[rows]).rows, n_missing)
            chosen = np.append(chosen, rows[nearest])
    shares = np.zeros(problem.n_pool)
    shares[free] = n_changes / _N_PASSES
    problem.show(shares)
    return batch_of(problem, chosen, shares[chosen])


def _count_changes(problem: Problem, positions: np.ndarray) -> np.ndarray:
    """(n,) number of passes in which the predicted class of pool positions (n,) changes."""
    features = problem.require_features()
    generator = derive_generator(problem.seed, "dropquery")
    mean = features.mean(axis=0, dtype=np.float64)
    n_changes = np.zeros(len(positions), np.int64)
    for block in block_rows(len(positions), _BLOCK_ROWS):
        rows = features[positions[block]]
        classes = problem.predict_classes(rows)
        for _ in range(_N_PASSES):
            is_present = generator.random(rows.shape) >= _DROPPED_SHARE
            dropped = mean + is_present * (rows - mean) / (1.0 - _DROPPED_SHARE)
            n_changes[block] += problem.predict_classes(dropped.astype(rows.dtype)) != classes
    return n_changes
