"""BADGE: points whose gradients are large and point in different directions (Ash et al., 2020).

The gradient of the last layer's loss at the predicted label is the rank-one matrix

    g(x) = (p̄(x) - onehot(argmax p̄(x))) ⊗ [x; 1],

and the batch is the k-means++ seeding of these embeddings: the first point is drawn uniformly at
random, every further one with probability proportional to its squared distance to the nearest
chosen point. Pending points count as chosen. The embeddings (N, C, D+1) are never stored: with
g = a ⊗ z,

    ‖g_i - g_j‖² = ‖a_i‖²‖z_i‖² + ‖a_j‖²‖z_j‖² - 2 (a_i·a_j)(z_i·z_j).
"""

import numpy as np

from parbals.randomness import derive_generator
from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["gradient_factors", "select_badge"]

_ROUNDING = 1e-6  # relative to the squared norms


def select_badge(problem: Problem) -> Batch:
    """The score of a point is its squared distance to the chosen points when it was drawn."""
    search = _Search(problem)
    steps = stack_steps(grow(search, problem.candidates(), problem.pending, problem.batch_size))
    return batch_of(
        problem, steps.indices, steps.scores, initial_scores=search.start[steps.indices]
    )


class _Search:
    """Squared distances of gradients to the nearest chosen one, for the greedy loop."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        a, z = gradient_factors(problem.mean_probs, problem.require_features())
        self._a = a
        self._z = z
        self._squared_norms = np.square(a).sum(axis=1) * np.einsum(
            "nd,nd->n", z, z, dtype=np.float64
        )
        self._squared_distances = np.full(problem.n_pool, np.inf)
        self._generator = derive_generator(problem.seed, "badge")
        self.start = np.empty(0)  # scores before the first choice

    def observe(self, index: int) -> None:
        """Count a pool point as chosen."""
        inner = (self._a @ self._a[index]) * (self._z @ self._z[index]).astype(np.float64)
        sums = self._squared_norms + self._squared_norms[index]
        squared = np.maximum(sums - 2.0 * inner, 0.0)
        # Rounding must not leave a distance to exact duplicates, or they would be drawn.
        squared = np.where(squared <= _ROUNDING * sums, 0.0, squared)
        self._squared_distances = np.minimum(self._squared_distances, squared)

    def best(self, free: np.ndarray) -> Step:
        """Draw a free point."""
        has_distance = np.isfinite(self._squared_distances)
        scores = np.where(has_distance, self._squared_distances, self._squared_norms)
        if len(self.start) == 0:
            self.start = scores
        self._problem.show(scores)
        weights = np.where(free & has_distance, self._squared_distances, 0.0)
        total = weights.sum()
        # Uniform for the first point, and when only duplicates of chosen points are left.
        probs = weights / total if total > 0 else free / free.sum()
        index = int(self._generator.choice(len(free), p=probs))
        return Step(index, float(scores[index]), int(free.sum()))


def gradient_factors(mean_probs: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a (N, C) = p̄ - onehot(argmax p̄), float64, and z (N, D+1) = [x; 1], float32: g = a ⊗ z."""
    a = mean_probs.copy()
    a[np.arange(len(a)), a.argmax(axis=1)] -= 1.0
    z = np.ones((len(features), features.shape[1] + 1), np.float32)
    z[:, :-1] = features
    return a, z
