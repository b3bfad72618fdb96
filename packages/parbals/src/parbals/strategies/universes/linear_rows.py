"""Pool rows that a growing batch looks at, in universes that are linear models.

Every row has three numbers for each latent and universe: mean, variance and the weighted sum of its
squared covariances with the targets (:mod:`parbals.strategies.universes.linear`). They catch up
with the labels since the row was last looked at when it is looked at again.
"""

from collections.abc import Iterator

import numpy as np

from parbals.arrays import block_rows
from parbals.shapes import Array, Float, Int
from parbals.strategies.backends.base import PoolRows, SlotTable
from parbals.strategies.scoring import ScoringContext
from parbals.strategies.universes.linear import LinearState

__all__ = ["LinearRows", "label_blocks"]

_CACHE_ENTRIES = 2**25  # numbers of all rows: 128 MB
_MIN_CACHED_ROWS = 1_024
_START_ENTRIES = 2**19  # products of a block of rows with the forms: 2 MB
_MAX_LABELS = 32  # per block: their products with a block of rows fit a core's cache
_ROWS_PER_BLOCK = 64


class LinearRows:
    """Rows by position, in every universe.

    Args:
        state: the universes; rows follow its labels.
        pool: the design rows.
    """

    def __init__(self, context: ScoringContext, state: LinearState, pool: PoolRows) -> None:
        self._context = context
        self._state = state
        self._pool = pool
        self._n_folds = state.n_folds
        self._n_latents, self._n_universes, n_columns = state.window.vectors.shape[1:]
        n_moments = self._n_latents * self._n_universes
        n_cached = max(_MIN_CACHED_ROWS, _CACHE_ENTRIES // (n_columns + 3 * n_moments))
        self._slots = SlotTable(n_cached)
        # Uninitialised memory: pages that are never written cost nothing.
        self._rows = np.empty((n_cached, n_columns), np.float32)
        self._mean = np.empty((n_cached, n_moments), np.float32)
        self._variance = np.empty((n_cached, n_moments), np.float32)
        self._squares = np.empty((n_cached, n_moments), np.float32)
        self._n_labels = np.zeros(n_cached, np.int32)  # of the window, that a row includes

    def catch_up(self, indices: Int[Array, " n"]) -> Int[Array, " n"]:
        """Slots of some rows, conditioned on all labels."""
        if self._n_folds != self._state.n_folds:
            self._slots = SlotTable(self._slots.n_slots)
            self._n_folds = self._state.n_folds
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            self._start(self._pool.design(new_rows), first_new)
        late = slots[self._n_labels[slots] < self._state.n_recent]
        if len(late):
            late = late[np.argsort(self._n_labels[late], kind="stable")]
            for block in block_rows(len(late), _ROWS_PER_BLOCK):
                self._advance(late[block])
            self._n_labels[late] = self._state.n_recent
        return slots

    def moments(
        self, slots: Int[Array, " n"]
    ) -> tuple[Float[Array, "A U n"], Float[Array, "A U n"]]:
        """Mean and variance of rows that have caught up."""
        variance = np.maximum(self._variance[slots], 0.0)
        return self._by_universe(self._mean[slots]), self._by_universe(variance)

    def squares(self, slots: Int[Array, " n"]) -> Float[Array, "A U n"]:
        """Weighted sums of squared covariances of rows that have caught up."""
        return self._by_universe(np.maximum(self._squares[slots], 0.0))

    def whitened(self, slots: Int[Array, " n"]) -> Float[Array, "n d"]:
        """Whitened rows."""
        return self._rows[slots]

    def _by_universe(self, values: Float[Array, "n m"]) -> Float[Array, "A U n"]:
        shape = (self._n_latents, self._n_universes, len(values))
        return np.ascontiguousarray(values.T).reshape(shape)

    def _start(self, design: Float[Array, "n d"], first_slot: int) -> None:
        """Put design rows into consecutive slots, without the labels of the window."""
        state = self._state
        n_rows = max(16, _START_ENTRIES // state.start_forms[..., 0].size)
        for block in block_rows(len(design), n_rows):
            rows = self._context.whitening.rows(design[block])
            mean = (state.start_mean @ rows.T).transpose(2, 0, 1)  # (n, A, 1 or U)
            variance = np.einsum("aund,nd->nau", state.start_vectors(rows), rows)
            squares = np.einsum("aund,nd->nau", rows @ state.start_forms, rows)
            slots = slice(first_slot + block.start, first_slot + block.stop)
            shape = (len(rows), self._n_latents, self._n_universes)
            self._rows[slots] = rows
            self._mean[slots].reshape(shape)[...] = mean
            self._variance[slots].reshape(shape)[...] = variance
            self._squares[slots].reshape(shape)[...] = squares
        self._n_labels[first_slot : first_slot + len(design)] = 0

    def _advance(self, slots: Int[Array, " n"]) -> None:
        """Let rows catch up; they are in the order of the labels that they know."""
        n_known = self._n_labels[slots]
        rows = self._rows[slots]
        mean = self._mean[slots]
        variance = self._variance[slots]
        squares = self._squares[slots]
        window = self._state.window
        for block in label_blocks(int(n_known[0]), self._state.n_recent):
            n_late = int(np.searchsorted(n_known, block.stop))
            labels = window.at(block)
            shape = (n_late, block.stop - block.start, -1)
            late = rows[:n_late]
            products = late @ labels.vectors.reshape(-1, rows.shape[1]).T  # k
            products = products.reshape(shape)
            if n_known[n_late - 1] > block.start:
                numbers = np.arange(block.start, block.stop)
                products *= (numbers >= n_known[:n_late, None])[:, :, None]
            changes = late @ labels.square_vectors.reshape(-1, rows.shape[1]).T  # z·h
            changes = changes.reshape(shape)
            slope, curvature, energy = (
                array.reshape(shape[1:])
                for array in (labels.slope, labels.curvature, labels.energy)
            )
            mean[:n_late] += np.einsum("nrm,rm->nm", products, slope)
            scaled = products * curvature
            variance[:n_late] -= np.einsum("nrm,nrm->nm", products, scaled)
            changes *= -2.0
            changes += scaled * energy
            squares[:n_late] += np.einsum("nrm,nrm->nm", scaled, changes)
        self._mean[slots] = mean
        self._variance[slots] = variance
        self._squares[slots] = squares


def label_blocks(first: int, last: int) -> Iterator[slice]:
    """Blocks of the labels from ``first`` to ``last``, larger ones the older the labels are.

    Most rows lack only the latest labels: small blocks there waste little.

    >>> [(block.start, block.stop) for block in label_blocks(10, 23)]
    [(22, 23), (20, 22), (16, 20), (10, 16)]
    """
    size = 1
    while last > first:
        start = max(last - size, first)
        yield slice(start, last)
        last = start
        size = min(2 * size, _MAX_LABELS)
