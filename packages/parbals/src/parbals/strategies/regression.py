"""Scores and batches for regression and ordinal tasks, where a label's value changes no variance.

With f ~ N(m, v) at a pool point, variance v' at a target, covariance c and noise σ², the expected
information of a label about the target's label (EPIG) is

    ½ ln (v' + σ²) / (v' + σ² - c² / (v + σ²)),

and about the weights (BALD) ½ ln(1 + v/σ²). A label at point i subtracts
c(·, i) c(i, ·) / (v_i + σ²) from every covariance, whatever its value is: the greedy batch is exact
and needs no universes.

An ordinal label informs about f like a number whose noise depends on f
(:meth:`~parbals.posterior.closed.ordinal.OrdinalPosterior.noise_at`). Scores are then EPIG to first
order in c, and the batch uses the average precision that labels add.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.posterior.predictive import add_bias
from parbals.shapes import Array, Bool, Float
from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.scoring import Rows, build_context, covariance, project_design
from parbals.types import Batch

__all__ = ["predictive_std", "regression_bald", "regression_epig", "select_regression"]

_TABLE_ENTRIES = 2**17  # pairs per block: half a megabyte
_MAX_EXPLAINED = 1.0 - 1e-6  # a label leaves a millionth of a variance, despite rounding


def select_regression(problem: Problem, view: GaussianView) -> Batch:
    """The greedy batch by EPIG, given the labels that pending points will get."""
    universe = _NumericUniverse(view)
    start = universe.scores()
    problem.show(start)
    steps = stack_steps(grow(universe, problem.candidates(), problem.pending, problem.batch_size))
    return batch_of(
        problem,
        steps.indices,
        steps.scores,
        initial_scores=start[steps.indices],
        n_exact=steps.n_scored,
    )


def regression_epig(view: GaussianView) -> Float[Array, " N"]:
    """EPIG of every pool point."""
    return _NumericUniverse(view).scores()


def regression_bald(view: GaussianView) -> Float[Array, " N"]:
    """BALD of every pool point."""
    variance, noise = _variances(view)
    return 0.5 * np.log1p(variance / noise)


def predictive_std(view: GaussianView) -> Float[Array, " N"]:
    """Standard deviation of every pool point's label, in the unit of the labels."""
    variance, noise = _variances(view)
    return view.posterior.label_scale * np.sqrt(variance + noise)


def _variances(view: GaussianView) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Variance of f and noise variance of every pool point."""
    mean, variance = view.posterior.marginals(add_bias(view.pool))
    return variance, view.posterior.noise_at(mean, variance)


class _NumericUniverse:
    """The posterior given a partial batch, as :class:`~parbals.strategies.greedy.Universes`."""

    def __init__(self, view: GaussianView) -> None:
        context = build_context(view.latents, view.target)
        target_rows = context.target_rows
        self._rows = project_design(context, add_bias(view.pool, np.float32))
        self._share = context.share
        self._variance = self._rows.variance[0].astype(np.float64)
        self._noise = view.posterior.noise_at(self._rows.mean[0], self._rows.variance[0])
        self._target_cov = covariance(self._rows, target_rows)[0]  # (N, M)
        target_noise = view.posterior.noise_at(target_rows.mean[0], target_rows.variance[0])
        self._target_noise = target_noise.astype(np.float32)
        self._target_variance = target_rows.variance[0] + self._target_noise  # of the label
        # Row r is c(·, i) / √(v_i + σ²) of the r-th label, given the labels before it.
        self._updates = np.zeros((0, len(view.pool)))

    def observe(self, index: int) -> None:
        """Condition on a label of a pool point, whatever its value."""
        row = Rows(
            orthogonal=self._rows.orthogonal[[index]],
            factor=self._rows.factor[:, [index]],
            mean=self._rows.mean[:, [index]],
            variance=self._rows.variance[:, [index]],
        )
        prior_cov = covariance(row, self._rows)[0, 0]
        cov = prior_cov - self._updates[:, index] @ self._updates
        label_std = np.sqrt(self._variance[index] + self._noise[index])
        update = cov / label_std
        target_update = self._target_cov[index] / np.float32(label_std)
        self._updates = np.vstack([self._updates, update])
        self._variance = np.maximum(self._variance - np.square(update), 0.0)
        explained = np.minimum(np.square(target_update), _MAX_EXPLAINED * self._target_variance)
        self._target_variance = np.maximum(self._target_variance - explained, self._target_noise)
        single = update.astype(np.float32)

        def update_block(rows: slice) -> None:
            self._target_cov[rows] -= single[rows, None] * target_update

        with several_threads() as workers:
            workers.map(update_block, self._blocks())

    def best(self, free: Bool[Array, " N"]) -> Step:
        """The free point with the highest EPIG."""
        scores = np.where(free, self.scores(), -np.inf)
        index = int(scores.argmax())
        return Step(index, float(scores[index]), int(free.sum()))

    def scores(self) -> Float[Array, " N"]:
        """EPIG of every point, given the labels so far."""
        precision = (1.0 / (self._variance + self._noise)).astype(np.float32)

        def score_block(rows: slice) -> Float[Array, " n"]:
            explained = np.square(self._target_cov[rows])
            explained *= precision[rows, None]
            explained /= self._target_variance
            np.minimum(explained, np.float32(_MAX_EXPLAINED), out=explained)
            return np.log1p(np.negative(explained, out=explained), out=explained) @ self._share

        with several_threads() as workers:
            blocks = workers.map(score_block, self._blocks())
        return -0.5 * np.concatenate(blocks).astype(np.float64)

    def _blocks(self) -> list[slice]:
        n_rows, n_targets = self._target_cov.shape
        return list(block_rows(n_rows, max(16, _TABLE_ENTRIES // n_targets)))
