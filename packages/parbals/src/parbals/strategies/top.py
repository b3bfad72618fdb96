"""Top-B: the B points with the highest score, one by one, blind to what they share.

A strategy of this family is a score and nothing else.
"""

import numpy as np

from parbals.randomness import derive_generator
from parbals.scores.epig import epig_scores
from parbals.scores.uncertainty import (
    bald_scores,
    confidence_scores,
    entropy_scores,
    margin_scores,
)
from parbals.strategies.closed_form import bald_in_closed_form, gain_in_closed_form
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch, Loss

__all__ = [
    "parameter_scores",
    "select_bald",
    "select_confidence",
    "select_entropy",
    "select_epig",
    "select_margin",
    "select_random",
    "target_scores",
    "top_batch",
]


def select_random(problem: Problem) -> Batch:
    """Every subset of B free points is equally probable: the strategy every other has to beat."""
    free = np.flatnonzero(problem.candidates())
    generator = derive_generator(problem.seed, "random")
    chosen = generator.choice(free, problem.batch_size, replace=False)
    problem.show(lambda: np.zeros(problem.n_pool))
    return batch_of(problem, chosen, np.zeros(problem.batch_size))


def select_confidence(problem: Problem) -> Batch:
    """Smallest max_y p̄(y|x)."""
    return top_batch(problem, confidence_scores(problem.require_probs(), problem.weights))


def select_margin(problem: Problem) -> Batch:
    """Smallest gap between the two most probable classes of p̄."""
    return top_batch(problem, margin_scores(problem.require_probs(), problem.weights))


def select_entropy(problem: Problem) -> Batch:
    """Largest H(p̄)."""
    return top_batch(problem, entropy_scores(problem.require_probs(), problem.weights))


def select_bald(problem: Problem) -> Batch:
    """Largest H(p̄) - Σ_k w_k H(p_k): the label says most about the parameters."""
    return top_batch(problem, parameter_scores(problem))


def select_epig(problem: Problem) -> Batch:
    """Largest mean gain over the target set.

    Most labels cannot change a decision, so the 0-1 loss gives many points a gain of exactly zero;
    log loss decides between them.
    """
    ties = None if problem.loss == "log" else target_scores(problem, "log")
    return top_batch(problem, target_scores(problem), ties)


def top_batch(problem: Problem, scores: np.ndarray, ties: np.ndarray | None = None) -> Batch:
    """Highest scores first; among equals the higher of ``ties``, then the lower index.

    A NaN never wins.
    """
    free = np.flatnonzero(problem.candidates())
    ranked = np.where(np.isnan(scores), -np.inf, scores)[free]
    keys = (-ranked,) if ties is None else (-ties[free], -ranked)
    chosen = free[np.lexsort(keys)[: problem.batch_size]]
    problem.show(scores)
    return batch_of(problem, chosen, scores[chosen])


def parameter_scores(problem: Problem) -> np.ndarray:
    """(N,) BALD."""
    if problem.gaussian is not None:
        return bald_in_closed_form(problem.gaussian)
    return bald_scores(problem.require_probs(), problem.weights)


def target_scores(problem: Problem, loss: Loss | None = None) -> np.ndarray:
    """(N,) expected gain on the target set under a loss, by default the problem's."""
    if problem.gaussian is not None:
        return gain_in_closed_form(problem.gaussian, loss or problem.loss, problem.stakes)
    return epig_scores(*problem.samples(), problem.weights, loss or problem.loss, problem.stakes)
