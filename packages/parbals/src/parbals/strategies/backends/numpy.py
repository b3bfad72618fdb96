"""Closed-form scores by NumPy, on threads whose tables fit a core's cache.

Array sizes need not be known in advance: universes with identical labels are stored once, and a
row's covariances with the targets are computed when the row is first screened.

Before the batch the pool is screened by quadratic forms (:mod:`parbals.strategies.forms`). While
the batch grows, the covariances of the rows in question are kept
(:mod:`parbals.strategies.backends.tables`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from parbals.arrays import block_rows, release_pages
from parbals.machine import Workers, several_threads
from parbals.scores.gaussian import Covariances, approximate_gains, probs_and_gains, screening_gains
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import PoolRows
from parbals.strategies.backends.tables import (
    ConditionedTables,
    OpenRows,
    RowsBeforeBatch,
    TableRows,
)
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

__all__ = ["NumpyBackend", "open_backend", "score_pool", "screen_pool"]

_TABLE_ENTRIES = 2**17  # pairs, or coordinates, per block: half a megabyte
_SOFTMAX_ENTRIES = 2**14  # latents times targets per block: threads take turns between operations
_MIN_THREADED_ENTRIES = 2**8  # latents times targets: with fewer, threads mostly wait


def score_pool(context: ScoringContext, X: PoolFeatures, *, score: ScoreName) -> Float[Array, " N"]:
    """Scores before the batch of all rows of X (N, D), which may be a memory-mapped file."""
    if score == "screen" and QuadraticScreen.is_cheaper(context):
        return screen_pool(QuadraticScreen(context), X)
    return _map_blocks(partial(initial_scores, context, score=score), X, len(context.share))


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
        self._before = RowsBeforeBatch(context, rows, workers)
        self._conditioned: ConditionedTables | None = None

    def branch(self, parents: Int[Array, " U"]) -> None:
        self._probs = self._probs[:, parents]
        self._gains = self._gains[:, parents]
        if self._conditioned is not None:
            self._conditioned.branch(parents)

    def update(
        self, state: UniverseState, members: Int[Array, " U"], stale: Bool[Array, "V M"]
    ) -> None:
        self._state = state
        if self._conditioned is None:
            n_distinct = len(state.mean_coef[0])
            self._conditioned = ConditionedTables(self._before, len(members), n_distinct)
        self._conditioned.update(state)
        self._universe_share = np.bincount(members) / len(members)
        has_labels = state.mean_coef.shape[2] > 0
        if has_labels:  # before the first label the softmax is up to date
            self._refresh_softmax(stale)
        self._target_terms: list[TargetTerms] = []  # computed when first needed
        self._weights = 0.5 * self._context.share * screening_gains(self._gains)  # w (A, V, M)

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
        return self._map_rows(indices, self._screen_block)

    def _screen_block(self, rows: TableRows) -> Float[Array, "U n"]:
        gains = screening_gains(approximate_gains(rows.mean, rows.variance))  # (A, V, n)
        sums = np.empty_like(gains)
        for number, table in enumerate(rows.tables):
            sums[:, :, number] = np.einsum("avm,avm,avm->av", table, table, self._weights)
        return (gains * sums).sum(axis=0)

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        if not self._target_terms:
            universes = range(len(self._universe_share))
            self._target_terms = self._workers.map(self._terms_of_targets, universes)
        return self._map_rows(indices, self._score_block)

    def _terms_of_targets(self, universe: int) -> TargetTerms:
        """Terms of the targets in one universe."""
        targets = Targets(
            mean=self._state.target_mean[:, universe],
            variance=self._state.target_variance[:, universe],
            probs=self._probs[:, universe],
            gains=self._gains[:, universe],
        )
        return target_terms(self._score, targets, self._context)

    def _score_block(self, rows: TableRows) -> Float[Array, "U n"]:
        points = point_terms(self._score, rows.mean, rows.variance)
        n_latents, n_universes, n_rows = rows.mean.shape
        no_labels = np.zeros((n_latents, n_rows, 0), np.float32)
        no_targets = np.zeros((n_latents, len(self._context.share), 0), np.float32)
        scores = []
        for universe in range(n_universes):
            # (A, M, n)
            base = np.stack([table[:, universe] for table in rows.tables], axis=-1)
            scores.append(
                combine_terms(
                    self._score,
                    points[:, universe],
                    self._target_terms[universe],
                    Covariances(base, no_labels, no_targets),
                    self._context.share,
                )
            )
        return np.stack(scores)

    def _map_rows(
        self, indices: Int[Array, " n"], score_block: Callable[[TableRows], Float[Array, "U n"]]
    ) -> Float[Array, " n"]:
        """Mean scores of rows over the universes; the threads share the rows."""
        assert self._conditioned is not None
        conditioned = self._conditioned
        means = []
        for part in block_rows(len(indices), conditioned.n_slots):
            opened = conditioned.open_rows(indices[part])

            def score_rows(block: slice, opened: OpenRows = opened) -> Float[Array, "U n"]:
                return score_block(conditioned.catch_up(opened, block))

            n_rows = len(opened.slots)
            blocks = block_rows(n_rows, -(-n_rows // self._workers.n_threads))
            values = np.concatenate(self._workers.map(score_rows, blocks), axis=1)
            means.append(self._universe_share @ values)
        return np.concatenate(means)
