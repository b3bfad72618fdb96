"""CoreSet: cover the pool, so that no point is far from a labelled one (Sener and Savarese, 2018).

Greedy k-centre, also called farthest-first traversal: the next point is the one whose nearest
centre is farthest away. Labelled and pending points are the first centres. Without any, the first
point is the one nearest to the mean of the pool, so the order of the rows does not matter.
"""

import numpy as np

from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import Problem, batch_of
from parbals.strategies.rows import ScaledRows
from parbals.types import Batch

__all__ = ["select_coreset"]


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
        self._points = ScaledRows(self._features)
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
