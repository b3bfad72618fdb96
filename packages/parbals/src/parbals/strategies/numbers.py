"""Scores and batches where labels are numbers or ranks: variances, which no label's value changes.

With f ~ N(m, v) at a pool point, v' at a target point, covariance c and noise σ², a label tells of
the target's label (EPIG)

    ½ ln (v' + σ²) / (v' + σ² - c² / (v + σ²)),

and of the weights (BALD) ½ ln(1 + v/σ²). A label at point i takes c(·, i) c(i, ·) / (v_i + σ²) from
every covariance, whatever it is, so that a greedy batch is exact and needs no universes.

A rank tells of f what a number would whose noise depends on where f is
(:meth:`~parbals.posterior.closed.ordinal.OrdinalPosterior.noise_at`). Scores are then EPIG to first
order in c, and the batch is that of the precision which labels add on the average.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.posterior.predictive import add_bias
from parbals.shapes import Array, Bool, Float
from parbals.strategies.greedy import Step, columns, grow
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import Rows, covariance, rows_of, surface_of
from parbals.types import Batch

__all__ = ["number_deviations", "number_gains", "number_information", "select_numbers"]

_ENTRIES = 2**17  # pairs at a time: half a megabyte
_MOST = 1.0 - 1e-6  # a label leaves a millionth of a variance, whatever rounding says


def select_numbers(problem: Problem, view: GaussianView) -> Batch:
    """The greedy batch by EPIG, given what pending points will tell."""
    told = _Told(view)
    start = told.scores()
    problem.show(start)
    steps = grow(told, problem.candidates(), problem.pending, problem.batch_size)
    chosen, scores, n_scored, _ = columns(steps)
    return batch_of(problem, chosen, scores, initial_scores=start[chosen], n_exact=n_scored)


def number_gains(view: GaussianView) -> Float[Array, " N"]:
    """EPIG of every pool point."""
    return _Told(view).scores()


def number_information(view: GaussianView) -> Float[Array, " N"]:
    """BALD of every pool point."""
    variance, noise = _variances(view)
    return 0.5 * np.log1p(variance / noise)


def number_deviations(view: GaussianView) -> Float[Array, " N"]:
    """The deviation of every pool point's label, in units of labels."""
    return view.posterior.label_scale * np.sqrt(sum(_variances(view)))


def _variances(view: GaussianView) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Of f, and of the noise."""
    mean, variance = view.posterior.marginals(add_bias(view.pool))
    return variance, view.posterior.noise_at(mean, variance)


class _Told:
    """What is left to know given the labels of a partial batch, for the greedy loop."""

    def __init__(self, view: GaussianView) -> None:
        surface = surface_of(view.latents, view.target)
        self._rows, there = rows_of(surface, add_bias(view.pool, np.float32)), surface.target_rows
        self._share, self._variance = surface.share, self._rows.variance[0].astype(np.float64)
        self._table = covariance(self._rows, there)[0]  # (N, M)
        self._noise, at_targets = (
            view.posterior.noise_at(rows.mean[0], rows.variance[0]) for rows in (self._rows, there)
        )
        self._least = at_targets.astype(np.float32)
        self._target = there.variance[0] + self._least
        self._taken = np.zeros((0, len(view.pool)))

    def observe(self, index: int) -> None:
        across, *others = self._rows
        row = Rows(across[[index]], *(part[:, [index]] for part in others))
        column = covariance(row, self._rows)[0, 0] - self._taken[:, index] @ self._taken
        size = np.sqrt(self._variance[index] + self._noise[index])
        taken, at_targets = column / size, self._table[index] / np.float32(size)
        self._taken = np.vstack([self._taken, taken])
        self._variance = np.maximum(self._variance - np.square(taken), 0.0)
        lost = np.minimum(np.square(at_targets), _MOST * self._target)
        self._target = np.maximum(self._target - lost, self._least)
        single = taken.astype(np.float32)

        def update(rows: slice) -> None:
            self._table[rows] -= single[rows, None] * at_targets

        with several_threads() as workers:
            workers.map(update, self._blocks())

    def best(self, free: Bool[Array, " N"]) -> Step:
        scores = np.where(free, self.scores(), -np.inf)
        index = int(scores.argmax())
        return Step(index, float(scores[index]), int(free.sum()))

    def scores(self) -> Float[Array, " N"]:
        """EPIG of every point, beyond the labels so far."""
        own = (1.0 / (self._variance + self._noise)).astype(np.float32)

        def score(rows: slice) -> Float[Array, " n"]:
            shared = np.square(self._table[rows])
            shared *= own[rows, None]
            shared /= self._target
            np.minimum(shared, np.float32(_MOST), out=shared)
            return np.log1p(np.negative(shared, out=shared), out=shared) @ self._share

        with several_threads() as workers:
            parts = workers.map(score, self._blocks())
        return -0.5 * np.concatenate(parts).astype(np.float64)

    def _blocks(self) -> list[slice]:
        return list(block_rows(len(self._table), max(16, _ENTRIES // self._table.shape[1])))
