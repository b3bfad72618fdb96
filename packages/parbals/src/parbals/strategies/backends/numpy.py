"""Closed-form scores by NumPy, on threads whose tables fit a core's cache.

Array sizes need not be known in advance: universes with identical labels are stored once, and a
row's covariances with the targets are computed when the row is first screened.

Before the batch the pool is screened by quadratic forms (:mod:`parbals.strategies.forms`). While
the batch grows, a row's covariances are c = c⁰ - k t
(:mod:`parbals.strategies.backends.tables`), and with weights w of the targets

    Σ w c² = w·c⁰² - 2 k·((w t) c⁰) + k (t diag(w) tᵀ) kᵀ,

where c⁰ and its square are shared by all universes. Large batches have an algorithm of their own
(:mod:`parbals.strategies.universes.linear`).

Nothing here is compiled: matrix products take two fifths of a batch of 20 and NumPy's loops up to a
third (``perf``). Fusing the loops would save a sixth, and Numba would add 208 MB to install.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product

import numpy as np

from parbals.arrays import block_rows, release_pages
from parbals.machine import Workers, several_threads
from parbals.scores.gaussian import Covariances, approximate_gains, probs_and_gains, screening_gains
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import PoolRows
from parbals.strategies.backends.tables import OpenRows, RowTables
from parbals.strategies.conditioning import UniverseState
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.forms import QuadraticScreen
from parbals.strategies.scoring import (
    ScoreName,
    ScoringContext,
    Targets,
    TargetTerms,
    combine_terms,
    initial_scores,
    point_terms,
    target_terms,
)

__all__ = ["NumpyBackend", "has_linear_universes", "open_backend", "score_pool", "screen_pool"]

has_linear_universes = True

_TABLE_ENTRIES = 2**17  # pairs, or coordinates, per block: half a megabyte
_SOFTMAX_ENTRIES = 2**13  # latents times targets per block: its nodes fit a core's cache
_MIN_THREADED_ENTRIES = 2**8  # latents times targets: with fewer, threads mostly wait


def score_pool(context: ScoringContext, X: PoolFeatures, *, score: ScoreName) -> Float[Array, " N"]:
    """Scores before the batch of all rows of X (N, D), which may be a memory-mapped file."""
    if score == "screen" and QuadraticScreen.is_cheaper(context):
        return screen_pool(QuadraticScreen.before_batch(context), X)
    n_entries_per_row = max(len(context.share), len(context.basis))  # targets, or coordinates
    return _map_blocks(partial(initial_scores, context, score=score), X, n_entries_per_row)


def screen_pool(screen: QuadraticScreen, X: PoolFeatures) -> Float[Array, " N"]:
    """Screening scores of all rows of X (N, D) by quadratic forms."""
    return _map_blocks(screen.scores, X, screen.n_columns)


def _map_blocks(
    score_block: Callable[..., Float[Array, " n"]], X: PoolFeatures, n_entries_per_row: int
) -> Float[Array, " N"]:
    """Scores of all rows, block by block on all threads."""
    with several_threads() as workers:
        block_size = max(16, _TABLE_ENTRIES // n_entries_per_row)
        scores = workers.map(
            lambda rows: score_block(features=X[rows].astype(np.float32)),
            block_rows(len(X), block_size),
        )
    release_pages(X)
    return np.concatenate(scores).astype(np.float64)


@contextmanager
def open_backend(
    context: ScoringContext, rows: PoolRows, score: ScoreName, n_labels: int
) -> "Iterator[NumpyBackend]":
    """A backend with its own threads; ``n_labels`` is for backends of fixed size."""
    is_small = context.targets.gains.size < _MIN_THREADED_ENTRIES
    with several_threads(1 if is_small else None) as workers:
        yield NumpyBackend(context, rows, score, workers)


class NumpyBackend:
    """A :class:`~parbals.strategies.backends.base.Backend` whose threads share the rows."""

    def __init__(
        self, context: ScoringContext, rows: PoolRows, score: ScoreName, workers: Workers
    ) -> None:
        self._context = context
        self._score = score
        self._workers = workers
        self._probs = context.targets.probs[:, None]
        self._gains = context.targets.gains[:, None]
        self._tables = RowTables(context, rows, workers)

    def branch(self, parents: Int[Array, " U"]) -> None:
        self._probs = self._probs[:, parents]
        self._gains = self._gains[:, parents]
        self._tables.branch(parents)

    def update(
        self, state: UniverseState, members: Int[Array, " U"], stale: Bool[Array, "V M"]
    ) -> None:
        self._state = state
        self._tables.update(state)
        self._universe_share = np.bincount(members) / len(members)
        has_labels = state.mean_coef.shape[2] > 0
        if has_labels:  # before the first label the softmax is up to date
            self._refresh_softmax(stale)
        target_root = self._tables.target_root  # t (A, V, L, M)
        self._weights = 0.5 * self._context.share * screening_gains(self._gains)  # w (A, V, M)
        self._weighted_root = self._weights[:, :, None] * target_root  # w t
        self._root_form = self._weighted_root @ target_root.swapaxes(2, 3)  # (A, V, L, L)
        self._target_terms: list[TargetTerms] = []  # computed when first needed

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
        rows = self._tables.open_rows(indices)
        gains = screening_gains(approximate_gains(rows.mean, rows.variance))  # (A, V, n)
        n_latents = len(gains)
        tasks = list(product(range(n_latents), self._divide(len(indices), n_latents)))
        sums = self._workers.map(lambda task: self._squares(rows, *task), tasks)
        values = np.zeros(gains.shape[1:], np.float32)
        for (latent, block), squares in zip(tasks, sums, strict=True):
            values[:, block] += gains[latent, :, block] * np.maximum(squares, 0.0)
        return self._universe_share @ values

    def _squares(self, rows: OpenRows, latent: int, block: slice) -> Float[Array, "V n"]:
        """Σ w c² of a block of rows in one latent."""
        slots = rows.slots[block]
        weights = self._weights[latent]
        weighted_root = self._weighted_root[latent]
        n_universes, n_labels, n_targets = weighted_root.shape
        base = self._tables.base(latent, slots)
        cross = weighted_root.reshape(n_universes * n_labels, n_targets) @ base.T
        cross = cross.reshape(n_universes, n_labels, len(slots))
        squares = weights @ np.square(base, out=base).T
        if n_labels:
            root = rows.root[latent, :, block]
            change = root @ self._root_form[latent]
            change -= 2.0 * cross.swapaxes(1, 2)
            squares += (root * change).sum(axis=2)
        return squares

    def score(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        if not self._target_terms:
            universes = range(len(self._universe_share))
            self._target_terms = self._workers.map(self._terms_of_targets, universes)
        return (self._score_rows(indices[block]) for block in block_rows(len(indices), chunk))

    def _terms_of_targets(self, universe: int) -> TargetTerms:
        """Terms of the targets in one universe."""
        targets = Targets(
            mean=self._state.target_mean[:, universe],
            variance=self._state.target_variance[:, universe],
            probs=self._probs[:, universe],
            gains=self._gains[:, universe],
        )
        return target_terms(self._score, targets, self._context)

    def _score_rows(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        """Final scores of some rows."""
        rows = self._tables.open_rows(indices)
        points = point_terms(self._score, rows.mean, rows.variance)
        _, n_universes, n_rows = rows.mean.shape
        minus_root = -rows.root
        bases = self._bases_by_target(rows.slots)

        def score_block(task: tuple[int, slice]) -> Float[Array, " m"]:
            universe, block = task
            labelled = self._tables.target_root[:, universe].swapaxes(1, 2)
            return combine_terms(
                self._score,
                points[:, universe, block],
                self._target_terms[universe],
                Covariances(bases[:, :, block], minus_root[:, universe, block], labelled),
                self._context.share,
            )

        tasks = product(range(n_universes), self._divide(n_rows, n_universes))
        values = np.concatenate(self._workers.map(score_block, tasks))
        return self._universe_share @ values.reshape(n_universes, -1)

    def _bases_by_target(self, slots: Int[Array, " n"]) -> Float[Array, "A M n"]:
        """Covariances of open rows before the batch, the targets first."""
        n_latents, n_targets = self._context.targets.mean.shape
        bases = np.empty((n_latents, n_targets, len(slots)), np.float32)
        for latent, base in enumerate(bases):
            base[...] = self._tables.base(latent, slots).T
        return bases

    def _divide(self, n_rows: int, n_tasks: int) -> list[slice]:
        """Blocks of rows, enough to occupy all threads if there are ``n_tasks`` for each block."""
        n_blocks = -(-self._workers.n_threads // n_tasks)
        return list(block_rows(n_rows, -(-n_rows // n_blocks)))
