"""CoreSet: cover the pool, so that no point is far from a labelled one (Sener and Savarese, 2018).

Greedy k-centre, also called farthest-first traversal: the next point is the one whose nearest
centre is farthest away. Labelled and pending points are the first centres. Without any, the first
point is the one nearest to the mean of the pool: the start does not depend on the order of the
rows.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.strategies.greedy import Step, columns, grow
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_coreset"]

_BLOCK = 1024


def select_coreset(problem: Problem) -> Batch:
    """The score of a point is its Euclidean distance to the nearest centre when it was chosen."""
    search = _Centres(problem)
    steps = grow(search, problem.candidates(), (), problem.batch_size)
    chosen, scores, *_ = columns(steps)
    return batch_of(problem, chosen, scores, initial_scores=search.start[chosen])


class _Centres:
    """Centres for the greedy loop, and the distance of every point to the nearest of them."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._features = problem, problem.require_features()
        self._points = _PoolPoints(self._features)
        centres = self._features[problem.pending]
        if problem.labelled.features is not None:
            centres = np.concatenate([problem.labelled.features, centres])
        self._has_centres = len(centres) > 0
        self.start = self._distance = (
            self._points.distances_to(centres) if self._has_centres else np.empty(0)
        )

    def observe(self, index: int) -> None:
        nearest = self._points.distances_to(self._features[[index]])
        self._distance = np.minimum(self._distance, nearest)

    def best(self, free: np.ndarray) -> Step:
        if not self._has_centres:
            nearness = -self._points.distances_to(self._points.mean[None])
            index = int(nearness.argmax())
            self._problem.show(nearness)
            self._has_centres = True
            self.start = self._distance = self._points.distances_to(self._features[[index]])
            return Step(index, np.inf, len(free))
        self._problem.show(self._distance)
        index = int(np.where(free, self._distance, -np.inf).argmax())
        return Step(index, float(self._distance[index]), int(free.sum()))


class _PoolPoints:
    """Pool features (N, D), centred and scaled so that float32 squares keep their digits."""

    def __init__(self, features: np.ndarray) -> None:
        self.mean = features.mean(axis=0, dtype=np.float64)
        spread = np.maximum(features.max(axis=0) - self.mean, self.mean - features.min(axis=0))
        self._scale = float(spread.max()) or 1.0
        self._rows = np.empty(features.shape, np.float32)
        for block in block_rows(len(features), _BLOCK):  # no copy of the pool in double precision
            self._rows[block] = self._prepared(features[block])

    def distances_to(self, centres: np.ndarray) -> np.ndarray:
        """(N,) distance of each point to the nearest of the centres (S, D), S ≥ 1."""
        from sklearn.metrics import pairwise_distances_argmin_min

        given = self._prepared(centres)
        if len(given) == 1:  # without cancellation
            nearest = np.empty(len(self._rows))
            for block in block_rows(len(nearest), _BLOCK):
                nearest[block] = np.square(self._rows[block] - given).sum(axis=1)
            return self._scale * np.sqrt(nearest)
        return self._scale * pairwise_distances_argmin_min(self._rows, given)[1]

    def _prepared(self, rows: np.ndarray) -> np.ndarray:
        return ((rows - self.mean) / self._scale).astype(np.float32)
