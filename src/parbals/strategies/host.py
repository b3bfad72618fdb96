"""The walk over a pool and the greedy search of ParBaLS on a CPU, in NumPy.

It chooses what :mod:`parbals.strategies.search` chooses, by the same formulas and by the same rule
of what is scored anew; a program compiled for a device is worth its while on a device alone. Here
nothing needs a size that is known before: there is no window, universes that have seen the same
labels are one, and what a row has in common with the targets is computed when the row is first
looked at. Tables are small enough for a core's cache, and the threads share them out.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows, release_pages
from parbals.machine import Workers, several_threads
from parbals.scores.decisions import Decisions, decision_gain, decisions_at
from parbals.scores.gaussian import (
    closed_epig,
    probs_and_gains,
    quadratic_gain,
    screening_gains,
    target_gains,
)
from parbals.strategies.distributed import DistributedRows
from parbals.strategies.gaussian_universes import (
    Seen,
    begin,
    branched,
    is_moved,
    observe,
    seen_by,
)
from parbals.strategies.kept_rows import KeptRows
from parbals.strategies.labeller import Labeller, drawn_labels, most_probable, row_key
from parbals.strategies.screen import Screen
from parbals.strategies.surface import Score, Surface, scores_of

__all__ = [
    "MARGIN",
    "MOST_SCORED",
    "ROUNDING",
    "SHORT",
    "Found",
    "search_on_host",
    "walk_on_host",
]

SHORT = 64
"""Rows that are compared by the score itself."""
MARGIN = 0.9
MOST_SCORED = 512
"""Rows that a step scores anew; the same on every machine, so that choices are."""
ROUNDING = 1e-4
_CHUNK = 128
_TABLE_ENTRIES = 2**17  # pairs at a time: half a megabyte
_GAINS_ENTRIES = 2**14  # channels times targets: threads take turns after every operation


def walk_on_host(surface: Surface, X: np.ndarray, *, score: Score) -> np.ndarray:
    """(N,) a score of every row of X (N, D), in memory or in a mapped file."""
    block = max(16, _TABLE_ENTRIES // len(surface.share))

    def scores(rows: slice) -> np.ndarray:
        return np.asarray(scores_of(surface, X[rows].astype(np.float32), score))

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
        ahead = np.concatenate([pending, _highest(start, is_free, 2 * MOST_SCORED)])
        rows = KeptRows(surface, X, ahead, workers)
        search = _Search(surface, labeller, rows, len(pending) + batch_size, score, workers)
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


class _Search:
    """The universes of a batch that grows, and the scores that they give."""

    def __init__(
        self,
        surface: Surface,
        labeller: Labeller | None,
        rows: KeptRows,
        rank: int,
        score: Score,
        workers: Workers,
    ) -> None:
        self._surface, self._labeller, self._score = surface, labeller, score
        self._rows, self._workers, self._keys = rows, workers, list[bytes]()
        self._universes = begin(surface, 1, rank)
        n_universes = 1 if labeller is None else labeller.weights.shape[2]
        self._member_of = np.zeros(n_universes, int)  # the distinct universe that each is

    def condition(self, index: int) -> None:
        """Let every universe see its label of a row."""
        row, labeller = self._rows.design(np.array([index]))[0], self._labeller
        pool = self._rows.at(np.array([index]))
        if labeller is None:
            labels = most_probable(pool.mean[:, 0], pool.variance[:, 0])
        else:
            key = row_key(row)
            twin = self._keys.count(key.tobytes())
            self._keys.append(key.tobytes())
            labels = drawn_labels(labeller, row, key, twin)
        pairs = np.stack([self._member_of, labels])
        (parents, labels), members = np.unique(pairs, axis=1, return_inverse=True)
        self._member_of = members.reshape(-1)
        self._universes = observe(pool, branched(self._universes, parents), 0, labels)

    def rescore(self, last: np.ndarray, is_free: np.ndarray) -> tuple[int, bool]:
        """Screen again, in the order of the last values, every free row that might be the best.

        Changes ``last``; how many were screened, and whether some that might be were not.
        """
        screen = Screen(self._universes, self._surface.share)
        order = _highest(last, is_free, MOST_SCORED + 1)
        before, best, done = last[order], -np.inf, 0
        while done < min(len(order), MOST_SCORED) and before[done] > MARGIN * best:
            indices = order[done : min(done + _CHUNK, MOST_SCORED)]
            last[indices] = fresh = self._screened(screen, indices)
            best, done = max(best, fresh.max()), done + len(indices)
        is_cut = done < len(order) and before[done] > (1.0 + ROUNDING) * best
        return done, bool(is_cut)

    def best(self, last: np.ndarray, is_free: np.ndarray) -> tuple[int, float]:
        """The free row with the highest mean score over the universes."""
        short = _highest(last, is_free, SHORT)
        if self._score == "decision":
            there = self._universes
            moments = there.target_probs, there.target_mean, there.target_variance
            self._decisions = decisions_at(*moments, np, self._surface.stakes)
        seen, gains = self._look_at(short)
        of_one = {"decision": self._decision, "epig": self._epig, "form": self._form}[self._score]
        looks = _looks(seen, gains, self._workers.n_threads)
        values = self._mean(np.concatenate(self._workers.map(of_one, looks)))
        best = int(values.argmax())
        return int(short[best]), float(values[best])

    def _screened(self, screen: Screen, indices: np.ndarray) -> np.ndarray:
        """(s,) mean of the screen over the universes."""
        seen, gains = self._look_at(indices)
        gains, n_rows = screening_gains(gains), len(indices)
        n_parts = -(-self._workers.n_threads // len(gains))
        blocks = list(block_rows(n_rows, -(-n_rows // n_parts)))
        tasks = [(channel, rows) for channel in range(len(gains)) for rows in blocks]
        parts = self._workers.map(
            lambda task: screen.of_channel(task[0], seen, gains, task[1]), tasks
        )
        by_channel = np.array(
            [
                np.concatenate(parts[i : i + len(blocks)], axis=1)
                for i in range(0, len(tasks), len(blocks))
            ]
        )
        return self._mean(by_channel.sum(axis=0))

    def _mean(self, values: np.ndarray) -> np.ndarray:
        """(s,) mean over the universes of what (U', s) the distinct ones say."""
        counts = np.bincount(self._member_of)
        return np.asarray(counts @ values.reshape(len(counts), -1) / counts.sum())

    def _look_at(self, indices: np.ndarray) -> tuple[Seen, np.ndarray]:
        """Rows as the distinct universes see them, and their gains (A, U', s)."""
        seen = seen_by(self._rows.at(indices), self._universes, slice(None))
        # Of many points at once: a small array takes as long as the calls that it passes through.
        n_universes = seen.mean.shape[1]
        gains = self._workers.map(
            lambda some: target_gains(seen.mean[:, some], seen.variance[:, some]),
            block_rows(n_universes, -(-n_universes // self._workers.n_threads)),
        )
        return seen, np.concatenate(gains, axis=1)

    def _form(self, look: "_Look") -> np.ndarray:
        there, share = self._universes.target_gains[:, look.number], self._surface.share
        return np.asarray(quadratic_gain(look.parts, look.gains, there, share, np, look.covariance))

    def _decision(self, look: "_Look") -> np.ndarray:
        margin, worth, *marks = self._decisions
        marks = [None if mark is None else mark[:, look.number] for mark in marks]
        there, share = (
            Decisions(margin[look.number], worth[look.number], *marks),
            self._surface.share,
        )
        return np.asarray(decision_gain(look.parts, look.gains, there, share, np, look.covariance))

    def _epig(self, look: "_Look") -> np.ndarray:
        moments = self._universes.target_mean, self._universes.target_variance
        mean, variance = (part[0, look.number] for part in moments)
        (table,) = (look.covariance(parts) for parts in zip(*look.parts, strict=True))
        share = self._surface.share
        return np.asarray(closed_epig(look.mean, look.variance, mean, variance, table, share))

    def look_at_targets(self) -> None:
        """Look again at the targets that have moved, in every universe."""
        universes = self._universes
        n_channels, moved = len(universes.target_mean), np.flatnonzero(is_moved(universes))
        if len(moved) == 0:
            return
        mean, variance = (
            part.reshape(n_channels, -1)[:, moved]
            for part in (universes.target_mean, universes.target_variance)
        )
        parts = self._workers.map(
            lambda some: probs_and_gains(mean[:, some], variance[:, some]),
            block_rows(len(moved), max(16, _GAINS_ENTRIES // n_channels)),
        )
        probs, gains = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        self._universes = universes._replace(
            target_probs=_with(universes.target_probs, moved, probs),
            target_gains=_with(universes.target_gains, moved, gains),
            looked_mean=_with(universes.looked_mean, moved, mean),
            looked_variance=_with(universes.looked_variance, moved, variance),
        )


def _with(whole: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy of (A, U, M) with values (A, n) at places (n,) of its U times M."""
    copy = whole.reshape(len(whole), -1).copy()
    copy[:, places] = values
    return copy.reshape(whole.shape)


class _Look(NamedTuple):
    """Some rows in one universe."""

    number: int
    mean: np.ndarray  # (s,) of the first channel, as the variance
    variance: np.ndarray
    gains: np.ndarray  # (A, s)
    parts: tuple[np.ndarray, ...]
    covariance: Callable[..., np.ndarray]


def _looks(seen: Seen, gains: np.ndarray, n_threads: int) -> list[_Look]:
    """The tasks of all threads, universe by universe; gains (A, U, s)."""
    whole, known, at_targets = seen.parts
    _, n_universes, n_rows = gains.shape
    n_parts = -(-n_threads // n_universes)
    return [
        _Look(
            number,
            seen.mean[0, number, rows],
            seen.variance[0, number, rows],
            gains[:, number, rows],
            (whole[:, rows], known[:, number, rows], at_targets),
            seen.covariance,
        )
        for number in range(n_universes)
        for rows in block_rows(n_rows, -(-n_rows // n_parts))
    ]


def _highest(last: np.ndarray, is_free: np.ndarray, n: int) -> np.ndarray:
    """Positions of the ``n`` free rows that stand highest, the highest first."""
    free = np.flatnonzero(is_free)
    values = last[free]
    if len(free) > n:
        above = values >= np.partition(values, len(free) - n)[len(free) - n]
        free, values = free[above], values[above]
    return free[np.argsort(-values, kind="stable")[:n]]
