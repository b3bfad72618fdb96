"""Annotators' error rates from checked answers.

An answer is *checked* if its item has a gold label, or if another person answered it too; a
program is checked by any person, a person by no program. Without checked answers an error rate is
not known.

Given the true classes, annotator j's checked answers are right or wrong, and the rate has the
posterior Beta(1 + wrong, 1 + right). The estimate is the mean over all draws of the true classes
(:mod:`parbals.learner.annotators.draws`), the interval their 5 % and 95 % quantiles. These draws
know the answers of people, the classifier's predictions and, for a program's error, its own
answers: never another program's, which may make the same mistakes. Unchecked
answers, which the classifier alone could judge, only widen it: if the classifier contradicts them
more, or less, often than the checked ones, by d on average over all answers, the interval is
extended by d / b in that direction. Here b is the difference between the contradictions of a wrong
and a right answer, which for an unsure classifier is small.
"""

import numpy as np

from parbals.learner.annotators.answers import Answers
from parbals.learner.annotators.draws import draw_errors, raters_of, thinned
from parbals.types import Estimate

__all__ = ["contradiction_slope", "error_rates"]

_UNKNOWN_ERROR = Estimate(float("nan"), 0.0, 1.0)
_MIN_SLOPE = 0.3
"""Least difference between contradictions of wrong and right answers that a shift is divided by."""


def error_rates(
    answers: Answers, group: np.ndarray, predictions: np.ndarray, label_probs: np.ndarray
) -> list[Estimate]:
    """Estimate the error rate of every annotator from checked answers.

    Args:
        answers: all answers.
        group: (J,) annotators with equal numbers do not check each other.
        predictions: (n, C) of a classifier trained on people's answers.
        label_probs: (n, C) posterior probabilities of the true class.
    """
    is_program = answers.is_program
    is_checked = answers.is_checked(group)
    slope = max(contradiction_slope(predictions), _MIN_SLOPE)
    contradicted = 1.0 - predictions[answers.row, answers.label]

    def estimates(is_rater: np.ndarray) -> dict[int, Estimate]:
        """Estimate the errors of these annotators (J,) from their own answers alone."""
        counts = is_checked & is_rater[answers.annotator]
        rows = thinned(np.unique(answers.row[counts]))
        if not len(rows):
            return {}
        raters, source = raters_of(answers, rows, predictions, is_rater)
        draws = draw_errors(raters, (source >= 0) & is_checked[source], label_probs[rows])
        errors = {}
        for j in np.flatnonzero(is_rater).tolist():
            is_from_annotator = answers.annotator == j
            checked = contradicted[is_from_annotator & is_checked]
            if len(checked):
                shift = float(contradicted[is_from_annotator].mean() - checked.mean())
                errors[j] = draws.estimate(j, shift / slope)
        return errors

    errors = estimates(~is_program)
    for j in np.flatnonzero(is_program).tolist():
        is_rater = ~is_program
        is_rater[j] = True
        errors[j] = estimates(is_rater).get(j, _UNKNOWN_ERROR)
    return [errors.get(j, _UNKNOWN_ERROR) for j in range(len(answers.names))]


def contradiction_slope(predictions: np.ndarray) -> float:
    """By how much more the classifier contradicts a wrong answer than a right one, on average.

    A calibrated classifier gives the true class the probability Σ_c p_c² in expectation, and any
    other class an equal part of the rest.
    """
    n_classes = predictions.shape[1]
    true_prob = float((predictions**2).sum(axis=1).mean())
    return (n_classes * true_prob - 1.0) / (n_classes - 1.0)
