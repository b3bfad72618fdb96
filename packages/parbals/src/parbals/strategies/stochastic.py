"""Stochastic batches: Gumbel noise on the scores, so that near-duplicates rarely come together.

Adding G/β with independent standard Gumbel noise G to values v and taking the top B draws B points
without replacement, each next one with probability proportional to exp(β v) among those that are
left (Kirsch et al., 2023).
"""

from collections.abc import Callable

import numpy as np

from parbals.randomness import derive_generator
from parbals.strategies.problem import Problem, batch_of
from parbals.strategies.top import parameter_scores, target_scores
from parbals.types import Batch

__all__ = [
    "log_rank",
    "log_score",
    "noisy_batch",
    "plain_score",
    "select_power_bald",
    "select_power_epig",
    "select_softmax_bald",
    "select_softmax_epig",
    "select_softrank_bald",
    "select_softrank_epig",
]


Scores = Callable[[Problem], np.ndarray]
Value = Callable[[np.ndarray], np.ndarray]


def noisy_batch(problem: Problem, scores: np.ndarray, value: Value) -> Batch:
    """Top-B of value(score) + G/β over the free points; those without a value last, at random."""
    free = np.flatnonzero(problem.candidates())
    values = value(scores[free].astype(np.float64))
    noise = derive_generator(problem.seed, "gumbel top-k").gumbel(size=len(free))
    drawable = values > -np.inf  # False for NaN as well
    # Two keys: where the values are finite the perturbed ones decide, elsewhere the noise alone.
    perturbed = np.where(drawable, np.where(drawable, values, 0.0) + noise / problem.beta, noise)
    chosen = free[np.lexsort((-perturbed, ~drawable))[: problem.batch_size]]
    problem.show(scores)
    return batch_of(problem, chosen, scores[chosen])


def log_score(scores: np.ndarray) -> np.ndarray:
    """ln(score), -inf where the score is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scores > 0, np.log(np.where(scores > 0, scores, 1.0)), -np.inf)


def plain_score(scores: np.ndarray) -> np.ndarray:
    """The score itself."""
    return scores


def log_rank(scores: np.ndarray) -> np.ndarray:
    """-ln(rank), rank 1 = highest score, the lower index first among equals; NaN has no rank."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")] = np.arange(
        1, len(scores) + 1
    )
    return np.where(np.isnan(scores), -np.inf, -np.log(ranks))


def _drawn(scores: Scores, value: Value) -> Callable[[Problem], Batch]:
    return lambda problem: noisy_batch(problem, scores(problem), value)


# Drawn with probability proportional to the score to the power β, to exp(β · score), and to the
# rank by the score to the power -β.
select_power_bald, select_softmax_bald, select_softrank_bald = (
    _drawn(parameter_scores, value) for value in (log_score, plain_score, log_rank)
)
select_power_epig, select_softmax_epig, select_softrank_epig = (
    _drawn(target_scores, value) for value in (log_score, plain_score, log_rank)
)
