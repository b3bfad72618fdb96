"""Top-B: the B points with the highest score, one by one, blind to what they share."""

import numpy as np

from parbals.batches.problem import Problem, batch_of
from parbals.randomness import derive_generator
from parbals.scores.epig import epig
from parbals.scores.uncertainty import bald, least_confidence, margin, predictive_entropy
from parbals.types import Batch

__all__ = ["select_bald", "select_confidence", "select_entropy", "select_epig", "select_margin", "select_random"]


def select_random(problem: Problem) -> Batch:
    """Uniform without replacement."""
    free = np.flatnonzero(problem.candidates())
    chosen = derive_generator(problem.seed, "random").choice(free, problem.batch_size, replace=False)
    return batch_of(problem, chosen, np.zeros(problem.batch_size))


def select_confidence(problem: Problem) -> Batch:
    """Smallest max_y p̄(y|x)."""
    return _top(problem, least_confidence(problem.pool_probs, problem.weights))


def select_margin(problem: Problem) -> Batch:
    """Smallest gap between the two most probable classes of p̄."""
    return _top(problem, margin(problem.pool_probs, problem.weights))


def select_entropy(problem: Problem) -> Batch:
    """Largest H(p̄)."""
    return _top(problem, predictive_entropy(problem.pool_probs, problem.weights))


def select_bald(problem: Problem) -> Batch:
    """Largest H(p̄) - mean_k H(p_k)."""
    return _top(problem, bald(problem.pool_probs, problem.weights))


def select_epig(problem: Problem) -> Batch:
    """Largest mean information about the target set's labels."""
    return _top(problem, epig(problem.pool_probs, problem.require_target(), problem.weights))


def _top(problem: Problem, scores: np.ndarray) -> Batch:
    """Highest scores first, the lowest index among equals; a NaN never wins."""
    ranked = np.where(problem.candidates() & ~np.isnan(scores), scores, -np.inf)
    chosen = np.argsort(-ranked, kind="stable")[: problem.batch_size]
    return batch_of(problem, chosen, scores[chosen])
