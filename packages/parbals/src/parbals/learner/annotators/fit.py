"""Dawid–Skene with a classifier prior: one confusion matrix per annotator.

Annotator j gives answer a to an item of class c with probability π_j[c, a]: π_j is the annotator's
confusion matrix. All answers to item i together have the likelihood w_ic = Π_j π_j[c, a_ij] if its
class is c. Given the classifier's logits f_i they have the likelihood Σ_c w_ic p(c | f_i), to which
expectation propagation fits the classifier just as it does to labels. The posterior of an item's
true class is r_ic ∝ w_ic p_-i(c), where p_-i is the classifier's leave-one-out prediction; Dawid
and Skene have the class frequencies in its place. EM alternates between computing r, which includes
a fit of the classifier (E-step), and estimating each π_j from the counts Σ_i r_ic [a_ij = a]
(M-step).

*Programs* (annotators whose names start with ``machine:``) make correlated errors. The fit
therefore has three stages:

1. :func:`~parbals.learner.annotators.people.fit_on_people` runs EM with the answers of people
   alone.
2. :func:`~parbals.learner.annotators.programs.fit_program_weight` estimates the factor of the
   log-likelihoods of all programs' answers, and
   :func:`~parbals.learner.annotators.programs.program_confusions` each one's confusion matrix.
3. :func:`fit_annotators` combines all answers.

So programs have hardly any effect on the classifier once people have contradicted them often
enough, and their answers are no gold labels before.

People who make the same mistakes count as one
(:mod:`parbals.learner.annotators.same_mistakes`), and the error rates that are reported come from
checked answers alone (:mod:`parbals.learner.annotators.error_rates`). The confusion matrices above
serve to weight answers; nobody is shown them as a measured error.

Audit items are not counted in the confusion matrices, because the classifier must not depend on
them. They are counted in the error rates that are reported. Labels without an annotator are treated
as gold, that is, as certainly right.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers
from parbals.learner.annotators.error_rates import error_rates
from parbals.learner.annotators.people import (
    LeaveOneOutPredict,
    fit_on_people,
    normalised,
)
from parbals.learner.annotators.programs import (
    ProgramWeight,
    fit_program_weight,
    program_confusions,
)
from parbals.learner.annotators.same_mistakes import groups_with_same_mistakes
from parbals.types import Estimate

__all__ = ["Annotator", "AnnotatorFit", "fit_annotators"]


class Annotator(NamedTuple):
    """An annotator's estimated error rate and confusion matrix.

    Attributes:
        name: the annotator's name.
        n_answers: number of answers, audit items included.
        error: share of wrong answers, with a 90 % interval; not known (``error.known`` is False)
            without checked answers.
        confusion: (C, C) probability of each answer (column) given the true class (row).
        n_checked: number of answers whose items have a gold label or another person's answer.
        same_mistakes_as: annotators with whom this one counts as one.
    """

    name: str
    n_answers: int
    error: Estimate
    confusion: np.ndarray
    n_checked: int = 0
    same_mistakes_as: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AnnotatorFit:
    """Fitted annotators, and the consensus of their answers to n items, by ascending position.

    Attributes:
        answers: all answers.
        confusions: (J, C, C) confusion matrices of the annotators.
        group: (J,) annotators with equal numbers count as one: they make the same mistakes.
        predictions: (n, C) leave-one-out predictions of a classifier trained on people's answers.
        likelihoods: (n, C) likelihoods w of the answers given each class, scaled so that the
            largest for each item is 1.
        label_probs: (n, C) posterior probabilities r of the true class. For audit items they
            combine the answers alone, without the classifier's predictions.
        program_weight: factor of the log-likelihoods of programs' answers; 1 without programs.
    """

    answers: Answers
    confusions: np.ndarray
    group: np.ndarray
    predictions: np.ndarray
    likelihoods: np.ndarray
    label_probs: np.ndarray
    program_weight: float

    @cached_property
    def decisiveness(self) -> np.ndarray:
        """Largest probability (n,) that the answers to an item give to a class, by themselves.

        Programs' answers count fully here: how far they are to be believed is one question, how
        much they are to weigh beside others another.
        """
        likelihoods = self.answers.likelihoods(self.confusions)
        return np.asarray(likelihoods.max(axis=1) / likelihoods.sum(axis=1))

    @cached_property
    def annotators(self) -> tuple[Annotator, ...]:
        """One for each name, in alphabetical order."""
        names = self.answers.names
        errors = error_rates(self.answers, self.group, self.predictions, self.label_probs)
        is_checked = self.answers.is_checked(self.group)
        annotators = []
        for j, name in enumerate(names):
            is_from_annotator = self.answers.annotator == j
            others = np.flatnonzero(self.group == self.group[j])
            annotator = Annotator(
                name=name,
                n_answers=int(is_from_annotator.sum()),
                error=errors[j],
                confusion=self.confusions[j],
                n_checked=int((is_from_annotator & is_checked).sum()),
                same_mistakes_as=tuple(names[k] for k in others.tolist() if k != j),
            )
            annotators.append(annotator)
        return tuple(annotators)


def fit_annotators(
    answers: Answers,
    n_classes: int,
    is_training: np.ndarray,
    predict: LeaveOneOutPredict,
) -> AnnotatorFit:
    """Estimate every annotator's confusion matrix, and aggregate their answers.

    Two annotators, and a classifier that predicts 0.5 throughout:

    >>> answers = Answers.from_items({0: {"ada": 0, "bob": 0}, 1: {"ada": 1}}, np.arange(2))
    >>> fit = fit_annotators(answers, 2, np.ones(2, bool), lambda rows, w: np.full((2, 2), 0.5))
    >>> fit.label_probs.argmax(axis=1)
    array([0, 1])

    Args:
        answers: all answers to n items.
        n_classes: C.
        is_training: (n,) whether the classifier may be trained on the item: not on audit items.
        predict: trains the classifier and returns its leave-one-out predictions.
    """
    people_fit = fit_on_people(answers, n_classes, is_training, predict)
    group = groups_with_same_mistakes(answers, is_training, people_fit)
    if len(np.unique(group)) < len(group):
        answers = answers.counted_once(group)
        people_fit = fit_on_people(answers, n_classes, is_training, predict)
    is_program = answers.is_program
    confusions = people_fit.confusions
    selection = ProgramWeight(1.0, people_fit.predictions)
    if is_program.any():
        answers = answers.with_programs_as_one()
        selection = fit_program_weight(answers, is_training, people_fit, predict)
        confusions = program_confusions(answers, is_training, people_fit, selection.predictions)
    weights = np.where(is_program, selection.weight, 1.0)
    likelihoods = answers.likelihoods(confusions, weights)
    # Audit items are aggregated from the answers alone.
    predictions = np.where(is_training[:, None], selection.predictions, 1.0)
    return AnnotatorFit(
        answers=answers,
        confusions=confusions,
        group=group,
        predictions=people_fit.predictions,
        likelihoods=likelihoods,
        label_probs=normalised(likelihoods * predictions),
        program_weight=selection.weight,
    )
