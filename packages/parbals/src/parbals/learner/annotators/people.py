"""EM with the answers of people alone: confusion matrices, and leave-one-out predictions.

*Few answers.* Each row of a confusion matrix has a Dirichlet prior that is worth 8 answers. On the
diagonal, the prior mean is the annotator's overall accuracy. The rest of the row is divided among
the wrong classes by how often the annotator names each of them by mistake, whatever the true class.
The overall accuracy is estimated with a prior of 9 correct answers in 10. So the first answers
estimate hardly more than one number per annotator; a full matrix takes hundreds of answers.

*Programs* have a confusion matrix, too, but no effect on the others'. Their answers that are
*checked*, because a person has answered the same item, count most: for the others the true class is
the classifier's prediction alone. That may be wrong if people were asked about unusual items, which
then trained the classifier.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers

__all__ = ["LeaveOneOutPredict", "PeopleFit", "confusion_matrix", "fit_on_people", "normalised"]

_PRIOR_ACCURACY = 0.9
_PRIOR_ANSWERS = 10.0
"""Number of answers that the prior accuracy is worth."""
_DIRICHLET_CONCENTRATION = 8.0
"""Number of answers that the prior of a row of a confusion matrix is worth."""
_MAX_EM_ROUNDS = 5
_EM_TOLERANCE = 0.02
"""EM stops when no entry of a person's confusion matrix has changed by as much."""
_ENOUGH_CHECKED_ANSWERS = 20.0
"""With so many checked answers, a program's unchecked ones are ignored if they tell otherwise."""
_EPS = 1e-12
"""Guards divisions and logarithms."""

LeaveOneOutPredict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(rows (k,), likelihoods (k, C)) → predictions (n, C) of a classifier that is trained on ``rows``.

``rows`` are indices among the n labelled items. The prediction for an item that the classifier was
trained on is made without the answers to that item.
"""


class PeopleFit(NamedTuple):
    """Result of EM with the answers of people alone.

    Attributes:
        confusions: (J, C, C) of all annotators, programs included.
        likelihoods: (n, C) of people's answers.
        predictions: (n, C) leave-one-out predictions of the classifier.
        label_probs: (n, C) posterior probabilities of the true class.
    """

    confusions: np.ndarray
    likelihoods: np.ndarray
    predictions: np.ndarray
    label_probs: np.ndarray


def fit_on_people(
    answers: Answers,
    n_classes: int,
    is_training: np.ndarray,
    is_checked: np.ndarray,
    is_program: np.ndarray,
    predict: LeaveOneOutPredict,
) -> PeopleFit:
    """Run EM with the answers of people alone; estimate programs' confusion matrices as well."""
    rows = np.flatnonzero(is_training & is_checked)
    initial = confusion_matrix(np.zeros((n_classes, n_classes)))
    confusions = np.stack([initial] * len(answers.names))
    for _ in range(_MAX_EM_ROUNDS):
        # E-step.
        likelihoods = answers.likelihoods(confusions, ~is_program)
        predictions = predict(rows, likelihoods[rows])
        label_probs = normalised(likelihoods * predictions)
        # M-step.
        checked_counts = answers.counts(label_probs, is_training & is_checked)
        unchecked_counts = answers.counts(label_probs, is_training & ~is_checked)
        unchecked_weights = _unchecked_weights(checked_counts, unchecked_counts)
        counts = checked_counts + unchecked_weights[:, None, None] * unchecked_counts
        previous = confusions
        confusions = np.stack([confusion_matrix(annotator_counts) for annotator_counts in counts])
        if np.abs(confusions - previous)[~is_program].max(initial=0.0) < _EM_TOLERANCE:
            break
    return PeopleFit(confusions, likelihoods, predictions, label_probs)


def confusion_matrix(counts: np.ndarray) -> np.ndarray:
    """Estimate π (C, C) as the posterior mean under a Dirichlet prior for each row.

    >>> confusion_matrix(np.zeros((2, 2)))
    array([[0.9, 0.1],
           [0.1, 0.9]])

    Args:
        counts: (C, C) answers by true class and answered class; zeros for a new annotator.
    """
    n_classes = len(counts)
    n_correct = np.trace(counts)
    accuracy = (_PRIOR_ACCURACY * _PRIOR_ANSWERS + n_correct) / (_PRIOR_ANSWERS + counts.sum())
    off_diagonal = 1.0 - np.eye(n_classes)
    # Mistakes by answered class, plus one for each: assumed to be alike for every true class.
    mistakes = off_diagonal * (1.0 + (off_diagonal * counts).sum(axis=0))
    off_diagonal_mean = (1.0 - accuracy) * mistakes / mistakes.sum(axis=1, keepdims=True)
    prior_mean = accuracy * np.eye(n_classes) + off_diagonal_mean
    n_by_true_class = counts.sum(axis=1, keepdims=True)
    return (_DIRICHLET_CONCENTRATION * prior_mean + counts) / (
        _DIRICHLET_CONCENTRATION + n_by_true_class
    )


def _unchecked_weights(checked_counts: np.ndarray, unchecked_counts: np.ndarray) -> np.ndarray:
    """Compute the weight (J,) of each annotator's answers that no person has checked.

    The weight is 1 if an annotator's unchecked answers are about as accurate, judged by the
    classifier, as the checked ones, judged by people. Otherwise people are believed: together the
    unchecked answers count as many as the checked ones fall short of ``_ENOUGH_CHECKED_ANSWERS``.

    Args:
        checked_counts, unchecked_counts: (J, C, C) answers by true class and answered class.
    """
    n_checked = checked_counts.sum(axis=(1, 2))
    n_unchecked = np.maximum(unchecked_counts.sum(axis=(1, 2)), _EPS)
    checked_correct = checked_counts.trace(axis1=1, axis2=2)
    unchecked_accuracy = unchecked_counts.trace(axis1=1, axis2=2) / n_unchecked
    # Mean and standard deviation of the accuracy's beta posterior, with a uniform prior.
    mean = (checked_correct + 1.0) / (n_checked + 2.0)
    deviation = np.sqrt(mean * (1.0 - mean) / (n_checked + 3.0))
    agrees = np.abs(mean - unchecked_accuracy) < 2.0 * deviation
    n_missing = np.maximum(_ENOUGH_CHECKED_ANSWERS - n_checked, 0.0)
    return np.where(agrees, 1.0, np.minimum(1.0, n_missing / n_unchecked))


def normalised(values: np.ndarray) -> np.ndarray:
    """Divide each row (n, C) by its sum."""
    return values / np.maximum(values.sum(axis=1, keepdims=True), _EPS)
