"""How much the answers of programs count: the weight that best predicts people's answers.

Programs (annotators whose names start with ``machine:``) make correlated errors: similar items get
the same wrong answer, and a classifier trained on these answers would find them right.
"""

from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers
from parbals.learner.annotators.people import LeaveOneOutPredict, PeopleFit, normalised

__all__ = ["ProgramWeight", "select_program_weight"]

_PROGRAM_WEIGHTS = (1.0, 0.3)
"""Candidate weights of programs' answers, besides 0."""
_MIN_GAIN_OF_ZERO_WEIGHT = 0.5
"""Weight 0 must predict n answers of people better by this times √n nats: more than by chance."""
_EPS = 1e-12
"""Guards divisions and logarithms."""


class ProgramWeight(NamedTuple):
    """The weight of programs' answers, and leave-one-out predictions (n, C) with that weight."""

    weight: float
    predictions: np.ndarray


def select_program_weight(
    answers: Answers,
    is_training: np.ndarray,
    is_checked: np.ndarray,
    is_program: np.ndarray,
    people_fit: PeopleFit,
    predict: LeaveOneOutPredict,
) -> ProgramWeight:
    """Choose the weight of programs' answers that best predicts people's, leave-one-out."""
    checked_rows = np.flatnonzero(is_training & is_checked)
    training_rows = np.flatnonzero(is_training)
    people_likelihoods = people_fit.likelihoods[checked_rows]
    # People tend to be asked about items where a program's answer is unusual. So all predictions of
    # a person's answer use the programs' answers to the same item with weight 1, and the weights
    # that are compared differ only in what the classifier was trained on.
    program_likelihoods = answers.likelihoods(people_fit.confusions, is_program)[checked_rows]
    has_gold = answers.gold[checked_rows] >= 0
    program_likelihoods = np.where(has_gold[:, None], 1.0, program_likelihoods)

    def score(predictions: np.ndarray) -> float:
        given_programs = normalised(program_likelihoods * predictions[checked_rows])
        return _log_likelihood(people_likelihoods, given_programs)

    best = ProgramWeight(0.0, people_fit.predictions)
    best_score = score(best.predictions) - _MIN_GAIN_OF_ZERO_WEIGHT * np.sqrt(len(checked_rows))
    for weight in _PROGRAM_WEIGHTS:
        weights = np.where(is_program, weight, 1.0)
        likelihoods = answers.likelihoods(people_fit.confusions, weights)
        predictions = predict(training_rows, likelihoods[training_rows])
        weight_score = score(predictions)
        if weight_score >= best_score:
            best = ProgramWeight(weight, predictions)
            best_score = weight_score
    return best


def _log_likelihood(likelihoods: np.ndarray, probs: np.ndarray) -> float:
    """Compute Σ_i ln Σ_c w_ic p_ic: how well predictions p (n, C) agree with answers."""
    return float(np.log(np.maximum((likelihoods * probs).sum(axis=1), _EPS)).sum())
