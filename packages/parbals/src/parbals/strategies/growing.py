"""A batch that grows, on a CPU: its universes, and what each says of the rows that are left.

A step screens rows of the pool, those first that stood highest before, and compares the best of
them by the score itself.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import Workers
from parbals.scores.decisions import Decisions, decision_gain, decisions_at
from parbals.scores.gaussian import (
    closed_epig,
    probs_and_gains,
    quadratic_gain,
    rough_gains,
    screening_gains,
)
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
from parbals.strategies.surface import Score, Surface

__all__ = ["CHUNK", "MARGIN", "MOST_SCORED", "ROUNDING", "SHORT", "GrowingBatch", "highest"]

SHORT = 64
"""Rows that are compared by the score itself."""
MARGIN = 0.9
MOST_SCORED = 512
"""Rows that a step scores anew; the same on every machine, so that choices are."""
ROUNDING = 1e-4
CHUNK = 128
"""Rows after which a step looks whether to go on; the same on every machine as well."""
_GAINS_ENTRIES = 2**14  # channels times targets: threads take turns after every operation


class GrowingBatch:
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
        order = highest(last, is_free, MOST_SCORED + 1)
        before, best, done = last[order], -np.inf, 0
        while done < min(len(order), MOST_SCORED) and before[done] > MARGIN * best:
            indices = order[done : min(done + CHUNK, MOST_SCORED)]
            last[indices] = fresh = self._screened(screen, indices)
            best, done = max(best, fresh.max()), done + len(indices)
        is_cut = done < len(order) and before[done] > (1.0 + ROUNDING) * best
        return done, bool(is_cut)

    def best(self, last: np.ndarray, is_free: np.ndarray) -> tuple[int, float]:
        """The free row with the highest mean score over the universes."""
        short = highest(last, is_free, SHORT)
        if self._score == "decision":
            there = self._universes
            known = there.target_probs, there.target_mean, there.target_variance
            self._decisions = decisions_at(*known, np, self._surface.stakes)
        seen = self._seen(short)
        _, gains = self._gains(
            *(part.reshape(len(part), -1) for part in (seen.mean, seen.variance))
        )
        gains = gains.reshape(seen.mean.shape)
        of_one = {"decision": self._decision, "epig": self._epig, "form": self._form}[self._score]
        looks = _looks(seen, gains, self._universes.n_labels, self._workers.n_threads)
        values = self._mean(np.concatenate(self._workers.map(of_one, looks)))
        best = int(values.argmax())
        return int(short[best]), float(values[best])

    def _screened(self, screen: Screen, indices: np.ndarray) -> np.ndarray:
        """(s,) mean of the screen over the universes."""
        seen, n_rows = self._seen(indices), len(indices)
        gains = screening_gains(rough_gains(seen.mean, seen.variance))
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

    def _seen(self, indices: np.ndarray) -> Seen:
        """Rows as the distinct universes see them."""
        return seen_by(self._rows.at(indices), self._universes, slice(None))

    def _gains(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and gains (A, n) of logits' moments (A, n), a share in each thread."""
        n_channels, n_points = mean.shape
        size = max(16, min(_GAINS_ENTRIES // n_channels, -(-n_points // self._workers.n_threads)))
        parts = self._workers.map(
            lambda some: probs_and_gains(mean[:, some], variance[:, some]),
            block_rows(n_points, size),
        )
        probs, gains = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        return probs, gains

    def _form(self, look: "_Look") -> np.ndarray:
        there, share = self._universes.target_gains[:, look.number], self._surface.share
        return np.asarray(quadratic_gain(look.parts, look.gains, there, share, np, _table))

    def _decision(self, look: "_Look") -> np.ndarray:
        margin, worth, *marks = self._decisions
        marks = [None if mark is None else mark[:, look.number] for mark in marks]
        there, share = (
            Decisions(margin[look.number], worth[look.number], *marks),
            self._surface.share,
        )
        return np.asarray(decision_gain(look.parts, look.gains, there, share, np, _table))

    def _epig(self, look: "_Look") -> np.ndarray:
        moments = self._universes.target_mean, self._universes.target_variance
        mean, variance = (part[0, look.number] for part in moments)
        (table,) = map(_table, zip(*look.parts, strict=True))
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
        probs, gains = self._gains(mean, variance)
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
    parts: tuple[np.ndarray, ...]  # of _table


def _looks(seen: Seen, gains: np.ndarray, n_labels: int, n_threads: int) -> list[_Look]:
    """The tasks of all threads, universe by universe; gains (A, U, s)."""
    whole, known, at_targets = seen.parts
    # Of each channel some targets are wanted: rows of memory are copied faster than columns.
    before, labelled = (
        np.ascontiguousarray(part.swapaxes(1, 2)) for part in (whole, at_targets[:, :n_labels])
    )
    _, n_universes, n_rows = gains.shape
    n_parts = -(-n_threads // n_universes)
    return [
        _Look(
            number,
            seen.mean[0, number, rows],
            seen.variance[0, number, rows],
            gains[:, number, rows],
            (before[:, :, rows], known[:, number, rows, :n_labels], labelled),
        )
        for number in range(n_universes)
        for rows in block_rows(n_rows, -(-n_rows // n_parts))
    ]


def _table(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], columns: np.ndarray | None = None
) -> np.ndarray:
    """A channel's covariances (s, M) from c⁰ (M, s), -bᵀW (s, R) and b (M, R)."""
    before, known, labelled = parts
    if columns is not None:
        before, labelled = before.take(columns, axis=0), labelled.take(columns, axis=0)
    table = labelled @ known.T
    table += before
    return table.T


def highest(last: np.ndarray, is_free: np.ndarray, n: int) -> np.ndarray:
    """Positions of the ``n`` free rows that stand highest, the highest first."""
    free = np.flatnonzero(is_free)
    values = last[free]
    if len(free) > n:
        above = values >= np.partition(values, len(free) - n)[len(free) - n]
        free, values = free[above], values[above]
    return free[np.argsort(-values, kind="stable")[:n]]
