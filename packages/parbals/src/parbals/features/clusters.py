"""Nested clusters of rows: one tree of splits gives any number of clusters.

Bisecting k-means: of all clusters the one with the largest sum of squares is split in two, by
2-means that starts at its first principal direction. Undoing the last splits leaves fewer clusters.
"""

import heapq
from typing import NamedTuple, Self

import numpy as np

from parbals.shapes import Array, Bool, Float, Int

__all__ = ["NestedClusters"]

_POWER_STEPS = 5
_MAX_STEPS = 10


class NestedClusters(NamedTuple):
    """The smallest clusters of N rows, and the order in which they were split off.

    >>> clusters = NestedClusters.of(np.array([[0.0], [1.0], [8.0], [9.5]]), n_clusters=3)
    >>> clusters.labels(2).tolist(), clusters.labels(3).tolist()
    ([0, 0, 1, 1], [0, 0, 2, 1])
    """

    smallest: Int[Array, " N"]  # cluster numbers
    parents: Int[Array, " K"]  # the cluster that each was split off from

    @classmethod
    def of(cls, rows: Float[Array, "N q"], n_clusters: int) -> Self:
        """Split rows into ``n_clusters``, or fewer if the rest are equal."""
        labels = np.zeros(len(rows), np.int32)
        parents = [0]
        members = [np.arange(len(rows))]
        largest = [(-_sum_of_squares(rows), 0)]
        while largest and len(parents) < n_clusters:
            sum_of_squares, cluster = heapq.heappop(largest)
            if sum_of_squares == 0.0:
                break
            positions = members[cluster]
            is_second = _split(rows[positions])
            number = len(parents)
            labels[positions[is_second]] = number
            parents.append(cluster)
            members[cluster] = positions[~is_second]
            members.append(positions[is_second])
            for part in (cluster, number):
                heapq.heappush(largest, (-_sum_of_squares(rows[members[part]]), part))
        return cls(labels, np.array(parents, np.int32))

    def labels(self, n_clusters: int) -> Int[Array, " N"]:
        """The cluster (N,) of every row after the first ``n_clusters`` - 1 splits."""
        labels = self.smallest
        while (labels >= n_clusters).any():
            labels = np.where(labels >= n_clusters, self.parents[labels], labels)
        return labels


def _sum_of_squares(rows: Float[Array, "n q"]) -> float:
    """Sum of squared distances from the mean; 0 if all rows are equal."""
    if (rows == rows[0]).all():
        return 0.0
    return float(rows.var(axis=0, dtype=np.float64).sum() * len(rows))


def _split(rows: Float[Array, "n q"]) -> Bool[Array, " n"]:
    """Whether each row is in the second of two clusters, which are not all equal."""
    centred = rows - rows.mean(axis=0)
    direction = centred[np.square(centred).sum(axis=1).argmax()]
    for _ in range(_POWER_STEPS):
        direction = (centred @ direction) @ centred
        direction /= np.linalg.norm(direction)
    is_second = centred @ direction > 0.0
    for _ in range(_MAX_STEPS):
        first = centred[~is_second].mean(axis=0)
        second = centred[is_second].mean(axis=0)
        difference = second - first
        # A row is in the second cluster if it is beyond the middle of the two means.
        previous = is_second
        is_second = centred @ difference > 0.5 * (first + second) @ difference
        if (is_second == previous).all() or is_second.all() or not is_second.any():
            return np.asarray(previous)
    return np.asarray(is_second)
