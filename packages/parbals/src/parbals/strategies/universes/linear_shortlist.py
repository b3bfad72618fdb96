"""Covariances of shortlisted rows with all targets, in universes that are linear models.

The rows of a shortlist stay for many steps, so their covariances are kept. A label at z_j changes
those of a row z by -β k t with k = z·y, where t are the covariances of the labelled row
(:mod:`parbals.strategies.universes.linear`); a row that lacks more than ``N_RECENT`` labels is
computed from all of them.
"""

import numpy as np

from parbals.shapes import Array, Float, Int
from parbals.strategies.backends.base import SlotTable
from parbals.strategies.scoring import ScoringContext
from parbals.strategies.universes.linear import LinearState

__all__ = ["ShortlistCovariances"]

_CACHE_ENTRIES = 2**25  # covariances: 128 MB
_MIN_CACHED_ROWS = 32


class ShortlistCovariances:
    """Covariances of rows, by position, with all targets in every universe."""

    def __init__(self, context: ScoringContext, state: LinearState) -> None:
        self._targets = context.whitened_targets
        self._state = state
        self._n_folds = state.n_folds
        n_latents, n_universes, n_targets = state.targets.weights.shape
        n_entries = n_latents * n_universes * n_targets
        n_cached = max(_MIN_CACHED_ROWS, _CACHE_ENTRIES // n_entries)
        self._slots = SlotTable(n_cached)
        # Uninitialised memory: pages that are never written cost nothing.
        self._cov = np.empty((n_latents, n_universes, n_cached, n_targets), np.float32)
        self._n_labels = np.zeros(n_cached, np.int32)  # of the window, that a row's include

    def of_rows(
        self, indices: Int[Array, " n"], rows: Float[Array, "n d"]
    ) -> list[Float[Array, "A n M"]]:
        """Covariances of whitened rows in each universe, given all labels so far."""
        state = self._state
        if self._n_folds != state.n_folds:
            self._slots = SlotTable(self._slots.n_slots)
            self._n_folds = state.n_folds
        slots, _, first_new = self._slots.assign(indices)
        recent = state.recent_labels
        is_new = (slots >= first_new) | (self._n_labels[slots] < recent.start)
        self._n_labels[slots[is_new]] = state.n_recent
        if is_new.any():
            self._cov[:, :, slots[is_new]] = self._from_all_labels(rows[is_new])
        scaled = self._scaled_products(rows, slots, recent)
        self._n_labels[slots] = state.n_recent

        by_universe = []
        for universe in range(self._cov.shape[1]):
            covariances = self._cov[:, universe, slots]
            covariances -= scaled[:, universe] @ state.recent_covariances[:, universe]
            self._cov[:, universe, slots] = covariances
            by_universe.append(covariances)
        return by_universe

    def _from_all_labels(self, rows: Float[Array, "n d"]) -> Float[Array, "A U n M"]:
        """Covariances of rows, computed from where rows start."""
        start = self._state.start_vectors(rows)  # (A, 1 or U, n, d)
        vectors = [
            self._state.conditioned(rows, start[:, universe % start.shape[1]], universe)
            for universe in range(self._cov.shape[1])
        ]
        stacked = np.stack(vectors, axis=1)
        # One product for all universes: the targets are read once.
        products = stacked.reshape(-1, stacked.shape[3]) @ self._targets.T
        return products.reshape(*stacked.shape[:3], -1)

    def _scaled_products(
        self, rows: Float[Array, "n d"], slots: Int[Array, " n"], recent: slice
    ) -> Float[Array, "A U n R"]:
        """β k of the recent labels, zero for those that a row's covariances include."""
        labels = self._state.window.at(recent)
        n_labels, n_latents, n_universes, n_columns = labels.vectors.shape
        products = rows @ labels.vectors.reshape(-1, n_columns).T
        products = products.reshape(len(rows), n_labels, n_latents, n_universes)
        products *= labels.curvature
        numbers = np.arange(recent.start, recent.stop)
        products *= (numbers >= self._n_labels[slots, None])[:, :, None, None]
        n_places = self._state.recent_covariances.shape[2]
        scaled = np.zeros((n_latents, n_universes, len(rows), n_places), np.float32)
        scaled[..., numbers % n_places] = products.transpose(2, 3, 0, 1)
        return scaled
