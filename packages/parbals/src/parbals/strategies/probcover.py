"""ProbCover: cover as much of the pool as possible by balls of one radius (Yehuda et al., 2022).

A labelled, pending or chosen point covers all points that are nearer than δ. The next point is the
one whose ball contains the most uncovered points of the pool. The radius is estimated without
labels: k-means with as many clusters as classes stands in for the labels, a ball is pure if all its
points belong to one cluster, and δ is the largest radius at which 95 % of the balls are pure. A
ball is pure up to the distance r to the nearest point of another cluster, so δ is the order
statistic of r that 95 % of the points reach.

Once the whole pool is covered, where the paper ends, the radius becomes half of the largest
distance to a covering point, and the search goes on with the points that are then uncovered.
Between balls with as many uncovered points the seed decides.

Distances are computed in blocks and not stored: memory grows with N, not with the number of edges
of the graph, and time with N². The degrees of a step follow from the points that it covers for the
first time.
Rows are compared as they are; the paper's have norm one.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.randomness import derive_generator
from parbals.strategies.problem import Problem, batch_of
from parbals.strategies.rows import cluster_rows, sort_rows
from parbals.types import Batch

__all__ = ["pure_radius", "select_probcover"]

_PURITY = 0.95
_BLOCK_ROWS = 1024
_BLOCK_COLUMNS = 8192
_ROUNDING = 1e-5
"""By this share balls are smaller, so that a point at the radius itself stays outside."""


def select_probcover(problem: Problem) -> Batch:
    """The score is the share of the pool that a point covers for the first time."""
    n_classes = problem.require_n_classes()
    points = sort_rows(problem)
    clusters, _ = cluster_rows(points.scaled.rows, n_classes)
    radius = (1.0 - _ROUNDING) * pure_radius(points.scaled.rows, clusters)
    in_pool = np.flatnonzero(points.positions >= 0)
    in_pool = derive_generator(problem.seed, "probcover").permutation(in_pool)
    rows = points.scaled.rows[in_pool]
    positions = points.positions[in_pool]
    is_free = points.is_free[in_pool]
    nearest = _nearest_distance(rows, points.scaled.rows[~points.is_free])
    is_covered = nearest < radius
    degrees = _count_within(rows, rows[~is_covered], radius)
    chosen = np.empty(problem.batch_size, np.int64)
    scores = np.empty(problem.batch_size)
    shares = np.empty(len(rows))
    for step in range(problem.batch_size):
        if is_covered.all():
            radius = nearest.max() / 2.0
            is_covered = nearest < radius
            degrees = _count_within(rows, rows[~is_covered], radius)
        index = int(np.where(is_free, degrees, -1).argmax())
        chosen[step] = index
        scores[step] = degrees[index] / len(rows)
        shares[positions] = degrees / len(rows)
        problem.show(shares)
        is_free[index] = False
        distances = np.linalg.norm(rows - rows[index], axis=1)
        nearest = np.minimum(nearest, distances)
        is_new = ~is_covered & (distances < radius)
        degrees -= _count_within(rows, rows[is_new], radius)
        is_covered |= is_new
    return batch_of(problem, positions[chosen], scores)


def pure_radius(rows: np.ndarray, clusters: np.ndarray) -> float:
    """The largest radius at which 95 % of the balls around rows (n, D) lie in one cluster each.

    >>> rows = np.arange(20.0, dtype=np.float32)[:, None]
    >>> pure_radius(rows, np.arange(20) // 10)  # beyond it both points at the border are impure
    1.0
    """
    squared = np.full(len(rows), np.inf)
    for block in block_rows(len(rows), _BLOCK_ROWS):
        for columns in block_rows(len(rows), _BLOCK_COLUMNS):
            distances = _squared_distances(rows[block], rows[columns])
            distances[clusters[block, None] == clusters[columns]] = np.inf
            squared[block] = np.minimum(squared[block], distances.min(axis=1))
    n_impure = len(rows) - int(np.ceil(_PURITY * len(rows)))
    return float(np.sqrt(np.partition(squared, n_impure)[n_impure]))


def _nearest_distance(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(n,) distance of rows (n, D) to the nearest of the centres (m, D); infinite without any."""
    from sklearn.metrics import pairwise_distances_argmin_min

    if len(centres) == 0:
        return np.full(len(rows), np.inf)
    return np.asarray(pairwise_distances_argmin_min(rows, centres)[1])


def _count_within(rows: np.ndarray, others: np.ndarray, radius: float) -> np.ndarray:
    """(n,) number of the others (m, D) nearer than the radius to each row (n, D)."""
    counts = np.zeros(len(rows), np.int64)
    for block in block_rows(len(rows), _BLOCK_ROWS):
        for columns in block_rows(len(others), _BLOCK_COLUMNS):
            distances = _squared_distances(rows[block], others[columns])
            counts[block] += np.count_nonzero(distances < radius**2, axis=1)
    return counts


def _squared_distances(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Squared distances (n, m) between rows (n, D) and others (m, D)."""
    row_squares = np.einsum("nd,nd->n", rows, rows)
    other_squares = np.einsum("md,md->m", others, others)
    return np.asarray(
        np.maximum(row_squares[:, None] + other_squares - 2.0 * (rows @ others.T), 0.0)
    )
