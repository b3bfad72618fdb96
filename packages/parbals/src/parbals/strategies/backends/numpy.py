"""Closed-form scores by NumPy, on threads whose tables fit a core's cache.

Array sizes need not be known in advance: universes with identical labels are stored once, and a
row's covariances with the targets are computed when the row is first screened.

The screen of :mod:`parbals.scores.gaussian` needs no table of pairs. Before the batch the
covariances of a row with the targets are linear in its whitened coordinates z, c = z H_a, and with
weights w of the targets

    Σ w c² = z (H_a diag(w) H_aᵀ) zᵀ,

a quadratic form in as many coordinates as there are features, often fewer than targets. In a
universe c = c⁰ + κ B, where c⁰ (M,) are the covariances before the batch, B (R, M) those of the
labelled points and κ the row's covariance update
(:class:`~parbals.strategies.conditioning.ConditionedRows`), and

    Σ w c² = w·(c⁰)² + 2 κ·((w B) c⁰) + κ (B diag(w) Bᵀ) κᵀ,

where c⁰ and its square are shared by all universes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows, release_pages
from parbals.machine import Workers, several_threads
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import Covariances, approximate_gains, probs_and_gains, screening_gains
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import PoolRows, SlotTable
from parbals.strategies.conditioning import ConditionedRows, UniverseState, condition_rows
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.scoring import (
    Rows,
    ScoreName,
    ScoringContext,
    Targets,
    compute_scores,
    covariance,
    initial_scores,
    project_design,
    project_rows,
    row_operations,
)

__all__ = ["NumpyBackend", "QuadraticScreen", "open_backend", "score_pool"]

_TABLE_ENTRIES = 2**17  # pairs, or coordinates, per block: half a megabyte
_SOFTMAX_ENTRIES = 2**14  # latents times targets per block: threads take turns between operations
_CACHE_ENTRIES = 2**25  # cached covariances with the targets: 128 MB
_MIN_CACHED_ROWS = 128
_MIN_THREADED_ENTRIES = 2**8  # latents times targets: with fewer, threads mostly wait


def score_pool(context: ScoringContext, X: PoolFeatures, *, score: ScoreName) -> Float[Array, " N"]:
    """Scores before the batch of all rows of X (N, D), which may be a memory-mapped file."""
    quadratic_screen = None
    n_entries_per_row = len(context.share)
    if score == "screen" and QuadraticScreen.is_cheaper(context):
        quadratic_screen = QuadraticScreen(context)
        n_entries_per_row = len(context.basis)

    def score_block(rows: slice) -> np.ndarray:
        features = X[rows].astype(np.float32)
        if quadratic_screen is not None:
            return quadratic_screen.scores(features)
        return initial_scores(context, features, score)

    with several_threads() as workers:
        block_size = max(16, _TABLE_ENTRIES // n_entries_per_row)
        scores = workers.map(score_block, block_rows(len(X), block_size))
    release_pages(X)
    return np.concatenate(scores).astype(np.float64)


class QuadraticScreen:
    """The screen before the batch, as one quadratic form per latent."""

    def __init__(self, context: ScoringContext) -> None:
        self._context = context
        target_rows = context.target_rows
        weights = 0.5 * context.share * screening_gains(context.targets.gains)
        # H (A, d, M)
        target_map = context.basis @ (context.roots @ target_rows.factor.swapaxes(1, 2))
        if target_rows.orthogonal.shape[1]:
            target_map = target_rows.orthogonal.T + target_map
        self._forms: Float[Array, "A d d"] = (target_map * weights[:, None]) @ target_map.swapaxes(
            1, 2
        )

    @staticmethod
    def is_cheaper(context: ScoringContext) -> bool:
        """Whether the quadratic form takes fewer operations than the table of pairs."""
        n_columns, n_inside = context.basis.shape
        operations = row_operations(
            n_columns, n_inside, n_latents=len(context.roots), n_targets=len(context.share)
        )
        return operations.by_form < operations.by_pairs

    def scores(self, features: Float[Array, "n D"]) -> Float[Array, " n"]:
        """Screening scores of rows of features."""
        context = self._context
        whitened = context.whitening.rows(add_bias(features, np.float32))
        rows = project_rows(context.basis, context.location, context.roots, whitened)
        row_gains = screening_gains(approximate_gains(rows.mean, rows.variance))
        sums = [((whitened @ form) * whitened).sum(axis=1) for form in self._forms]
        return (row_gains * np.maximum(sums, 0.0)).sum(axis=0)


@contextmanager
def open_backend(
    context: ScoringContext, rows: PoolRows, score: ScoreName, n_labels: int
) -> "Iterator[NumpyBackend]":
    """A backend with its own threads; ``n_labels`` is for backends of fixed size."""
    is_small = context.targets.gains.size < _MIN_THREADED_ENTRIES
    with several_threads(1 if is_small else None) as workers:
        yield NumpyBackend(context, rows, score, workers)


class _CachedRows(NamedTuple):
    """Projected rows and their covariances with the targets, before the batch."""

    rows: Rows
    target_cov: Float[Array, "A n M"]  # c⁰

    def at(self, slots: Int[Array, " n"]) -> "_CachedRows":
        rows = Rows(
            orthogonal=self.rows.orthogonal[slots],
            factor=self.rows.factor[:, slots],
            mean=self.rows.mean[:, slots],
            variance=self.rows.variance[:, slots],
        )
        return _CachedRows(rows, self.target_cov[:, slots])


class NumpyBackend:
    """A :class:`~parbals.strategies.backends.base.Backend` whose threads share the rows."""

    def __init__(
        self, context: ScoringContext, rows: PoolRows, score: ScoreName, workers: Workers
    ) -> None:
        self._context = context
        self._rows = rows
        self._score = score
        self._workers = workers
        self._probs = context.targets.probs[:, None]
        self._gains = context.targets.gains[:, None]
        n_cached = max(_MIN_CACHED_ROWS, _CACHE_ENTRIES // context.targets.gains.size)
        self._slots = SlotTable(n_cached)
        self._cache = _empty_cache(context, n_cached)

    def branch(self, parents: Int[Array, " U"]) -> None:
        self._probs = self._probs[:, parents]
        self._gains = self._gains[:, parents]

    def update(
        self, state: UniverseState, members: Int[Array, " U"], stale: Bool[Array, "V M"]
    ) -> None:
        self._state = state
        self._universe_share = np.bincount(members) / len(members)
        has_labels = state.mean_coef.shape[2] > 0
        if has_labels:  # before the first label the softmax is up to date
            self._refresh_softmax(stale)
        labelled = state.target_cov[:, None]  # B (A, 1, R, M)
        self._weights = 0.5 * self._context.share * screening_gains(self._gains)  # w (A, V, M)
        self._weighted_cov = self._weights[:, :, None] * labelled  # w B (A, V, R, M)
        self._label_form = self._weighted_cov @ labelled.swapaxes(2, 3)  # (A, V, R, R)

    def _refresh_softmax(self, stale: Bool[Array, "V M"]) -> None:
        """Recompute probabilities and gains at stale targets, divided among the threads."""
        mean = self._state.target_mean[:, stale]
        variance = self._state.target_variance[:, stale]
        n_latents, n_stale = mean.shape
        if n_stale == 0:
            return
        per_thread = -(-n_stale // self._workers.n_threads)
        block_size = max(16, min(_SOFTMAX_ENTRIES // n_latents, per_thread))
        blocks = self._workers.map(
            lambda block: probs_and_gains(mean[:, block], variance[:, block]),
            block_rows(n_stale, block_size),
        )
        self._probs = self._probs.copy()
        self._gains = self._gains.copy()
        self._probs[:, stale] = np.concatenate([probs for probs, _ in blocks], axis=1)
        self._gains[:, stale] = np.concatenate([gains for _, gains in blocks], axis=1)

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        return (self._screen(indices[block]) for block in block_rows(len(indices), chunk))

    def _screen(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        cached = self._cached(indices)
        conditioned = self._conditioned(cached.rows)
        gains = screening_gains(approximate_gains(conditioned.mean, conditioned.variance))
        n_latents = len(gains)
        tasks = list(product(range(n_latents), self._divide(len(indices), n_latents)))
        terms = self._workers.map(
            lambda task: self._screen_term(task[0], task[1], conditioned, cached.target_cov, gains),
            tasks,
        )
        values = np.zeros(gains.shape[1:], np.float32)
        for (_, block), term in zip(tasks, terms, strict=True):
            values[:, block] += term
        return self._universe_share @ values

    def _screen_term(
        self,
        latent: int,
        block: slice,
        conditioned: ConditionedRows,
        target_cov: Float[Array, "A n M"],
        gains: Float[Array, "A U n"],
    ) -> Float[Array, "U s"]:
        """The term of one latent in the screening scores of a block of rows."""
        cov = target_cov[latent, block]
        cov_update = conditioned.cov_update[latent, :, block]
        sums = self._weights[latent] @ np.square(cov).T
        n_universes, n_labels, n_targets = self._weighted_cov[latent].shape
        if n_labels:
            weighted_cov = self._weighted_cov[latent].reshape(n_universes * n_labels, n_targets)
            cross = (weighted_cov @ cov.T).reshape(n_universes, n_labels, -1).swapaxes(1, 2)
            form = cov_update @ self._label_form[latent]
            sums += (cov_update * (2.0 * cross + form)).sum(axis=2)
        return gains[latent, :, block] * np.maximum(sums, 0.0)

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        cached = self._cached(indices)
        state = self._state
        conditioned = self._conditioned(cached.rows)
        base = np.ascontiguousarray(cached.target_cov.swapaxes(1, 2))
        labelled = np.ascontiguousarray(state.target_cov.swapaxes(1, 2))

        def score_block(task: tuple[int, slice]) -> np.ndarray:
            universe, block = task
            cov_update = conditioned.cov_update[:, universe, block]
            return compute_scores(
                self._score,
                conditioned.mean[:, universe, block],
                conditioned.variance[:, universe, block],
                Covariances(base[:, :, block], cov_update, labelled),
                Targets(
                    mean=state.target_mean[:, universe],
                    variance=state.target_variance[:, universe],
                    probs=self._probs[:, universe],
                    gains=self._gains[:, universe],
                ),
                self._context,
            )

        n_universes = len(self._universe_share)
        tasks = product(range(n_universes), self._divide(len(indices), n_universes))
        values = np.concatenate(self._workers.map(score_block, tasks))
        return self._universe_share @ values.reshape(n_universes, -1)

    def _conditioned(self, rows: Rows) -> ConditionedRows:
        state = self._state
        return condition_rows(rows, state.labelled, state.mean_coef, state.cov_coef)

    def _divide(self, n_rows: int, n_tasks: int) -> list[slice]:
        """Blocks of rows, enough to occupy all threads if there are ``n_tasks`` for each block."""
        n_blocks = -(-self._workers.n_threads // n_tasks)
        return list(block_rows(n_rows, -(-n_rows // n_blocks)))

    def _cached(self, indices: Int[Array, " n"]) -> _CachedRows:
        """Rows before the batch; those that are not cached yet are projected first."""
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            self._fill_cache(self._rows.design(new_rows), first_new)
        return self._cache.at(slots)

    def _fill_cache(self, design: Float[Array, "n d"], first_slot: int) -> None:
        """Project design rows into consecutive cache slots."""
        cache = self._cache

        def project_block(block: slice) -> None:
            rows = project_design(self._context, design[block])
            slots = slice(first_slot + block.start, first_slot + block.stop)
            cache.rows.orthogonal[slots] = rows.orthogonal
            cache.rows.factor[:, slots] = rows.factor
            cache.rows.mean[:, slots] = rows.mean
            cache.rows.variance[:, slots] = rows.variance
            cache.target_cov[:, slots] = covariance(rows, self._context.target_rows)

        self._workers.map(project_block, self._divide(len(design), 1))


def _empty_cache(context: ScoringContext, n_cached: int) -> _CachedRows:
    """Uninitialised memory for ``n_cached`` rows; pages that are never written cost nothing."""
    n_latents, n_targets, n_inside = context.target_rows.factor.shape
    n_orthogonal = context.target_rows.orthogonal.shape[1]
    rows = Rows(
        orthogonal=np.empty((n_cached, n_orthogonal), np.float32),
        factor=np.empty((n_latents, n_cached, n_inside), np.float32),
        mean=np.empty((n_latents, n_cached), np.float32),
        variance=np.empty((n_latents, n_cached), np.float32),
    )
    return _CachedRows(rows, np.empty((n_latents, n_cached, n_targets), np.float32))
