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

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce

import numpy as np

from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import Backend, Module, PoolRows
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.greedy import Step
from parbals.strategies.learnt import begin, branched, is_moved, learn, looked_at
from parbals.strategies.surface import Score, Surface, rows_of
from parbals.strategies.universes.labels import Labels

__all__ = ["GaussianUniverses", "Lane", "gaussian_universes", "highest"]

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
FEW_LANES = 8
"""With more labels an item fewer points are compared: sums over labels differ less."""
ROUNDING = 1e-4
"""Values that differ by less are the same: single precision, summed in another order."""
# All are the same on every machine, so that choices are.


def highest(values: Float[Array, " N"], free: Bool[Array, " N"], n: int) -> Int[Array, " n"]:
    """Positions of the ``n`` free points of the highest values, equals in the pool's order."""
    places = np.flatnonzero(free)
    values = values[places]
    if len(places) > n:  # a few are sorted faster than all
        is_high = values >= np.partition(values, len(places) - n)[len(places) - n]
        places, values = places[is_high], values[is_high]
    return places[np.argsort(-values, kind="stable")[:n]]


class Lane:
    """The universes of one posterior, seen through targets."""

    def __init__(self, surface: Surface, labels: Labels, backend: Backend) -> None:
        self._surface, self._labels, self.backend = surface, labels, backend
        self._learnt, self._members = begin(surface), np.zeros(labels.n_universes, int)
        self._is_new = True

    def observe(self, design: Float[Array, "1 d"]) -> None:
        """Let every universe see its own label of a design row."""
        pairs = np.stack([self._members, self._labels.of(design[0])])
        (parents, labels), members = np.unique(pairs, axis=1, return_inverse=True)
        self._members, self._is_new = members.reshape(-1), True
        row = rows_of(self._surface, design)
        self.backend.branch(parents)
        self._learnt = learn(self._surface, branched(self._learnt, parents), row, labels)

    def renew(self) -> None:
        """Score from now on by what has been learnt."""
        if self._is_new:
            moved = is_moved(self._learnt)
            self.backend.renew(self._learnt, self._members, moved)
            self._learnt, self._is_new = looked_at(self._learnt, moved), False


class GaussianUniverses:
    """The :class:`~parbals.strategies.greedy.Universes` of a lane, or of several labels an item: a
    lane for each, whose values and scores are added.

    Attributes:
        values: (N,) of all points by the screen, when each was last looked at.
        n_cut: steps that left out points whose last value was above the best new one.
    """

    def __init__(
        self, lanes: list[Lane], rows: PoolRows, values: Float[Array, " N"], n_short: int
    ) -> None:
        self._lanes, self._rows, self._n_short = lanes, rows, n_short
        self.values, self.n_cut = values.astype(np.float64), 0

    def observe(self, index: int) -> None:
        """Let every universe see its own label of a point."""
        design = self._rows.design(np.array([index]))
        for lane in self._lanes:
            lane.observe(design)

    def best(self, free: Bool[Array, " N"]) -> Step:
        """The free point with the highest mean score over the universes."""
        for lane in self._lanes:
            lane.renew()
        n_scored = self._screen_again(free)
        short = highest(self.values, free, self._n_short)
        scores = reduce(np.add, [lane.backend.score(short) for lane in self._lanes])
        best = int(scores.argmax())
        return Step(int(short[best]), float(scores[best]), n_scored)

    def _screen_again(self, free: Bool[Array, " N"]) -> int:
        """Screen every free point that might be the best; how many those were."""
        order = highest(self.values, free, MOST_SCORED + 1)
        before, best, done = self.values[order], -np.inf, 0
        screens = [lane.backend.screen(order[:MOST_SCORED], CHUNK) for lane in self._lanes]
        for each in zip(*screens, strict=True):
            values = reduce(np.add, each)
            some = order[done : done + len(values)]
            self.values[some] = values
            best, done = max(best, values.max()), done + len(some)
            if done < len(order) and before[done] <= MARGIN * best:
                break
        self.n_cut += done < len(order) and before[done] > (1.0 + ROUNDING) * best
        return done


@contextmanager
def gaussian_universes(
    lanes: Sequence[tuple[Surface, Labels]],
    X: PoolFeatures,
    start: Float[Array, " N"],
    free: Bool[Array, " N"],
    pending: Int[Array, " P"],
    batch_size: int,
    score: Score,
    module: Module,
) -> Iterator[GaussianUniverses]:
    """Universes over a pool (N, D) whose points were screened before the batch."""
    ahead = np.concatenate([pending, highest(start, free, 4 * MOST_SCORED)])
    rows, n_labels = PoolRows(X, ahead), len(pending) + batch_size
    n_short = FOR_DECISIONS if score == "decision" and len(lanes) <= FEW_LANES else SHORT
    with ExitStack() as stack:
        opened = [
            Lane(*lane, stack.enter_context(module.opened(lane[0], rows, score, n_labels)))
            for lane in lanes
        ]
        yield GaussianUniverses(opened, rows, start, n_short)
