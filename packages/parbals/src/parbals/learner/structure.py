"""The rows of a learner: prepared features, joined by columns of their neighbourhoods.

The neighbourhoods (:mod:`parbals.features.neighbours`) are those of the pool and the target set
together. They are computed once, when a model first needs rows. Where columns are in different
units, distances are those of the largest unit; the evidence of the labels then drops them.
"""

from functools import cached_property

import numpy as np

from parbals.features.neighbours import MAX_ROWS, MIN_ROWS, Neighbourhoods
from parbals.learner.features import FeatureTable, Preparation

__all__ = ["PoolStructure"]


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
        return [
            self._neighbourhoods.columns(self._preparation(table.all_rows))
            for table in self._tables
        ]

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

    def new_rows(self, rows: np.ndarray) -> np.ndarray:
        """Join prepared rows by their columns, smoothed over the rows of pool and target set."""
        if self._neighbourhoods is None:
            return rows
        return _joined(rows, self._neighbourhoods.columns(rows))


def _joined(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, columns], axis=1)
