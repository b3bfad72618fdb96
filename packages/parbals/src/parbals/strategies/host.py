"""The walk over a pool and the greedy search of ParBaLS on a CPU, in NumPy.

It chooses what :mod:`parbals.strategies.search` chooses, by the same formulas and by the same rule
of what is scored anew; a program compiled for a device is worth its while on a device alone. Here
nothing needs a size that is known before: there is no window, universes that have seen the same
labels are one, and what a row has in common with the targets is computed when the row is first
looked at. Tables are small enough for a core's cache, and the threads share them out.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows, release_pages
from parbals.machine import several_threads
from parbals.strategies.distributed import DistributedRows
from parbals.strategies.growing import MOST_SCORED, GrowingBatch, highest
from parbals.strategies.kept_rows import KeptRows
from parbals.strategies.labeller import Labeller
from parbals.strategies.screen import StartScreen
from parbals.strategies.surface import Score, Surface, scores_of

__all__ = ["Found", "search_on_host", "walk_on_host"]

_TABLE_ENTRIES = 2**17  # pairs, or coordinates, at a time: half a megabyte


def walk_on_host(surface: Surface, X: np.ndarray, *, score: Score) -> np.ndarray:
    """(N,) a score of every row of X (N, D), in memory or in a mapped file."""
    screen = StartScreen(surface) if score == "screen" and StartScreen.pays(surface) else None
    block = max(16, _TABLE_ENTRIES // len(surface.basis if screen else surface.share))

    def scores(rows: slice) -> np.ndarray:
        features = X[rows].astype(np.float32)
        return np.asarray(screen.of(features) if screen else scores_of(surface, features, score))

    with several_threads() as workers:
        parts = workers.map(scores, block_rows(len(X), block))
    release_pages(X)
    return np.concatenate(parts).astype(np.float64)


class Found(NamedTuple):
    """What a search chose, one of each for every step."""

    chosen: np.ndarray
    scores: np.ndarray
    n_scored: np.ndarray
    n_cut: int  # steps that left out rows whose last score was above the best new one


def search_on_host(
    surface: Surface,
    labeller: Labeller | None,
    X: np.ndarray | DistributedRows,
    start: np.ndarray,
    is_free: np.ndarray,
    pending: np.ndarray,
    batch_size: int,
    *,
    score: Score,
) -> Found:
    """Condition on the pending rows of X (N, D), then choose ``batch_size`` of the free ones.

    ``start``: (N,) the scores before the batch.
    """
    with several_threads() as workers:
        ahead = np.concatenate([pending, highest(start, is_free, 2 * MOST_SCORED)])
        rows = KeptRows(surface, X, ahead, workers)
        search = GrowingBatch(surface, labeller, rows, len(pending) + batch_size, score, workers)
        for index in pending.tolist():
            search.condition(index)
        if len(pending):
            search.look_at_targets()
        last, is_free, found = start.copy(), is_free.copy(), []
        for step in range(batch_size):
            n_scored, is_cut = search.rescore(last, is_free)
            index, value = search.best(last, is_free)
            found.append((index, value, n_scored, is_cut))
            is_free[index] = False
            if step < batch_size - 1:
                search.condition(index)
                search.look_at_targets()
    chosen, scores, n_rows, cuts = zip(*found, strict=True)
    return Found(np.array(chosen), np.array(scores), np.array(n_rows), sum(cuts))
