"""The rows of a learner: prepared features, joined by columns of their neighbourhoods.

The neighbourhoods (:mod:`parbals.features.neighbours`) are those of the pool and the target set
together. They are computed once, when a model first needs rows. Where columns are in different
units, distances are those of the largest unit; the evidence of the labels then drops them.
"""

from functools import cached_property

import numpy as np

from parbals.features.clusters import NestedClusters
from parbals.features.neighbours import MAX_ROWS, MIN_ROWS, Neighbourhoods
from parbals.learner.features import FeatureTable, Preparation

__all__ = ["PoolStructure"]

_MAX_ENTRIES = 50_000_000
"""Numbers of all rows, which are read at once: a few copies of 400 MB."""
_MIN_CLUSTERS = 512
"""Clusters that are computed at once; more when they are asked for."""


class PoolStructure:
    """Neighbourhood columns (N, b) of a pool, (M, b) of a target set and (n, b) of new rows.

    Attributes:
        notes: a sentence about why there are none, if the user may expect them.
    """

    def __init__(
        self, pool: FeatureTable, target: FeatureTable | None, preparation: Preparation
    ) -> None:
        self._preparation = preparation
        self._tables = (pool,) if target is None else (pool, target)
        n_rows = sum(table.n_rows for table in self._tables)
        self.notes: tuple[str, ...] = ()
        if any(table.is_distributed for table in self._tables):
            self.notes = ("Which rows lie together is ignored: they are in a cluster.",)
        elif n_rows > MAX_ROWS:
            self.notes = (f"Which rows lie together is ignored: there are over {MAX_ROWS:,}.",)
        elif n_rows * pool.n_columns > _MAX_ENTRIES:
            self.notes = ("Which rows lie together is ignored: they are too wide for so many.",)
        self._is_applicable = n_rows >= MIN_ROWS and not self.notes

    @cached_property
    def _neighbourhoods(self) -> Neighbourhoods | None:
        if not self._is_applicable:
            return None
        rows = np.concatenate([self._preparation(table.all_rows) for table in self._tables])
        return Neighbourhoods.of(rows)

    @cached_property
    def _columns(self) -> list[np.ndarray]:
        """Columns of the pool and the target set."""
        assert self._neighbourhoods is not None
        n_pool = self._tables[0].n_rows
        return np.split(self._neighbourhoods.columns_of_pool(), [n_pool])

    @property
    def n_columns(self) -> int:
        """b; 0 where neighbourhoods are left out."""
        return 0 if self._neighbourhoods is None else self._neighbourhoods.n_columns

    def pool_rows(self, rows: np.ndarray, positions: np.ndarray | slice) -> np.ndarray:
        """Join prepared rows of the pool by their columns."""
        return rows if self._neighbourhoods is None else _joined(rows, self._columns[0][positions])

    def target_rows(self, rows: np.ndarray, positions: np.ndarray | slice) -> np.ndarray:
        """Join prepared rows of the target set by their columns."""
        return rows if self._neighbourhoods is None else _joined(rows, self._columns[1][positions])

    def representatives(self, free: np.ndarray, used: np.ndarray, n_clusters: int) -> np.ndarray:
        """The most typical free item of every cluster of the pool without a used item, ascending.

        Args:
            free: positions that may be chosen.
            used: positions that are labelled or pending.
            n_clusters: into how many clusters the rows are divided.
        """
        neighbourhoods = self._neighbourhoods
        if neighbourhoods is None:
            return free
        if len(self._clusters.parents) < min(n_clusters, len(neighbourhoods.order)):
            self._clusters = self._split(n_clusters)
        place = np.argsort(neighbourhoods.order)
        clusters = self._clusters.labels(n_clusters)[place]
        others = free[~np.isin(clusters[free], clusters[used])]
        distances = neighbourhoods.mean_distances[place[others]]
        # The most typical item first, and of equal ones the first by content.
        order = np.lexsort((place[others], distances, clusters[others]))
        _, first = np.unique(clusters[others[order]], return_index=True)
        return np.sort(others[order[first]])

    @cached_property
    def _clusters(self) -> NestedClusters:
        return self._split(_MIN_CLUSTERS)

    def _split(self, n_clusters: int) -> NestedClusters:
        """Nested clusters, ``n_clusters`` or up to twice as many."""
        assert self._neighbourhoods is not None
        size = max(_MIN_CLUSTERS, 1 << n_clusters.bit_length())
        return NestedClusters.of(self._neighbourhoods.coordinates, size)

    def new_rows(self, rows: np.ndarray) -> np.ndarray:
        """Join prepared rows by their columns, smoothed over the rows of pool and target set."""
        if self._neighbourhoods is None:
            return rows
        return _joined(rows, self._neighbourhoods.columns(rows))


def _joined(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, columns], axis=1)
