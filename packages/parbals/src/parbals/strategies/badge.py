"""BADGE: points whose gradients are large and point in different directions (Ash et al., 2020).

The gradient of the loss in the last layer, at the label the model itself would give, is the
rank-one matrix

    g(x) = (p̄(x) - onehot(argmax p̄(x))) ⊗ [x; 1],

and the batch is the k-means++ seeding of these embeddings: the first point uniformly at random,
every next one with probability proportional to its squared distance to the nearest point so far.
Pending points count as chosen. The embeddings (N, C, D+1) are never held: with g = a ⊗ z,

    ‖g_i - g_j‖² = ‖a_i‖²‖z_i‖² + ‖a_j‖²‖z_j‖² - 2 (a_i·a_j)(z_i·z_j).
"""

import numpy as np

from parbals.randomness import derive_generator
from parbals.strategies.greedy import Step, columns, grow
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["gradient_factors", "select_badge"]


def select_badge(problem: Problem) -> Batch:
    """The score of a point is the squared distance by which it was drawn."""
    search = _Search(problem)
    steps = grow(search, problem.candidates(), problem.pending, problem.batch_size)
    chosen, scores, *_ = columns(steps)
    return batch_of(problem, chosen, scores, initial_scores=search.start[chosen])


class _Search:
    """Squared distances of gradients to the nearest chosen one, for the greedy loop."""

    def __init__(self, problem: Problem) -> None:
        a, z = self._factors = gradient_factors(problem.mean_probs, problem.require_features())
        self._lengths = np.square(a).sum(axis=1) * np.einsum("nd,nd->n", z, z, dtype=np.float64)
        self._nearest = np.full(problem.n_pool, np.inf)
        self._generator = derive_generator(problem.seed, "badge")
        self._problem, self.start = problem, np.empty(0)

    def observe(self, index: int) -> None:
        (a, z), lengths = self._factors, self._lengths
        inner = (a @ a[index]) * (z @ z[index]).astype(np.float64)
        squares = np.maximum(lengths + lengths[index] - 2.0 * inner, 0.0)
        # What rounding leaves of a point's distance to its own duplicates must not draw them.
        squares = np.where(squares <= 1e-6 * (lengths + lengths[index]), 0.0, squares)
        self._nearest = np.minimum(self._nearest, squares)

    def best(self, free: np.ndarray) -> Step:
        is_known = np.isfinite(self._nearest)
        shown = np.where(is_known, self._nearest, self._lengths)
        self.start = self.start if len(self.start) else shown
        self._problem.show(shown)
        chances = np.where(free & is_known, self._nearest, 0.0)
        total = chances.sum()
        # At the start, and when only duplicates of chosen points are left, all free ones are alike.
        chances = chances / total if total > 0 else free / free.sum()
        index = int(self._generator.choice(len(free), p=chances))
        return Step(index, float(shown[index]), int(free.sum()))


def gradient_factors(mean_probs: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a (N, C) = p̄ - onehot(argmax p̄), float64, and z (N, D+1) = [x; 1], float32: g = a ⊗ z."""
    a = mean_probs.copy()
    a[np.arange(len(a)), a.argmax(axis=1)] -= 1.0
    z = np.ones((len(features), features.shape[1] + 1), np.float32)
    z[:, :-1] = features
    return a, z
