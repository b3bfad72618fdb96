"""CoreSet: cover the pool, so that no point is far from a labelled one (Sener and Savarese, 2018).

Greedy k-centre, also called farthest-first traversal: the next point is the one whose nearest
centre is farthest away. Labelled and pending points are the first centres. Without any, the first
point is the one nearest to the mean of the pool, so the order of the rows does not matter.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_coreset"]

_BLOCK_ROWS = 1024


def select_coreset(problem: Problem) -> Batch:
    """The score of a point is its Euclidean distance to the nearest centre when it was chosen."""
    search = _Centres(problem)
    steps = stack_steps(grow(search, problem.candidates(), (), problem.batch_size))
    return batch_of(
        problem, steps.indices, steps.scores, initial_scores=search.start[steps.indices]
    )


class _Centres:
    """Centres for the greedy loop, and the distance of every point to the nearest of them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._features = problem.require_features()
        self._points = _PoolPoints(self._features)
        centres = self._features[problem.pending]
        if problem.labelled.features is not None:
            centres = np.concatenate([problem.labelled.features, centres])
        self._has_centres = len(centres) > 0
        self._distance = np.empty(0)
        if self._has_centres:
            self._distance = self._points.distances_to(centres)
        self.start = self._distance  # distances before the first choice

    def observe(self, index: int) -> None:
        """Add a pool point to the centres."""
        nearest = self._points.distances_to(self._features[[index]])
        self._distance = np.minimum(self._distance, nearest)

    def best(self, free: np.ndarray) -> Step:
        """The free point farthest from its nearest centre."""
        if not self._has_centres:
            return self._most_central(len(free))
        self._problem.show(self._distance)
        index = int(np.where(free, self._distance, -np.inf).argmax())
        return Step(index, float(self._distance[index]), int(free.sum()))

    def _most_central(self, n_scored: int) -> Step:
        """The point nearest to the mean of the pool, which becomes the first centre."""
        nearness = -self._points.distances_to(self._points.mean[None])
        index = int(nearness.argmax())
        self._problem.show(nearness)
        self._distance = self._points.distances_to(self._features[[index]])
        self.start = self._distance
        self._has_centres = True
        return Step(index, np.inf, n_scored)


class _PoolPoints:
    """Pool features (N, D), centred and scaled so that float32 squares are accurate."""

    def __init__(self, features: np.ndarray) -> None:
        self.mean = features.mean(axis=0, dtype=np.float64)
        spread = np.maximum(features.max(axis=0) - self.mean, self.mean - features.min(axis=0))
        self._scale = float(spread.max()) or 1.0
        self._rows = np.empty(features.shape, np.float32)
        # In blocks, without a copy of the pool in double precision.
        for block in block_rows(len(features), _BLOCK_ROWS):
            self._rows[block] = self._standardised(features[block])

    def distances_to(self, centres: np.ndarray) -> np.ndarray:
        """(N,) distance of each point to the nearest of the centres (S, D), S ≥ 1."""
        from sklearn.metrics import pairwise_distances_argmin_min

        centre_rows = self._standardised(centres)
        if len(centre_rows) > 1:
            _, distances = pairwise_distances_argmin_min(self._rows, centre_rows)
            return self._scale * distances
        # Differences first, without the cancellation of scikit-learn's formula.
        squared = np.empty(len(self._rows))
        for block in block_rows(len(squared), _BLOCK_ROWS):
            squared[block] = np.square(self._rows[block] - centre_rows).sum(axis=1)
        return self._scale * np.sqrt(squared)

    def _standardised(self, rows: np.ndarray) -> np.ndarray:
        return ((rows - self.mean) / self._scale).astype(np.float32)
