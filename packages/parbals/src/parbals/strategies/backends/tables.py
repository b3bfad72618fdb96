"""Covariances of pool rows with the targets, kept for the rows that a growing batch looks at.

A label changes the covariances of a row x with all targets by a rank-one update
(:mod:`parbals.strategies.conditioning`). With k_j = b(x)ᵀ K_j, the row's number for label j, and
t_j (M,) those of the targets,

    c ← c - k_j t_j,      v ← v - k_j²,

so a row that was last looked at after label i catches up with labels i+1 to R only: a step takes as
long late in a batch as early in it, whatever B is.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import Workers
from parbals.shapes import Array, Float, Int
from parbals.strategies.backends.base import PoolRows, SlotTable
from parbals.strategies.conditioning import UniverseState
from parbals.strategies.scoring import Rows, ScoringContext, covariance, project_design

__all__ = ["ConditionedTables", "OpenRows", "RowsBeforeBatch", "TableRows"]

_CACHE_ENTRIES = 2**25  # cached covariances with the targets: 128 MB, before the batch and after
_MIN_CACHED_ROWS = 128
_MIN_TABLES = 8
_FIRST_CAPACITY = 32  # labels; doubled when they are more


class TableRows(NamedTuple):
    """Some rows in every universe, conditioned on all labels."""

    mean: Float[Array, "A U n"]
    variance: Float[Array, "A U n"]
    tables: list[Float[Array, "A U M"]]  # covariances of each row with the targets


class OpenRows(NamedTuple):
    """Rows whose tables may be used until the next are opened."""

    rows: Rows  # before the batch
    slots: Int[Array, " n"]


class RowsBeforeBatch:
    """Projected rows and their covariances with the targets, before the batch."""

    def __init__(self, context: ScoringContext, rows: PoolRows, workers: Workers) -> None:
        self.context = context
        self._pool = rows
        self._workers = workers
        n_latents, n_targets, n_inside = context.target_rows.factor.shape
        n_orthogonal = context.target_rows.orthogonal.shape[1]
        n_cached = max(_MIN_CACHED_ROWS, _CACHE_ENTRIES // (n_latents * n_targets))
        self._slots = SlotTable(n_cached)
        # Uninitialised memory: pages that are never written cost nothing.
        self._orthogonal = np.empty((n_cached, n_orthogonal), np.float32)
        self._factor = np.empty((n_cached, n_latents, n_inside), np.float32)
        self._mean = np.empty((n_cached, n_latents), np.float32)
        self._variance = np.empty((n_cached, n_latents), np.float32)
        self._target_cov = np.empty((n_cached, n_latents, n_targets), np.float32)

    def at(self, indices: Int[Array, " n"]) -> tuple[Rows, Int[Array, " n"]]:
        """Rows by position, and their slots; those not seen yet are projected first."""
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            self._project(self._pool.design(new_rows), first_new)
        rows = Rows(
            orthogonal=self._orthogonal[slots],
            factor=self._factor[slots].swapaxes(0, 1),
            mean=self._mean[slots].T,
            variance=self._variance[slots].T,
        )
        return rows, slots

    def target_cov(self, slot: int) -> Float[Array, "A M"]:
        """Covariances of one row with the targets."""
        return self._target_cov[slot]

    def _project(self, design: Float[Array, "n d"], first_slot: int) -> None:
        """Project design rows into consecutive slots."""

        def project_block(block: slice) -> None:
            rows = project_design(self.context, design[block])
            slots = slice(first_slot + block.start, first_slot + block.stop)
            self._orthogonal[slots] = rows.orthogonal
            self._factor[slots] = rows.factor.swapaxes(0, 1)
            self._mean[slots] = rows.mean.T
            self._variance[slots] = rows.variance.T
            target_cov = covariance(rows, self.context.target_rows)
            self._target_cov[slots] = target_cov.swapaxes(0, 1)

        per_thread = -(-len(design) // self._workers.n_threads)
        self._workers.map(project_block, block_rows(len(design), per_thread))


class ConditionedTables:
    """Tables of the rows that were looked at, each conditioned on the labels until then.

    Attributes:
        n_slots: number of rows that there is room for.
    """

    def __init__(self, before: RowsBeforeBatch, n_universes: int, n_distinct: int) -> None:
        self._before = before
        n_latents, n_targets = before.context.targets.mean.shape
        n_entries = n_latents * n_universes * n_targets
        self.n_slots = max(_MIN_TABLES, _CACHE_ENTRIES // n_entries)
        self._slots = SlotTable(self.n_slots)
        self._n_universes = n_distinct
        # By slot; only the first of the universes' axis are in use while universes are equal.
        self._tables = np.empty((self.n_slots, n_latents, n_universes, n_targets), np.float32)
        self._variance = np.empty((self.n_slots, n_latents, n_universes), np.float32)
        self._n_included = np.zeros(self.n_slots, int)  # labels
        self._labelled_cov = np.empty((self.n_slots, n_latents, _FIRST_CAPACITY), np.float32)  # b
        shape = (n_latents, n_universes, _FIRST_CAPACITY, n_targets)
        self._target_root = np.empty(shape, np.float32)  # t_j
        self._n_labels = 0
        self._used = 0

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Replace the distinct universes by copies of these."""
        if np.array_equal(parents, np.arange(self._n_universes)):
            return
        used = self._used
        n_universes = len(parents)
        self._tables[:used, :, :n_universes] = self._tables[:used, :, parents]
        self._variance[:used, :, :n_universes] = self._variance[:used, :, parents]
        self._target_root[:, :n_universes] = self._target_root[:, parents]
        self._n_universes = n_universes

    def update(self, state: UniverseState) -> None:
        """Condition on the labels of a new state from now on."""
        self._state = state
        n_labels = state.mean_coef.shape[2]
        if n_labels > self._labelled_cov.shape[2]:
            self._grow(max(n_labels, 2 * self._labelled_cov.shape[2]))
        new = slice(self._n_labels, n_labels)
        roots = state.cov_root[..., new].swapaxes(2, 3) @ state.target_cov[:, None]
        self._target_root[:, : self._n_universes, new] = roots
        self._n_labels = n_labels

    def _grow(self, capacity: int) -> None:
        """Make room for more labels."""
        labelled_cov = np.empty((*self._labelled_cov.shape[:2], capacity), np.float32)
        labelled_cov[..., : self._n_labels] = self._labelled_cov[..., : self._n_labels]
        self._labelled_cov = labelled_cov
        n_latents, n_universes, _, n_targets = self._target_root.shape
        target_root = np.empty((n_latents, n_universes, capacity, n_targets), np.float32)
        target_root[:, :, : self._n_labels] = self._target_root[:, :, : self._n_labels]
        self._target_root = target_root

    def open_rows(self, indices: Int[Array, " n"]) -> OpenRows:
        """Slots of at most ``n_slots`` rows; those without a table get the one before the batch."""
        rows, slots_before = self._before.at(indices)
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            self._used = first_new + len(new_rows)
        for place in np.flatnonzero(slots >= first_new) if len(new_rows) else ():
            slot = slots[place]
            target_cov = self._before.target_cov(slots_before[place])
            self._tables[slot, :, : self._n_universes] = target_cov[:, None]
            self._variance[slot, :, : self._n_universes] = rows.variance[:, place, None]
            self._n_included[slot] = 0
        return OpenRows(rows, slots)

    def catch_up(self, opened: OpenRows, block: slice) -> TableRows:
        """Condition some opened rows on the labels that they do not include yet."""
        slots = opened.slots[block]
        n_included = self._n_included[slots]
        for number in np.unique(n_included).tolist():
            places = np.flatnonzero(n_included == number)
            if number < self._n_labels:
                self._condition(opened.rows.at(places + block.start), slots[places], number)
        labelled_cov = self._labelled_cov[slots, :, : self._n_labels]
        mean_change = self._state.mean_coef @ labelled_cov.transpose(1, 2, 0)
        variance = self._variance[slots, :, : self._n_universes].transpose(1, 2, 0)
        return TableRows(
            mean=opened.rows.mean[:, None, block] + mean_change,
            variance=np.maximum(variance, 0.0),
            tables=[self._tables[slot, :, : self._n_universes] for slot in slots],
        )

    def _condition(self, rows: Rows, slots: Int[Array, " n"], n_included: int) -> None:
        """Condition rows that include this many labels on the further ones."""
        new = slice(n_included, self._n_labels)
        further = self._state.labelled.at(np.arange(n_included, self._n_labels))
        self._labelled_cov[slots, :, new] = covariance(rows, further).swapaxes(0, 1)
        labelled_cov = self._labelled_cov[slots, :, : self._n_labels].swapaxes(0, 1)
        roots = labelled_cov[:, None] @ self._state.cov_root[..., new]  # (A, U, n, labels)
        for latent, root in enumerate(roots):  # one at a time: fits the cache
            changes = root @ self._target_root[latent, : self._n_universes, new]  # (U, n, M)
            for place, slot in enumerate(slots):
                self._tables[slot, latent, : self._n_universes] -= changes[:, place]
        variance_change = np.square(roots).sum(axis=3).transpose(2, 0, 1)
        self._variance[slots, :, : self._n_universes] -= variance_change
        self._n_included[slots] = self._n_labels
