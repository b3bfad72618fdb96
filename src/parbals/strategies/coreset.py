"""CoreSet: cover the pool, so that no point is far from a labelled one (Sener and Savarese, 2018).

Greedy k-centre, also called farthest-first traversal: the next point is the one whose nearest
centre is farthest away. Labelled and pending points are the first centres. Without any, the first
point is the one nearest to the mean of the pool: the start does not depend on the order of the
rows.
"""

import numpy as np

from parbals.strategies.distances import PoolPoints
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_coreset"]


def select_coreset(problem: Problem) -> Batch:
    """The score of a point is its Euclidean distance to the nearest centre when it was chosen."""
    features = problem.require_features()
    points = PoolPoints(features)
    free = problem.candidates()
    centres = features[problem.pending]
    if problem.labelled.features is not None:
        centres = np.concatenate([problem.labelled.features, centres])
    chosen: list[int] = []
    scores: list[float] = []
    if len(centres) == 0:
        chosen.append(points.nearest_to_mean())
        scores.append(np.inf)
        free[chosen[0]] = False
        centres = features[chosen]
    start = distance = points.distances_to(centres)
    while len(chosen) < problem.batch_size:
        index = int(np.where(free, distance, -np.inf).argmax())
        chosen.append(index)
        scores.append(float(distance[index]))
        free[index] = False
        distance = np.minimum(distance, points.distances_to(features[[index]]))
    return batch_of(
        problem, np.array(chosen), np.array(scores), initial_scores=start[chosen].astype(np.float64)
    )
