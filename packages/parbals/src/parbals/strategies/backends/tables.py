"""Covariances of pool rows with the targets, for the rows that a growing batch looks at.

A label changes the covariances of a row x with all targets by a rank-one update
(:mod:`parbals.strategies.conditioning`). With k_j = b(x)ᵀ K_j, the row's number for label j, and
t_j (M,) those of the targets,

    c ← c - k_j t_j,      v ← v - k_j²,

so that c = c_base - k t, where k and t are those of the labels since the base. The base is at
first c⁰, before the batch, which all universes share. After ``MAX_RECENT`` labels these are folded
into the bases, from then on one for each universe: a step takes about as long late in a batch as
early in it, whatever B is. A row looked at for the first time catches up with all labels.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import Workers
from parbals.shapes import Array, Float, Int
from parbals.strategies.backends.base import PoolRows, SlotTable
from parbals.strategies.conditioning import (
    UniverseState,
    branch_state,
    condition_rows,
    initial_state,
)
from parbals.strategies.scoring import Rows, ScoringContext, covariance, project_design

__all__ = ["OpenRows", "RowTables"]

MAX_RECENT = 32
"""Labels since the base: about as many as make the products with k and t cost as much as the other
operations on a row's covariances.
"""
_CACHE_ENTRIES = 2**25  # projected rows with their covariances, and folded ones: 128 MB each
_MIN_CACHED_ROWS = 128


class OpenRows(NamedTuple):
    """Rows in every universe, conditioned on all labels; to be used until others are opened."""

    mean: Float[Array, "A U n"]
    variance: Float[Array, "A U n"]
    root: Float[Array, "A U n L"]  # k of the recent labels
    slots: Int[Array, " n"]  # of their bases


class RowTables:
    """Rows by position, their covariances with the targets and those of the recent labels.

    Attributes:
        target_root: t (A, U, L, M) of the recent labels.
        is_shared: whether all universes share the bases.
    """

    def __init__(self, context: ScoringContext, rows: PoolRows, workers: Workers) -> None:
        self._context = context
        self._pool = rows
        self._workers = workers
        n_latents, n_targets, n_inside = context.target_rows.factor.shape
        n_orthogonal = context.target_rows.orthogonal.shape[1]
        n_entries = n_latents * (n_targets + n_inside + 2) + n_orthogonal  # of a row
        n_cached = max(_MIN_CACHED_ROWS, _CACHE_ENTRIES // n_entries)
        self._slots = SlotTable(n_cached)
        # Uninitialised memory: pages that are never written cost nothing.
        self._rows = Rows(
            orthogonal=np.empty((n_cached, n_orthogonal), np.float32),
            factor=np.empty((n_latents, n_cached, n_inside), np.float32),
            mean=np.empty((n_latents, n_cached), np.float32),
            variance=np.empty((n_latents, n_cached), np.float32),
        )
        self._target_cov = np.empty((n_latents, n_cached, n_targets), np.float32)  # c⁰
        self.target_root = np.empty((n_latents, 1, 0, n_targets), np.float32)
        self.is_shared = True
        self._n_folded = 0  # labels
        self._folded_slots = SlotTable(0)
        self._state = initial_state(context)

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Replace the distinct universes by copies of these."""
        if np.array_equal(parents, np.arange(self.target_root.shape[1])):
            return
        self.target_root = self.target_root[:, parents]
        self._state = branch_state(self._state, parents)
        if not self.is_shared:
            self._clear_folded(branch_state(self._folded_state, parents))

    def update(self, state: UniverseState) -> None:
        """Condition on the labels of a new state from now on."""
        n_latents, n_universes, n_labels = state.mean_coef.shape
        n_recent = self.target_root.shape[2]
        if n_recent >= MAX_RECENT and self._has_room(n_universes):
            self._fold()
            n_recent = 0
        self._state = state
        n_known = self._n_folded + n_recent
        n_new = n_universes * (n_labels - n_known)
        columns = state.cov_root[..., n_known:].swapaxes(2, 3).reshape(n_latents, n_new, n_labels)
        roots = columns @ state.target_cov  # one product for all universes
        roots = roots.reshape(n_latents, n_universes, n_labels - n_known, roots.shape[2])
        self.target_root = np.concatenate([self.target_root[:, :, :n_recent], roots], axis=2)

    def _has_room(self, n_universes: int) -> bool:
        """Whether enough folded bases fit the cache; otherwise all labels stay recent."""
        n_entries = n_universes * self._target_cov[:, 0].size
        return _CACHE_ENTRIES // n_entries >= _MIN_CACHED_ROWS

    def _fold(self) -> None:
        """Let the bases include all labels so far: those of the rows that have folded ones now."""
        if self.is_shared:
            self._clear_folded(self._state)
        else:
            for block in block_rows(len(self._folded_slots.rows), _MIN_CACHED_ROWS):
                self._fold_recent(self._folded_slots.rows[block])
        self._folded_state = self._state
        self._n_folded = self._state.mean_coef.shape[2]

    def _fold_recent(self, indices: Int[Array, " n"]) -> None:
        """Fold the recent labels into the folded bases of some rows."""
        rows = self.open_rows(indices)
        self._folded_variance[:, :, rows.slots] = rows.variance

        def fold(task: tuple[int, int]) -> None:
            self._folded_cov[*task, rows.slots] -= rows.root[task] @ self.target_root[task]

        self._workers.map(fold, np.ndindex(self.target_root.shape[:2]))

    def _clear_folded(self, state: UniverseState) -> None:
        """Empty folded bases that include the labels of a state."""
        n_latents, n_universes, self._n_folded = state.mean_coef.shape
        n_targets = state.target_cov.shape[2]
        n_rows = max(_MIN_CACHED_ROWS, _CACHE_ENTRIES // (n_latents * n_universes * n_targets))
        self.is_shared = False
        self._folded_state = state
        self._folded_slots = SlotTable(n_rows)
        shape = (n_latents, n_universes, n_rows, n_targets)
        self._folded_cov = np.empty(shape, np.float32)
        self._folded_variance = np.empty(shape[:3], np.float32)

    def open_rows(self, indices: Int[Array, " n"]) -> OpenRows:
        """Some rows, at most 128; those not seen yet are projected first."""
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            self._project(self._pool.design(new_rows), first_new)
        rows = self._rows.at(slots)
        variance = rows.variance[:, None]
        if not self.is_shared:
            slots = self._folded(indices, rows, slots)
            variance = self._folded_variance[:, :, slots]
        labelled_cov = covariance(rows, self._state.labelled)  # b (A, n, R)
        root = labelled_cov[:, None] @ self._state.cov_root[..., self._n_folded :]
        return OpenRows(
            mean=rows.mean[:, None] + self._state.mean_coef @ labelled_cov.swapaxes(1, 2),
            variance=np.maximum(variance - np.square(root).sum(axis=3), 0.0),
            root=root,
            slots=slots,
        )

    def base(self, latent: int, universe: int, slots: Int[Array, " n"]) -> Float[Array, "n M"]:
        """Covariances of open rows with the targets, without the recent labels; a copy."""
        if self.is_shared:
            return self._target_cov[latent, slots]
        return self._folded_cov[latent, universe, slots]

    def _folded(
        self, indices: Int[Array, " n"], rows: Rows, slots_before: Int[Array, " n"]
    ) -> Int[Array, " n"]:
        """Slots of rows in the folded bases; rows without one are conditioned first."""
        state = self._folded_state
        slots, new_rows, first_new = self._folded_slots.assign(indices)
        places = np.flatnonzero(slots >= first_new)
        if len(new_rows) == 0:
            return slots
        conditioned = condition_rows(
            rows.at(places), state.labelled, state.mean_coef, state.cov_root
        )
        new = slots[places]
        self._folded_variance[:, :, new] = conditioned.variance

        def fold(task: tuple[int, int]) -> None:
            latent, universe = task
            change = conditioned.cov_update[latent, universe] @ state.target_cov[latent]
            change += self._target_cov[latent, slots_before[places]]
            self._folded_cov[latent, universe, new] = change

        self._workers.map(fold, np.ndindex(state.mean_coef.shape[:2]))
        return slots

    def _project(self, design: Float[Array, "n d"], first_slot: int) -> None:
        """Project design rows into consecutive slots."""

        def project_block(block: slice) -> None:
            rows = project_design(self._context, design[block])
            slots = slice(first_slot + block.start, first_slot + block.stop)
            self._rows.orthogonal[slots] = rows.orthogonal
            self._rows.factor[:, slots] = rows.factor
            self._rows.mean[:, slots] = rows.mean
            self._rows.variance[:, slots] = rows.variance
            self._target_cov[:, slots] = covariance(rows, self._context.target_rows)

        per_thread = -(-len(design) // self._workers.n_threads)
        self._workers.map(project_block, block_rows(len(design), per_thread))
