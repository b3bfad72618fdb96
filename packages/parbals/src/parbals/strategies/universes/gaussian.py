"""Universes of a Gaussian posterior, and the rule by which a step finds their best point.

*Scored lazily.* Before the batch every point is screened once. A further label seldom makes a point
more telling, so a step screens the points anew in the order of their last values, ``CHUNK`` at a
time, and stops where the rest lie below ``MARGIN`` of the best new value: the choice is that of
screening every point whenever no value has risen by more than 1/``MARGIN`` since it was last
computed. Where values are flat a step screens at most ``MOST_SCORED`` points.

The best ``SHORT`` by the screen, a form of EPIG, are then compared by the score itself: under log
loss by their EPIG with two classes and by its quadratic form with more. Under the 0-1 loss the best
``FOR_DECISIONS`` are compared by the accuracy they gain: of what tells most, what changes decisions
is taken.

What universes learn from a label is in :mod:`parbals.strategies.learnt`. Universes that have given
all labels alike are one and the same: they are told apart when a label first differs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import Backend, Module, PoolRows
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.greedy import Step
from parbals.strategies.learnt import begin, branched, is_moved, learn, looked_at
from parbals.strategies.surface import Score, Surface, rows_of
from parbals.strategies.universes.labels import Labels

__all__ = ["GaussianUniverses", "Standing", "gaussian_universes"]

MARGIN = 0.9
"""Values that rise between two steps rise by less than a tenth (``studies/screening`` compares
whole batches with those of a search that screens everything).
"""
CHUNK = 128
"""Points after which a step looks whether to go on: enough for every thread, and for a device."""
MOST_SCORED = 1_024
"""Points that a step screens at most. With 512 the batches of 50,000 to 100,000 rows lost 0.03
of the scores of a search that screens all (``studies/screening``).
"""
SHORT = 64
"""Points that are compared by the score itself: the form's best stands among the first few by the
screen (``studies/screening``), and a score costs some ten times as much.
"""
FOR_DECISIONS = 256
"""The same under the 0-1 loss: on tables the best of 64 gained 0.76 to 0.85 of what the best of all
would, that of 256 at least 0.93. A batch then costs 1.4 to 1.7 times as much.
"""
ROUNDING = 1e-4
"""Values that differ by less are the same: single precision, summed in another order."""
# All are the same on every machine, so that choices are.


class Standing:
    """The last values (N,) of all points, and those that stand highest.

    Between two looks at the whole pool the highest are found among a few thousand, for as long as
    nothing outside stands above them.
    """

    _WINDOW = 8 * MOST_SCORED

    def __init__(self, values: Float[Array, " N"]) -> None:
        self.values = values.astype(np.float64)
        self._window, self._outside = np.arange(0), np.inf

    def highest(self, free: Bool[Array, " N"], n: int) -> Int[Array, " n"]:
        """Positions of the ``n`` free points that stand highest, equals in the pool's order."""
        order = self._ordered(self._window[free[self._window]], n)
        is_whole = self._outside == -np.inf
        if not is_whole and (len(order) < n or self.values[order[-1]] <= self._outside):
            self._look_around(free, max(self._WINDOW, 2 * n))
            order = self._ordered(self._window, n)
        return order

    def _look_around(self, free: Bool[Array, " N"], size: int) -> None:
        self._window, self._outside = np.flatnonzero(free), -np.inf
        is_high = self._is_high(self._window, size)
        self._outside = self.values[self._window[~is_high]].max(initial=-np.inf)
        self._window = self._window[is_high]

    def _ordered(self, positions: Int[Array, " m"], n: int) -> Int[Array, " k"]:
        """The ``n`` highest of some, the highest first; a few are sorted faster than all."""
        few = positions[self._is_high(positions, n)]
        return few[np.argsort(-self.values[few], kind="stable")[:n]]

    def _is_high(self, positions: Int[Array, " m"], n: int) -> Bool[Array, " m"]:
        """Which are among the ``n`` highest, or equal to the last of those."""
        values = self.values[positions]
        if len(values) <= n:
            return np.ones(len(values), bool)
        return values >= np.partition(values, len(values) - n)[len(values) - n]


class GaussianUniverses:
    """The :class:`~parbals.strategies.greedy.Universes` of one posterior, seen through targets.

    Attributes:
        n_cut: steps that left out points whose last value was above the best new one.
    """

    def __init__(
        self,
        surface: Surface,
        labels: Labels,
        rows: PoolRows,
        standing: Standing,
        backend: Backend,
        n_short: int,
    ) -> None:
        self._surface, self._labels, self._rows = surface, labels, rows
        self._standing, self._backend, self._n_short = standing, backend, n_short
        self._learnt, self._members = begin(surface), np.zeros(labels.n_universes, int)
        self._is_new, self.n_cut = True, 0

    def observe(self, index: int) -> None:
        """Let every universe see its own label of a point."""
        design = self._rows.design(np.array([index]))
        pairs = np.stack([self._members, self._labels.of(design[0])])
        (parents, labels), members = np.unique(pairs, axis=1, return_inverse=True)
        self._members, self._is_new = members.reshape(-1), True
        row = rows_of(self._surface, design)
        self._backend.branch(parents)
        self._learnt = learn(self._surface, branched(self._learnt, parents), row, labels)

    def best(self, free: Bool[Array, " N"]) -> Step:
        """The free point with the highest mean score over the universes."""
        if self._is_new:
            moved = is_moved(self._learnt)
            self._backend.renew(self._learnt, self._members, moved)
            self._learnt, self._is_new = looked_at(self._learnt, moved), False
        n_scored = self._screen_again(free)
        short = self._standing.highest(free, self._n_short)
        scores = self._backend.score(short)
        best = int(scores.argmax())
        return Step(int(short[best]), float(scores[best]), n_scored)

    def _screen_again(self, free: Bool[Array, " N"]) -> int:
        """Screen every free point that might be the best; how many those were."""
        order = self._standing.highest(free, MOST_SCORED + 1)
        before, best, done = self._standing.values[order], -np.inf, 0
        for values in self._backend.screen(order[:MOST_SCORED], CHUNK):
            some = order[done : done + len(values)]
            self._standing.values[some] = values
            best, done = max(best, values.max()), done + len(some)
            if done < len(order) and before[done] <= MARGIN * best:
                break
        self.n_cut += done < len(order) and before[done] > (1.0 + ROUNDING) * best
        return done


@contextmanager
def gaussian_universes(
    surface: Surface,
    labels: Labels,
    X: PoolFeatures,
    start: Float[Array, " N"],
    free: Bool[Array, " N"],
    pending: Int[Array, " P"],
    batch_size: int,
    score: Score,
    module: Module,
) -> Iterator[GaussianUniverses]:
    """Universes over a pool (N, D) whose points were screened before the batch."""
    standing = Standing(start)
    ahead = np.concatenate([pending, standing.highest(free, 2 * MOST_SCORED)])
    rows, n_labels = PoolRows(X, ahead), len(pending) + batch_size
    n_short = FOR_DECISIONS if score == "decision" else SHORT
    with module.opened(surface, rows, score, n_labels) as backend:
        yield GaussianUniverses(surface, labels, rows, standing, backend, n_short)
