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
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["gradient_factors", "select_badge"]


def select_badge(problem: Problem) -> Batch:
    """The score of a point is the squared distance by which it was drawn."""
    a, z = gradient_factors(problem.mean_probs, problem.require_features())
    lengths = np.square(a).sum(axis=1) * np.einsum("nd,nd->n", z, z, dtype=np.float64)
    generator = derive_generator(problem.seed, "badge")
    free = problem.candidates()

    def squared_distances(index: int) -> np.ndarray:
        inner = (a @ a[index]) * (z @ z[index]).astype(np.float64)
        squares = np.maximum(lengths + lengths[index] - 2.0 * inner, 0.0)
        # What rounding leaves of a point's distance to its own duplicates must not draw them.
        return np.where(squares <= 1e-6 * (lengths + lengths[index]), 0.0, squares)

    nearest = np.full(problem.n_pool, np.inf)
    for index in problem.pending:
        nearest = np.minimum(nearest, squared_distances(int(index)))
    chosen: list[int] = []
    scores: list[float] = []
    start = np.where(np.isfinite(nearest), nearest, lengths)
    for _ in range(problem.batch_size):
        chances = np.where(free & np.isfinite(nearest), nearest, 0.0)
        total = chances.sum()
        problem.show(np.where(np.isfinite(nearest), nearest, lengths))
        # At the start, and when only duplicates of chosen points are left, all free ones are alike.
        chances = chances / total if total > 0 else free / free.sum()
        index = int(generator.choice(problem.n_pool, p=chances))
        chosen.append(index)
        scores.append(
            float(nearest[index]) if np.isfinite(nearest[index]) else float(lengths[index])
        )
        free[index] = False
        nearest = np.minimum(nearest, squared_distances(index))
    return batch_of(problem, np.array(chosen), np.array(scores), initial_scores=start[chosen])


def gradient_factors(mean_probs: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a (N, C) = p̄ - onehot(argmax p̄), float64, and z (N, D+1) = [x; 1], float32: g = a ⊗ z."""
    a = mean_probs.copy()
    a[np.arange(len(a)), a.argmax(axis=1)] -= 1.0
    z = np.ones((len(features), features.shape[1] + 1), np.float32)
    z[:, :-1] = features
    return a, z
