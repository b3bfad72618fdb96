"""The interface of the backends: scores of pool rows, by position, while a batch grows."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from parbals.posterior.predictive import add_bias
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.conditioning import UniverseState
from parbals.strategies.distributed import DistributedRows, PoolFeatures, map_rows
from parbals.strategies.scoring import ScoreName, ScoringContext

__all__ = ["Backend", "BackendModule", "CacheSlots", "PoolRows", "SlotTable"]


class PoolRows:
    """Design rows of a pool, by position.

    Args:
        X: features (N, D) of the pool.
        prefetch: positions that are likely to be needed; rows in a cluster are fetched at once.
    """

    def __init__(self, X: PoolFeatures, prefetch: Int[Array, " n"]) -> None:
        self._X = X
        self.prefetch = prefetch
        self._fetched: dict[int, np.ndarray] = {}
        if isinstance(X, DistributedRows):
            self._fetch(prefetch)

    def design(self, indices: Int[Array, " n"]) -> Float[Array, "n d"]:
        """Design rows at some positions, the constant column last, in single precision."""
        if not isinstance(self._X, DistributedRows):
            return add_bias(self._X[indices], np.float32)
        missing = [index for index in indices.tolist() if index not in self._fetched]
        self._fetch(np.array(missing, int))
        return add_bias(np.stack([self._fetched[i] for i in indices.tolist()]), np.float32)

    def map(self, function: Callable[[PoolFeatures], Float[Array, " n"]]) -> Float[Array, " N"]:
        """A function of rows of features, for the whole pool."""
        return map_rows(self._X, function)

    def _fetch(self, indices: Int[Array, " n"]) -> None:
        if len(indices):
            self._fetched.update(zip(indices.tolist(), self._X[indices], strict=True))


class CacheSlots(NamedTuple):
    """Cache slots of some pool rows; new rows take consecutive slots from ``first_new``."""

    slots: Int[Array, " n"]
    new_rows: Int[Array, " new"]  # pool positions that were not in the cache
    first_new: int


class SlotTable:
    """Assigns pool rows to the slots of a cache; a full cache is cleared.

    >>> table = SlotTable(n_slots=3)
    >>> table.assign(np.array([40, 7])).slots.tolist()
    [0, 1]
    >>> slots, new_rows, first_new = table.assign(np.array([7, 25]))
    >>> slots.tolist(), new_rows.tolist(), first_new
    ([1, 2], [25], 2)
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self._slot_of_row: dict[int, int] = {}

    @property
    def rows(self) -> Int[Array, " n"]:
        """Positions of the rows that have a slot, in the order of the slots."""
        return np.fromiter(self._slot_of_row, int, len(self._slot_of_row))

    def assign(self, indices: Int[Array, " n"]) -> CacheSlots:
        """Slots of the rows at ``indices``; rows without one get the next free slots."""
        slot_of_row = self._slot_of_row
        rows = indices.tolist()
        slots = np.fromiter((slot_of_row.get(row, -1) for row in rows), int, len(rows))
        new_rows = indices[slots < 0]
        if len(slot_of_row) + len(new_rows) > self.n_slots:
            slot_of_row.clear()
            new_rows = indices
            slots = np.full(len(rows), -1)
        first_new = len(slot_of_row)
        new_slots = range(first_new, first_new + len(new_rows))
        slots[slots < 0] = new_slots
        slot_of_row.update(zip(new_rows.tolist(), new_slots, strict=True))
        return CacheSlots(slots, new_rows, first_new)


@runtime_checkable
class Backend(Protocol):
    """Scores of pool rows, averaged over all universes; projected rows are cached."""

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Replace the distinct universes by copies of these."""

    def update(
        self, state: UniverseState, members: Int[Array, " U"], stale: Bool[Array, "V M"]
    ) -> None:
        """Score by the new state of V distinct universes from now on.

        Universe u is the distinct universe ``members[u]``. The softmax is recomputed at the
        ``stale`` targets.
        """

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """Screening scores of rows, ``chunk`` rows at a time."""

    def score(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """Final scores of shortlisted rows, ``chunk`` rows at a time."""


@runtime_checkable
class BackendModule(Protocol):
    """What each backend module provides."""

    has_linear_universes: bool
    """Whether large batches are faster by :mod:`parbals.strategies.universes.linear`."""

    def score_pool(
        self, context: ScoringContext, X: PoolFeatures, *, score: ScoreName
    ) -> Float[Array, " N"]: ...

    def open_backend(
        self, context: ScoringContext, rows: PoolRows, score: ScoreName, n_labels: int
    ) -> AbstractContextManager[Backend]: ...
