"""Universes of a Gaussian posterior, and the lazy search for their best point.

*Lazy screening.* Every point is screened once before the batch. Further labels seldom make a point
more informative, so a step screens points again in the order of their last values, ``CHUNK`` at a
time, and stops where all remaining values lie below the best new value. The result is that of
screening every point whenever no value has risen since it was last computed. A step screens at most
``MAX_SCREENED`` points, however flat the values are.

*Renewal.* In a large batch all values fall, so that old ones say less and less. As soon as
screening rows one by one has cost as much as the pool, the values of all points are renewed by the
mean universe (:mod:`parbals.strategies.forms`), on the scale of the points just screened. Of a
pool of ``MAX_SCREENED`` points a step may screen all, and values are not renewed: with 77 classes
that would take as long as screening hundreds of points.

*Shortlist.* The best ``SHORTLIST`` points by the screen, which approximates EPIG, are then compared
by the final score: under log loss by EPIG with two classes, and by its quadratic form with more.
Under the 0-1 loss the best ``DECISION_SHORTLIST`` points are compared by the expected gain in
accuracy: among the most informative points, the one that changes decisions most is chosen. The
ratio of final score and screen hardly changes from step to step if both are of the same step, so
points of the shortlist that the step has not screened yet are screened, in the order of the scores
expected of them, and those are scored whose expected scores are close to the best: a screen costs a
tenth of a final score. All stop where the others are expected below ``SCORE_MARGIN`` or
``DECISION_MARGIN`` of the best. Under the 0-1 loss nothing is screened again for the comparison: on
real sets it took longer, and the batches were no better.

The rank-one updates are in :mod:`parbals.strategies.conditioning`. Universes with identical labels
are stored once, until their labels first differ.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, reduce

import numpy as np

from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import BackendModule, PoolRows
from parbals.strategies.backends.numpy import screen_pool
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.greedy import Step
from parbals.strategies.scoring import ScoreName, ScoringContext
from parbals.strategies.universes.labels import Labels
from parbals.strategies.universes.leaders import Leaders, top_positions
from parbals.strategies.universes.posterior import PosteriorUniverses, open_universes

__all__ = ["GaussianUniverses", "gaussian_universes"]

# These constants do not depend on the machine, so that all machines choose alike.
MARGIN = 1.0
"""Share of the best new value below which last values end a step: values that rise are missed.
``studies/speed/batches`` compares whole batches with those of an exact search.
"""
CHUNK = 32
"""Points screened before a step checks whether to stop: enough for all threads."""
SCORE_MARGIN = 0.985
"""Share of the best final score below which expected scores end a step. The ratio of final score
and screen changes by some 0.3 % in a step.
"""
DECISION_MARGIN = 0.9
"""The same under the 0-1 loss, where the ratio of final score and screen changes more. The sums of
gains of batches that differ in one early point differ by several percent, either way.
"""
SCORE_CHUNK = 8
"""Points of the shortlist scored before a step checks whether to stop."""
DECISION_CHUNK = 32
"""The same under the 0-1 loss, where more are scored, and fewer at a time take longer."""
AGEING = 0.5
"""Part of the change of values in a step that is expected of those not screened yet."""
SCALE_QUANTILE = 0.9
"""Renewed values are multiplied by this quantile of exact to renewed values: most are then bounds.
"""
MIN_RENEWAL_SHARE = 1 / 8
"""Of the pool's points are screened at least between two renewals, which are approximate."""
TINY = 1e-37  # guards division
MAX_SCREENED = 1_024
"""Most points that a step screens. With 512, batches from 50,000 to 100,000 rows lost 0.03 of the
scores of a search that screens all (``studies/approximation/screening``).
"""
SHORTLIST = 64
"""Points compared by the final score. The best point by the quadratic form ranks among the first
few by the screen (``studies/approximation/screening``), and a final score costs some ten times as
much.
"""
DECISION_SHORTLIST = 256
"""Points compared under the 0-1 loss. On tables the best of 64 gained 0.76 to 0.85 of the best of
all points, the best of 256 at least 0.93. A batch then costs 1.4 to 1.7 times as much.
"""
MAX_LABELS_FOR_DECISION_SHORTLIST = 8
"""With more labels per item the shorter list is used: sums over labels differ less."""
RELATIVE_TOLERANCE = 1e-4
"""Values that differ by less are equal: single precision, summed in another order."""


class GaussianUniverses:
    """The :class:`~parbals.strategies.greedy.Universes` of one posterior, or of one per label.

    In multi-label tasks the values and scores of all labels are added.

    Attributes:
        values: (N,) screening value of every point when it was last screened.
        n_cut: number of steps that reached the limit of ``MAX_SCREENED`` points while a further
            point had a last value above the best new one.
        n_renewed: number of times that all values were renewed.
        n_final: number of final scores.
    """

    def __init__(
        self,
        posteriors: list[PosteriorUniverses],
        rows: PoolRows,
        values: Float[Array, " N"],
        shortlist_size: int,
        *,
        is_decision: bool,
    ) -> None:
        self._posteriors = posteriors
        self._rows = rows
        self._shortlist_size = shortlist_size
        self._is_decision = is_decision
        self._score_margin = DECISION_MARGIN if is_decision else SCORE_MARGIN
        self._score_chunk = DECISION_CHUNK if is_decision else SCORE_CHUNK
        self.values = values.astype(np.float64)
        self._leaders = Leaders()
        self._n_screened = 0  # since all values were last renewed
        share = max(posterior.renewal_cost for posterior in posteriors)
        self._renewal_share = max(share, MIN_RENEWAL_SHARE)
        self._ratios = np.full(len(values), np.nan)  # of final score and value, when last scored
        self._screened_at = np.zeros(len(values), np.int32)  # the step
        self._n_steps = 0
        self._change = 1.0  # of a value in a step
        self.n_cut = 0
        self.n_renewed = 0
        self.n_final = 0

    def observe(self, index: int) -> None:
        """Condition every universe on its pseudo-label of a point."""
        design = self._rows.design(np.array([index]))
        for posterior in self._posteriors:
            posterior.observe(design)

    def best(self, free: Bool[Array, " N"]) -> Step:
        """The free point with the highest mean score over the universes."""
        self._n_steps += 1
        screened = self._screen_again(free)
        shortlist = self._leaders.top(self.values, free, self._shortlist_size)
        is_comparable = np.isin(shortlist, screened) | self._is_decision
        n_more, index, score = self._best_of(shortlist, is_comparable)
        return Step(index, score, len(screened) + n_more)

    def _best_of(
        self, shortlist: Int[Array, " n"], is_comparable: Bool[Array, " n"]
    ) -> tuple[int, int, float]:
        """The point with the highest final score, and that score.

        Also the number of points that were screened first, because they were not comparable.
        """
        high_ratio = np.nanmax(self._ratios[shortlist], initial=0.0) or np.inf
        best = self._best_score(shortlist[is_comparable], high_ratio, (-1, -np.inf))
        others = shortlist[~is_comparable]
        ages = self._n_steps - self._screened_at[others]
        expected = self._change ** (AGEING * ages) * self._expected_scores(others, high_ratio)
        order = np.argsort(-expected, kind="stable")
        others = others[order]
        expected = np.append(expected[order], -np.inf)
        n_screened = 0
        chunks_by_posterior = [posterior.screen(others, CHUNK) for posterior in self._posteriors]
        while expected[n_screened] > self._lowest(best[1]):
            values = reduce(np.add, [next(chunks) for chunks in chunks_by_posterior])
            chunk = others[n_screened : n_screened + len(values)]
            self.values[chunk] = values
            self._screened_at[chunk] = self._n_steps
            n_screened += len(values)
            best = self._best_score(chunk, high_ratio, best)
        return n_screened, *best

    def _best_score(
        self, indices: Int[Array, " n"], high_ratio: float, best: tuple[int, float]
    ) -> tuple[int, float]:
        """The best point and its final score, among the best so far and points just screened."""
        expected = self._expected_scores(indices, high_ratio)
        order = np.argsort(-expected, kind="stable")
        indices = indices[order]
        expected = np.append(expected[order], -np.inf)
        best_index, best_score = best
        if expected[0] <= self._lowest(best_score):
            return best
        n_scored = 0
        chunks_by_posterior = [
            posterior.score(indices, self._score_chunk) for posterior in self._posteriors
        ]
        while expected[n_scored] > self._lowest(best_score):
            scores = reduce(np.add, [next(chunks) for chunks in chunks_by_posterior])
            chunk = indices[n_scored : n_scored + len(scores)]
            self._ratios[chunk] = scores / np.maximum(self.values[chunk], TINY)
            n_scored += len(scores)
            highest = int(scores.argmax())
            if scores[highest] > best_score:
                best_index = int(chunk[highest])
                best_score = float(scores[highest])
        self.n_final += n_scored
        return best_index, best_score

    def _lowest(self, best_score: float) -> float:
        """The expected score up to which points are left out, given the best score so far."""
        return self._score_margin * best_score if np.isfinite(best_score) else -np.inf

    def _expected_scores(self, indices: Int[Array, " n"], high_ratio: float) -> Float[Array, " n"]:
        """Final scores by the last ratios; of points never scored, by a high one.

        In the first step no ratio is known, and every point may be the best.
        """
        if np.isinf(high_ratio):
            return np.full(len(indices), np.inf)
        ratios = self._ratios[indices]
        return self.values[indices] * np.where(np.isnan(ratios), high_ratio, ratios)

    def _screen_again(self, free: Bool[Array, " N"]) -> Int[Array, " n"]:
        """Screen every free point that might be the best; return the points screened."""
        order = self._leaders.top(self.values, free, MAX_SCREENED + 1)
        last_values = self.values[order]
        chunks_by_posterior = [
            posterior.screen(order[:MAX_SCREENED], CHUNK) for posterior in self._posteriors
        ]
        best = -np.inf
        n_screened = 0
        for chunks in zip(*chunks_by_posterior, strict=True):
            values = reduce(np.add, chunks)
            self.values[order[n_screened : n_screened + len(values)]] = values
            best = max(best, values.max())
            n_screened += len(values)
            if n_screened < len(order) and last_values[n_screened] <= MARGIN * best:
                break
        if n_screened < len(order):
            self.n_cut += last_values[n_screened] > (1.0 + RELATIVE_TOLERANCE) * best
        screened = order[:n_screened]
        self._note_changes(screened, last_values[:n_screened])
        self._n_screened += n_screened
        needs_renewal = len(free) > MAX_SCREENED
        if needs_renewal and self._n_screened > len(free) * self._renewal_share:
            self._renew(screened)
        return screened

    def _note_changes(self, screened: Int[Array, " n"], before: Float[Array, " n"]) -> None:
        """Estimate the factor by which a value changes in a step, from those just screened."""
        ages = self._n_steps - self._screened_at[screened]
        changes = np.log(np.maximum(self.values[screened], TINY) / np.maximum(before, TINY))
        self._change = min(float(np.exp(changes.sum() / max(ages.sum(), 1))), 1.0)
        self._screened_at[screened] = self._n_steps

    def _renew(self, screened: Int[Array, " n"]) -> None:
        """Renew the values of all points by the mean universe, on the scale of those screened."""
        screens = [posterior.mean_screen() for posterior in self._posteriors]
        values = reduce(np.add, [self._rows.map(partial(screen_pool, s)) for s in screens])
        exact = self.values[screened]
        values *= np.quantile(exact / np.maximum(values[screened], TINY), SCALE_QUANTILE)
        values[screened] = exact
        self.values = values
        self._leaders.forget()
        self._screened_at[:] = self._n_steps
        self._n_screened = 0
        self.n_renewed += 1


@contextmanager
def gaussian_universes(
    posteriors: Sequence[tuple[ScoringContext, Labels]],
    X: PoolFeatures,
    start: Float[Array, " N"],
    free: Bool[Array, " N"],
    pending: Int[Array, " P"],
    batch_size: int,
    score: ScoreName,
    backend: BackendModule,
) -> Iterator[GaussianUniverses]:
    """Universes over a pool (N, D).

    Args:
        posteriors: scoring context and pseudo-labels of the posterior, or of each label's.
        X: features (N, D) of the pool.
        start: screening values (N,) before the batch.
        free: (N,) True where a point may be chosen.
        pending: positions of points that are being labelled.
        batch_size: B.
        score: the score that compares the shortlist.
        backend: the backend module.
    """
    prefetch = np.concatenate([pending, top_positions(start, free, 4 * MAX_SCREENED)])
    rows = PoolRows(X, prefetch)
    n_labels = len(pending) + batch_size
    has_few_labels = len(posteriors) <= MAX_LABELS_FOR_DECISION_SHORTLIST
    uses_long_list = score == "decision" and has_few_labels
    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_universes(context, labels, rows, score, n_labels, backend))
            for context, labels in posteriors
        ]
        shortlist_size = DECISION_SHORTLIST if uses_long_list else SHORTLIST
        yield GaussianUniverses(
            opened, rows, start, shortlist_size, is_decision=score == "decision"
        )
