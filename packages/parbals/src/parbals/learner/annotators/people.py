"""EM with the answers of people alone: confusion matrices, and leave-one-out predictions.

*Few answers.* Each row of a confusion matrix has a Dirichlet prior that is worth 8 answers. On the
diagonal, the prior mean is the annotator's overall accuracy. The rest of the row is divided among
the wrong classes by how often the annotator names each of them by mistake, whatever the true class.
The overall accuracy is estimated with a prior of 9 correct answers in 10. So the first answers
estimate hardly more than one number per annotator; a full matrix takes hundreds of answers.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers

__all__ = [
    "AccuracyPrior",
    "LeaveOneOutPredict",
    "PeopleFit",
    "confusion_matrix",
    "fit_on_people",
    "normalised",
]

_ROW_CONCENTRATION = 8.0
"""Number of answers that the prior of a row of a confusion matrix is worth."""
_MAX_EM_ROUNDS = 5
_EM_TOLERANCE = 0.02
"""EM stops when no entry of a person's confusion matrix has changed by as much."""
_EPS = 1e-12
"""Guards divisions and logarithms."""

LeaveOneOutPredict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(rows (k,), likelihoods (k, C)) → predictions (n, C) of a classifier that is trained on ``rows``.

``rows`` are indices among the n labelled items. The prediction for an item that the classifier was
trained on is made without the answers to that item.
"""


class AccuracyPrior(NamedTuple):
    """Beta prior of an annotator's accuracy: its mean, and the number of answers it is worth."""

    mean: float
    n_answers: float

    def mean_given(self, n_correct: float, n_answers: float) -> float:
        """Posterior mean after ``n_correct`` right answers of ``n_answers``."""
        return (self.mean * self.n_answers + n_correct) / (self.n_answers + n_answers)


_PRIOR_OF_PEOPLE = AccuracyPrior(0.9, 10.0)
"""Prior of a person's accuracy."""


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
    predict: LeaveOneOutPredict,
) -> PeopleFit:
    """Run EM with the answers of people alone; programs keep the prior's confusion matrix."""
    is_counted = is_training & answers.is_answered_by_people
    rows = np.flatnonzero(is_counted)
    initial = confusion_matrix(np.zeros((n_classes, n_classes)))
    confusions = np.stack([initial] * len(answers.names))
    if not len(rows):
        unknown = np.full((len(answers.gold), n_classes), 1.0 / n_classes)
        return PeopleFit(confusions, np.ones_like(unknown), unknown, unknown)
    is_person = ~answers.is_program
    for _ in range(_MAX_EM_ROUNDS):
        # E-step.
        likelihoods = answers.likelihoods(confusions, is_person)
        predictions = predict(rows, likelihoods[rows])
        label_probs = normalised(likelihoods * predictions)
        # M-step.
        counts = answers.counts(label_probs, is_counted)
        previous = confusions
        confusions = previous.copy()
        for j in np.flatnonzero(is_person):
            confusions[j] = confusion_matrix(counts[j])
        if np.abs(confusions - previous).max(initial=0.0) < _EM_TOLERANCE:
            break
    return PeopleFit(confusions, likelihoods, predictions, label_probs)


def confusion_matrix(
    counts: np.ndarray,
    accuracy: float | None = None,
    row_concentration: float = _ROW_CONCENTRATION,
) -> np.ndarray:
    """Estimate π (C, C) as the posterior mean under a Dirichlet prior for each row.

    >>> confusion_matrix(np.zeros((2, 2)))
    array([[0.9, 0.1],
           [0.1, 0.9]])

    Args:
        counts: (C, C) answers by true class and answered class; zeros for a new annotator.
        accuracy: the overall accuracy; by default a person's, given these answers.
        row_concentration: number of answers that the prior of a row is worth.
    """
    n_classes = len(counts)
    if accuracy is None:
        accuracy = _PRIOR_OF_PEOPLE.mean_given(np.trace(counts), counts.sum())
    off_diagonal = 1.0 - np.eye(n_classes)
    # Mistakes by answered class, plus one for each: assumed to be alike for every true class.
    mistakes = off_diagonal * (1.0 + (off_diagonal * counts).sum(axis=0))
    off_diagonal_mean = (1.0 - accuracy) * mistakes / mistakes.sum(axis=1, keepdims=True)
    prior_mean = accuracy * np.eye(n_classes) + off_diagonal_mean
    n_by_true_class = counts.sum(axis=1, keepdims=True)
    return (row_concentration * prior_mean + counts) / (row_concentration + n_by_true_class)


def normalised(values: np.ndarray) -> np.ndarray:
    """Divide each row (n, C) by its sum."""
    return values / np.maximum(values.sum(axis=1, keepdims=True), _EPS)
