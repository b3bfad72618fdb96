"""Covariances of pool rows with the targets, for the rows that a growing batch looks at.

A label changes the covariances of a row x with all targets by a rank-one update
(:mod:`parbals.strategies.conditioning`). With k_j = b(x)ᵀ K_j, the row's number for label j, and
t_j (M,) those of the targets,

    c = c⁰ - Σ_j k_j t_j,      v = v⁰ - Σ_j k_j²,

where c⁰, before the batch, is shared by all universes.
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
    initial_state,
)
from parbals.strategies.scoring import Rows, ScoringContext, covariance, project_design

__all__ = ["OpenRows", "RowTables"]

_CACHE_ENTRIES = 2**25  # projected rows with their covariances: 128 MB
_MIN_CACHED_ROWS = 128


class OpenRows(NamedTuple):
    """Rows in every universe, conditioned on all labels; to be used until others are opened."""

    mean: Float[Array, "A U n"]
    variance: Float[Array, "A U n"]
    root: Float[Array, "A U n L"]  # k
    slots: Int[Array, " n"]


class RowTables:
    """Rows by position, their covariances with the targets and those of the labels.

    Attributes:
        target_root: t (A, U, L, M) of the labels.
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
        self._state = initial_state(context)

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Replace the distinct universes by copies of these."""
        self.target_root = self.target_root[:, parents]
        self._state = branch_state(self._state, parents)

    def update(self, state: UniverseState) -> None:
        """Condition on the labels of a new state from now on."""
        self._state = state
        n_latents, n_universes, n_labels = state.mean_coef.shape
        n_known = self.target_root.shape[2]
        n_new = n_universes * (n_labels - n_known)
        columns = state.cov_root[..., n_known:].swapaxes(2, 3).reshape(n_latents, n_new, n_labels)
        roots = columns @ state.target_cov  # one product for all universes
        roots = roots.reshape(n_latents, n_universes, n_labels - n_known, roots.shape[2])
        self.target_root = np.concatenate([self.target_root, roots], axis=2)

    def open_rows(self, indices: Int[Array, " n"]) -> OpenRows:
        """Some rows, at most 128; those not seen yet are projected first."""
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            self._project(self._pool.design(new_rows), first_new)
        rows = self._rows.at(slots)
        labelled_cov = covariance(rows, self._state.labelled)  # b (A, n, R)
        root = labelled_cov[:, None] @ self._state.cov_root
        variance = rows.variance[:, None] - np.square(root).sum(axis=3)
        return OpenRows(
            mean=rows.mean[:, None] + self._state.mean_coef @ labelled_cov.swapaxes(1, 2),
            variance=np.maximum(variance, 0.0),
            root=root,
            slots=slots,
        )

    def base(self, latent: int, slots: Int[Array, " n"]) -> Float[Array, "n M"]:
        """Covariances of open rows with the targets before the batch; a copy."""
        return self._target_cov[latent, slots]

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
