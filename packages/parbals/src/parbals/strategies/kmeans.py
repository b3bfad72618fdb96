"""k-means: an item near the centre of each cluster of the target set, for the first batch.

The target set, by default the pool, is divided into as many clusters as there are items to choose
plus items that are labelled or pending. Clusters that contain a labelled or pending item are
covered; of the others the largest come first. The row of a cluster that is nearest to its centre is
its medoid, and the item that is nearest to the medoid is chosen. Such items are typical, whereas
those of ``coreset``, far from all others, are outliers: with the first 20 labels of nine sets
accuracy is 83.9 % on average, with those of coreset or at random 79.7 % (studies/cold_start).

Rows are sorted first and the seed of k-means is fixed, so the choice does not depend on the order
of the pool.
"""

import warnings
from typing import NamedTuple

import numpy as np

from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_kmeans"]

_N_INIT = 3
_MAX_ITERATIONS = 50
_MAX_COVERED_ITEMS = 200
"""Labelled and pending items that add a cluster each: thousands would not be worth the time."""


class _Clusters(NamedTuple):
    """A k-means clustering of n target rows into k clusters, and of the m candidates by it."""

    medoids: np.ndarray  # (k,) target row nearest to each centre; -1 for an empty cluster
    shares: np.ndarray  # (k,) share of the target rows in each cluster
    is_covered: np.ndarray  # (k,) whether a cluster contains a labelled or pending item
    of_candidates: np.ndarray  # (m,) cluster of each candidate
    distances: np.ndarray  # (m,) distance of each candidate to the centre of its cluster


def select_kmeans(problem: Problem) -> Batch:
    """The score of a point is its cluster's share of the target; 0 for points that fill the batch.

    Without a target set the candidates are clustered.
    """
    features = np.asarray(problem.require_features(), np.float64)
    covered = features[problem.pending]
    if problem.labelled.features is not None:
        covered = np.concatenate([problem.labelled.features, covered])
    rows = np.flatnonzero(problem.candidates())
    rows = rows[np.lexsort(features[rows].T)]
    candidates = features[rows]
    target = candidates
    if problem.target_features is not None:
        target = np.asarray(problem.target_features, np.float64)
        target = target[np.lexsort(target.T)]
    clusters = _cluster(target, candidates, covered, problem.batch_size)
    order = np.argsort(-clusters.shares, kind="stable")
    chosen: list[int] = []
    scores: list[float] = []
    for cluster in order[~clusters.is_covered[order]][: problem.batch_size]:
        if clusters.medoids[cluster] >= 0:
            medoid = target[clusters.medoids[cluster]]
            distances = np.linalg.norm(candidates - medoid, axis=1)
            distances[chosen] = np.inf
            chosen.append(int(distances.argmin()))
            scores.append(float(clusters.shares[cluster]))
    by_distance = np.argsort(clusters.distances, kind="stable")
    remaining = by_distance[~np.isin(by_distance, chosen)]
    n_missing = problem.batch_size - len(chosen)
    chosen += remaining[:n_missing].tolist()
    scores += [0.0] * n_missing
    shares = np.zeros(problem.n_pool)
    shares[rows] = clusters.shares[clusters.of_candidates]
    problem.show(shares)
    return batch_of(problem, rows[chosen], np.array(scores))


def _cluster(
    target: np.ndarray, candidates: np.ndarray, covered: np.ndarray, batch_size: int
) -> _Clusters:
    """Cluster target rows (n, D), given candidates (m, D) and labelled and pending rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    n_clusters = min(batch_size + min(len(covered), _MAX_COVERED_ITEMS), len(target))
    kmeans = KMeans(n_clusters, n_init=_N_INIT, max_iter=_MAX_ITERATIONS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        kmeans.fit(target)
    centres = kmeans.cluster_centers_
    distances = np.linalg.norm(target - centres[kmeans.labels_], axis=1)
    medoids = np.full(n_clusters, -1)
    for cluster in range(n_clusters):
        members = np.flatnonzero(kmeans.labels_ == cluster)
        if len(members):
            medoids[cluster] = members[distances[members].argmin()]
    is_covered = np.zeros(n_clusters, bool)
    if len(covered):
        is_covered[kmeans.predict(np.ascontiguousarray(covered, np.float64))] = True
    of_candidates = kmeans.predict(np.ascontiguousarray(candidates))
    return _Clusters(
        medoids=medoids,
        shares=np.bincount(kmeans.labels_, minlength=n_clusters) / len(target),
        is_covered=is_covered,
        of_candidates=of_candidates,
        distances=np.linalg.norm(candidates - centres[of_candidates], axis=1),
    )
