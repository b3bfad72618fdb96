"""TypiClust: typical items of clusters without a label (Hacohen et al., 2022).

Pool and labelled points are clustered by k-means into as many clusters as there are labelled or
pending points and points to choose, at most 500. Then, point by point: of the clusters with the
fewest labelled, pending and chosen points the largest, and in it the most typical free point. The
typicality of a point is the inverse of its mean distance to its nearest neighbours,

    typicality(x) = ( 1/k Σ_{x' ∈ k-NN(x)} ‖x - x'‖ )⁻¹,    k = min(20, size of the cluster - 1),

among the points of its cluster. Clusters of fewer than five points are outliers and come last.

Rows are compared as they are; the paper's have norm one.
"""

import numpy as np

from parbals.strategies.problem import Problem, batch_of
from parbals.strategies.rows import cluster_rows, sort_rows
from parbals.types import Batch

__all__ = ["select_typiclust"]

_MAX_CLUSTERS = 500
_MIN_CLUSTER_SIZE = 5
_N_NEIGHBOURS = 20
_SMALLEST_DISTANCE = 1e-6
"""Least mean distance, in units of the rows' spread: duplicates are finitely typical."""


def select_typiclust(problem: Problem) -> Batch:
    """The score of a point is its typicality."""
    points = sort_rows(problem)
    rows = points.scaled.rows
    is_free = points.is_free.copy()
    n_clusters = int(np.count_nonzero(~is_free)) + problem.batch_size
    clusters, centres = cluster_rows(rows, min(n_clusters, _MAX_CLUSTERS))
    sizes = np.bincount(clusters, minlength=len(centres))
    n_covered = np.bincount(clusters[~is_free], minlength=len(centres))
    typicality = np.full(len(rows), np.nan)
    chosen = np.empty(problem.batch_size, np.int64)
    for step in range(problem.batch_size):
        # The last key is the primary one.
        keys = (-sizes, n_covered, sizes < _MIN_CLUSTER_SIZE, n_covered == sizes)
        cluster = np.lexsort(keys)[0]
        members = np.flatnonzero(clusters == cluster)
        if np.isnan(typicality[members[0]]):
            typicality[members] = _typicality(rows[members]) / points.scaled.scale
        free_members = members[is_free[members]]
        chosen[step] = free_members[typicality[free_members].argmax()]
        scores = np.zeros(problem.n_pool)
        scores[points.positions[free_members]] = typicality[free_members]
        problem.show(scores)
        is_free[chosen[step]] = False
        n_covered[cluster] += 1
    return batch_of(problem, points.positions[chosen], typicality[chosen])


def _typicality(rows: np.ndarray) -> np.ndarray:
    """(n,) inverse mean distance of rows (n, D) to their nearest neighbours; 0 for a single row."""
    from sklearn.neighbors import NearestNeighbors

    n_neighbours = min(_N_NEIGHBOURS, len(rows) - 1)
    if n_neighbours == 0:
        return np.zeros(1)
    neighbours = NearestNeighbors(n_neighbors=n_neighbours, algorithm="brute").fit(rows)
    distances, _ = neighbours.kneighbors()  # each row's neighbours without the row itself
    return np.asarray(1.0 / np.maximum(distances.mean(axis=1), _SMALLEST_DISTANCE))
