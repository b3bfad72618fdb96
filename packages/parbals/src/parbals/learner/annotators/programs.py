"""Programs: how accurate they are, and how much their answers count.

Programs (annotators whose names start with ``machine:``) make correlated errors: similar items get
the same wrong answer, a classifier trained on these answers would find them right, and two programs
agree where both are wrong. So people alone judge them, and several programs' answers to an item
count as much as one program's.

*Weight.* All programs' log-likelihoods are multiplied by a weight (:func:`fit_program_weight`). It
is the mean of its posterior over 0.03, 0.3 and 1, so that a single answer changes it little. Two
things tell about it. The programs' own answers, predicted leave-one-out: a classifier that believes
random errors predicts them worse than one that believes them less. And people's answers: a
classifier that believes a program which guesses, or lies, predicts them worse than one that hardly
knows the program. People may have been asked about unusual items; so with the least weight, too,
programs' answers decide where nobody else has answered.

*Accuracy* (:func:`program_confusions`). Answers that are *checked*, because a person has answered
the same item, count one each. They may have been chosen, all of them errors or none; so the others
count as well. A classifier agrees with an answer with probability A; with P, if the answer is
right, and otherwise with Q (:func:`contradiction_slope` is b = P - Q): the accuracy is (A - Q) / b.
An unchecked answer counts b² as much as a checked one, not at all if the classifier knows nothing.

Before the first check, a program is believed as much as its own answers deserve: nothing jumps when
somebody checks it.
"""

from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers
from parbals.learner.annotators.error_rates import contradiction_slope
from parbals.learner.annotators.people import (
    AccuracyPrior,
    LeaveOneOutPredict,
    PeopleFit,
    confusion_matrix,
    normalised,
)

__all__ = ["ProgramWeight", "fit_program_weight", "program_confusions"]

_PRIOR = AccuracyPrior(0.9, 4.0)
"""Prior of a program's accuracy."""
_ROW_CONCENTRATION = 25.0
"""Number of answers that the prior of a row of a confusion matrix is worth. A person's is worth
fewer: programs are checked in few answers, which may be of one class."""
_LEAST_SKILL = 0.3
"""Share of the way from chance to certainty below which no program's accuracy is set: the weight
says whether a program is to be ignored."""
_MAX_UNCHECKED = 60.0
"""Number of checked answers that all unchecked ones of a program count as at most."""

# The smallest, a fit that hardly knows the programs, is worth its time if people have answered.
_WEIGHTS = np.array([0.03, 0.3, 1.0])
_PRIOR_OF_LEAST_WEIGHT = 0.15
_OWN_EVIDENCE = 0.1
"""Exponent of the likelihood of programs' own answers, whose errors are correlated."""
_SHARE_OF_UNIFORM = 0.1
"""However clear this likelihood is, people's answers can overturn it."""
_EPS = 1e-12
"""Guards divisions and logarithms."""


class ProgramWeight(NamedTuple):
    """The weight of programs' answers, and leave-one-out predictions (n, C) with that weight."""

    weight: float
    predictions: np.ndarray


def fit_program_weight(
    answers: Answers,
    is_training: np.ndarray,
    people_fit: PeopleFit,
    predict: LeaveOneOutPredict,
) -> ProgramWeight:
    """Average the weight of programs' answers over its posterior, and predictions likewise."""
    is_program = answers.is_program
    is_checked = answers.is_answered_by_people
    training_rows = np.flatnonzero(is_training)
    checked_rows = np.flatnonzero(is_training & is_checked)
    unchecked_rows = np.flatnonzero(is_training & ~is_checked)
    confusions = program_confusions(answers, is_training, people_fit)

    def predictions_with(weight: float) -> np.ndarray:
        likelihoods = answers.likelihoods(confusions, np.where(is_program, weight, 1.0))
        return predict(training_rows, likelihoods[training_rows])

    candidates = [predictions_with(weight) for weight in _WEIGHTS[1:].tolist()]
    least = predictions_with(float(_WEIGHTS[0])) if len(checked_rows) else people_fit.predictions
    candidates = [least, *candidates]
    program_likelihoods = answers.likelihoods(confusions, is_program)
    own_scores = np.array(
        [
            _log_likelihood(program_likelihoods[unchecked_rows], predictions[unchecked_rows])
            for predictions in candidates[1:]
        ]
    )
    own_evidence = np.exp(_OWN_EVIDENCE * (own_scores - own_scores.max()))
    prior = (1.0 - _SHARE_OF_UNIFORM) * own_evidence / own_evidence.sum()
    prior += _SHARE_OF_UNIFORM / len(prior)
    prior = np.append(_PRIOR_OF_LEAST_WEIGHT, (1.0 - _PRIOR_OF_LEAST_WEIGHT) * prior)
    # People tend to be asked about items where a program's answer is unusual. So all predictions of
    # a person's answer use the programs' answers to the same item with weight 1, and the weights
    # that are compared differ only in what the classifier was trained on.
    has_gold = answers.gold[checked_rows] >= 0
    same_item = np.where(has_gold[:, None], 1.0, program_likelihoods[checked_rows])
    people_likelihoods = people_fit.likelihoods[checked_rows]
    scores = np.array(
        [
            _log_likelihood(people_likelihoods, normalised(same_item * predictions[checked_rows]))
            for predictions in candidates
        ]
    )
    posterior = prior * np.exp(scores - scores.max())
    posterior /= posterior.sum()
    return ProgramWeight(
        weight=float(posterior @ _WEIGHTS),
        predictions=np.einsum("w,wnc->nc", posterior, np.stack(candidates)),
    )


def program_confusions(
    answers: Answers,
    is_training: np.ndarray,
    people_fit: PeopleFit,
    predictions: np.ndarray | None = None,
) -> np.ndarray:
    """Estimate the confusion matrices (J, C, C); those of people stay as they are.

    Args:
        answers: all answers.
        is_training: (n,) whether the classifier may be trained on the item.
        people_fit: the result of EM with the answers of people.
        predictions: (n, C) of the classifier, leave-one-out, which judge the accuracy together with
            people's answers. Without them it is the prior's.
    """
    is_checked = answers.is_answered_by_people
    checked_counts = answers.counts(people_fit.label_probs, is_training & is_checked)
    confusions = people_fit.confusions.copy()
    n_classes = confusions.shape[1]
    least_skill = _LEAST_SKILL
    if predictions is not None:
        # A classifier that knows nothing cannot say by the weight that a program guesses.
        least_skill = min(_LEAST_SKILL, max(contradiction_slope(predictions), 0.0))
    least_accuracy = 1.0 / n_classes + least_skill * (1.0 - 1.0 / n_classes)
    for j in np.flatnonzero(answers.is_program):
        counts = checked_counts[j]
        accuracy = _PRIOR.mean
        if predictions is not None:
            is_unchecked = (is_training & ~is_checked)[answers.row] & (answers.annotator == j)
            unchecked_accuracy, n_unchecked = _agreement(
                predictions[answers.row[is_unchecked]], answers.label[is_unchecked]
            )
            n_right = np.trace(counts) + n_unchecked * unchecked_accuracy
            accuracy = _PRIOR.mean_given(n_right, counts.sum() + n_unchecked)
        confusion = confusion_matrix(counts, max(accuracy, least_accuracy), _ROW_CONCENTRATION)
        # An answer speaks for its class, or for none: no program means another one.
        confusions[j] = np.minimum(confusion, np.diag(confusion))
    return confusions


def _agreement(predictions: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Estimate the accuracy of answers from predictions for their items.

    Right in nine of ten answers, by a classifier that is sure and right:

    >>> predictions = np.eye(2)[np.zeros(10, int)]
    >>> accuracy, n_answers = _agreement(predictions, np.array([1] + 9 * [0]))
    >>> round(accuracy, 2), n_answers
    (0.9, 10.0)

    Args:
        predictions: (n, C) of the classifier.
        labels: (n,) class numbers that the annotator answered.

    Returns:
        The accuracy, and how many checked answers it is worth.
    """
    if not len(labels):
        return 0.0, 0.0
    slope = contradiction_slope(predictions)
    agreement = float(predictions[np.arange(len(labels)), labels].mean())
    # P = b + Q and P + (C - 1) Q = 1.
    agreement_if_wrong = (1.0 - slope) / predictions.shape[1]
    accuracy = np.clip((agreement - agreement_if_wrong) / max(slope, _EPS), 0.0, 1.0)
    return float(accuracy), float(min(slope**2 * len(labels), _MAX_UNCHECKED))


def _log_likelihood(likelihoods: np.ndarray, probs: np.ndarray) -> float:
    """Compute Σ_i ln Σ_c w_ic p_ic: how well predictions p (n, C) agree with answers."""
    return float(np.log(np.maximum((likelihoods * probs).sum(axis=1), _EPS)).sum())
