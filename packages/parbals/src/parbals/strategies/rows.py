"""Rows of the pool for strategies that compare them: scaled, sorted, clustered.

Sorted by their content, rows give the same clusters and break ties alike in any order of the pool.
"""

import warnings
from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.strategies.problem import Problem

__all__ = [
    "ScaledRows",
    "SortedRows",
    "cluster_rows",
    "content_order",
    "nearest_to_centres",
    "sort_rows",
]

_BLOCK_ROWS = 1024
_MAX_ITERATIONS = 50
_MAX_EXACT_CLUSTERS = 50
_MINIBATCH_ROWS = 4096


class ScaledRows:
    """Rows (n, D), centred and divided by one number, so that squares in float32 are accurate.

    >>> scaled = ScaledRows(np.array([[1e9, 0.0], [1e9 + 4.0, 0.0]]))
    >>> scaled.rows.tolist(), scaled.scale
    ([[-1.0, 0.0], [1.0, 0.0]], 2.0)
    >>> scaled.distances_to(np.array([[1e9 + 1.0, 0.0]])).tolist()
    [1.0, 3.0]
    """

    def __init__(self, features: np.ndarray) -> None:
        self.mean = features.mean(axis=0, dtype=np.float64)
        spread = np.maximum(features.max(axis=0) - self.mean, self.mean - features.min(axis=0))
        self.scale = float(spread.max()) or 1.0
        self.rows = np.empty(features.shape, np.float32)
        # In blocks, without a copy of the pool in double precision.
        for block in block_rows(len(features), _BLOCK_ROWS):
            self.rows[block] = self.scaled(features[block])

    def distances_to(self, centres: np.ndarray) -> np.ndarray:
        """(n,) distance of each row to the nearest of the centres (S, D), S ≥ 1, in their units."""
        from sklearn.metrics import pairwise_distances_argmin_min

        centre_rows = self.scaled(centres)
        if len(centre_rows) > 1:
            _, distances = pairwise_distances_argmin_min(self.rows, centre_rows)
            return self.scale * distances
        # Differences first, without the cancellation of scikit-learn's formula.
        squared = np.empty(len(self.rows))
        for block in block_rows(len(squared), _BLOCK_ROWS):
            squared[block] = np.square(self.rows[block] - centre_rows).sum(axis=1)
        return self.scale * np.sqrt(squared)

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Other rows (m, D), centred and divided alike, in float32."""
        return ((rows - self.mean) / self.scale).astype(np.float32)


class SortedRows(NamedTuple):
    """All n rows of a problem, pool and labelled points, sorted by their content."""

    scaled: ScaledRows
    positions: np.ndarray  # (n,) positions in the pool, -1 for labelled points
    is_free: np.ndarray  # (n,) whether a row may be chosen: neither labelled nor pending


def sort_rows(problem: Problem) -> SortedRows:
    """Sort the features of the pool and of the labelled points."""
    features = problem.require_features()
    positions = np.arange(len(features))
    is_free = problem.candidates()
    labelled = problem.labelled.features
    if labelled is not None:
        features = np.concatenate([features, labelled])
        positions = np.append(positions, np.full(len(labelled), -1))
        is_free = np.append(is_free, np.zeros(len(labelled), bool))
    order = content_order(features)
    return SortedRows(ScaledRows(features[order]), positions[order], is_free[order])


def content_order(features: np.ndarray) -> np.ndarray:
    """An order (n,) of rows (n, D) that depends on their content alone, not on its unit.

    >>> content_order(np.array([[3.0], [1.0], [2.0]])).tolist()
    [1, 2, 0]
    """
    return np.lexsort(features.T)


def cluster_rows(rows: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Cluster rows (n, D) by k-means: clusters (n,) and centres (k, D).

    With more than 50 clusters by mini-batches. A cluster is empty where there are fewer distinct
    rows than clusters.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    n_clusters = min(n_clusters, len(rows))
    if n_clusters <= _MAX_EXACT_CLUSTERS:
        kmeans = KMeans(n_clusters, n_init=1, max_iter=_MAX_ITERATIONS, random_state=0)
    else:
        kmeans = MiniBatchKMeans(n_clusters, batch_size=_MINIBATCH_ROWS, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        kmeans.fit(rows)
    return kmeans.labels_, kmeans.cluster_centers_


def nearest_to_centres(rows: np.ndarray, n: int) -> np.ndarray:
    """Positions (n,) of the rows nearest to the centres of n clusters of rows (m, D), m ≥ n.

    Larger clusters come first. Where clusters are empty, the rows nearest to their own centres
    fill up.
    """
    clusters, centres = cluster_rows(rows, n)
    distances = np.empty(len(rows))
    for block in block_rows(len(rows), _BLOCK_ROWS):
        distances[block] = np.linalg.norm(rows[block] - centres[clusters[block]], axis=1)
    by_distance = np.argsort(distances, kind="stable")
    present, first = np.unique(clusters[by_distance], return_index=True)
    by_size = np.argsort(-np.bincount(clusters)[present], kind="stable")
    nearest = by_distance[first[by_size]]
    others = np.setdiff1d(by_distance, nearest, assume_unique=True)
    return np.concatenate([nearest, others[: n - len(nearest)]])
