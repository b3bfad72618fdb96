"""Dawid–Skene with a classifier prior: one confusion matrix per annotator.

Annotator j gives answer a to an item of class c with probability π_j[c, a]: π_j is the annotator's
confusion matrix. All answers to item i together have the likelihood w_ic = Π_j π_j[c, a_ij] if its
class is c. Given the classifier's logits f_i they have the likelihood Σ_c w_ic p(c | f_i), to which
expectation propagation fits the classifier just as it does to labels. The posterior of an item's
true class is r_ic ∝ w_ic p_-i(c), where p_-i is the classifier's leave-one-out prediction; Dawid
and Skene have the class frequencies in its place. EM alternates between computing r, which includes
a fit of the classifier (E-step), and estimating each π_j from the counts Σ_i r_ic [a_ij = a]
(M-step).

*Few answers.* Each row of a confusion matrix has a Dirichlet prior that is worth 8 answers. On the
diagonal, the prior mean is the annotator's overall accuracy. The rest of the row is divided among
the wrong classes by how often the annotator names each of them by mistake, whatever the true class.
The overall accuracy is estimated with a prior of 9 correct answers in 10. So the first answers
estimate hardly more than one number per annotator; a full matrix takes hundreds of answers.

*Programs* (annotators whose names start with ``machine:``) make correlated errors: similar items
get the same wrong answer, and a classifier trained on these answers would find them right. The fit
therefore has three stages:

1. :func:`_fit_on_people` runs EM with the answers of people alone. Its r then serve to estimate the
   confusion matrix of each program. The answers that are *checked*, because a person has answered
   the same item, count most: for the others r is the classifier's prediction alone. That may be
   wrong if people were asked about unusual items, which then trained the classifier.
2. :func:`_select_program_weight` multiplies the log-likelihoods of all programs' answers by a
   weight, 1, 0.3 or 0: the one with which the classifier best predicts people's answers,
   leave-one-out. The weight is 0 only if that is clearly better.
3. :func:`_aggregate` combines all answers with that weight.

So programs have no effect on the classifier once people have contradicted them often enough. If no
person has answered any item, programs are treated as people.

Annotators who make the same mistakes count as one, and the error rates that are reported come from
checked answers alone: see :mod:`parbals.learner.annotator_errors`. The confusion matrices above
serve to weight answers; nobody is shown them as a measured error.

Audit items are not counted in the confusion matrices, because the classifier must not depend on
them. They are counted in the error rates that are reported. Labels without an annotator are treated
as gold, that is, as certainly right.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parbals.learner.annotator_errors import (
    UNKNOWN_ERROR,
    PairCounts,
    Raters,
    doubtful_start,
    draw_errors,
)
from parbals.types import Estimate
from parbals.wording import PROGRAM_PREFIX

__all__ = [
    "Annotator",
    "AnnotatorFit",
    "Answers",
    "AnswersByItem",
    "confusion_matrix",
    "fit_annotators",
]

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
_PROGRAM_WEIGHTS = (1.0, 0.3)
"""Candidate weights of programs' answers, besides 0."""
_MIN_GAIN_OF_ZERO_WEIGHT = 0.5
"""Weight 0 must predict n answers of people better by this times √n nats: more than by chance."""
_MIN_SLOPE = 0.3
"""Least difference between contradictions of wrong and right answers that a shift is divided by."""
_MAX_ITEMS = 2_000
"""Number of items from which error rates are estimated."""
_EPS = 1e-12
"""Guards divisions and logarithms."""

AnswersByItem = Mapping[int, Mapping[str | None, int]]
"""Position → {annotator: class number}; the key None is a gold label."""

LeaveOneOutPredict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(rows (k,), likelihoods (k, C)) → predictions (n, C) of a classifier that is trained on ``rows``.

``rows`` are indices among the n labelled items. The prediction for an item that the classifier was
trained on is made without the answers to that item.
"""


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
    """

    answers: "Answers"
    confusions: np.ndarray
    group: np.ndarray
    predictions: np.ndarray
    likelihoods: np.ndarray
    label_probs: np.ndarray

    @cached_property
    def annotators(self) -> tuple[Annotator, ...]:
        """One for each name, in alphabetical order."""
        names = self.answers.names
        errors = _error_rates(self.answers, self.group, self.predictions, self.label_probs)
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


class Answers(NamedTuple):
    """All m answers to n items, in columns.

    >>> answers = Answers.from_items({4: {"ada": 1, "bob": 0}, 7: {None: 1}}, np.array([4, 7]))
    >>> answers.names, answers.annotator.tolist(), answers.label.tolist(), answers.gold.tolist()
    (('ada', 'bob'), [0, 1], [1, 0], [-1, 1])

    Attributes:
        names: of the J annotators, in alphabetical order.
        annotator: (m,) index of the annotator in ``names``.
        row: (m,) index of the item.
        label: (m,) class number that the annotator answered.
        gold: (n,) gold label of each item, or -1.
        share: (m,) weight of each answer: one over the number of annotators who count as one with
            this one and answered the item too, itself included.
    """

    names: tuple[str, ...]
    annotator: np.ndarray
    row: np.ndarray
    label: np.ndarray
    gold: np.ndarray
    share: np.ndarray

    @classmethod
    def from_items(cls, answers_by_item: AnswersByItem, positions: np.ndarray) -> "Answers":
        """Collect the answers to labelled positions (n,), ascending."""
        named_answers = []  # (annotator, row, label)
        gold = []
        for row, position in enumerate(positions.tolist()):
            labels = answers_by_item[position]
            gold.append(labels.get(None, -1))
            named_answers += [(name, row, labels[name]) for name in sorted(filter(None, labels))]
        names = tuple(sorted({name for name, _, _ in named_answers}))
        return cls(
            names=names,
            annotator=np.array([names.index(name) for name, _, _ in named_answers], int),
            row=np.array([row for _, row, _ in named_answers], int),
            label=np.array([label for _, _, label in named_answers], int),
            gold=np.array(gold, int),
            share=np.ones(len(named_answers)),
        )

    @property
    def is_program(self) -> np.ndarray:
        """Whether each annotator (J,) is a program."""
        return np.array([name.startswith(PROGRAM_PREFIX) for name in self.names], bool)

    def is_checked(self, group: np.ndarray) -> np.ndarray:
        """Whether each answer (m,) has a gold label or another person's answer beside it.

        Annotators with the same number in ``group`` (J,) do not check each other.
        """
        is_person = ~self.is_program[self.annotator]
        row_and_group = np.column_stack([self.row, group[self.annotator]])[is_person]
        rows = np.unique(row_and_group, axis=0)[:, 0]
        n_people = np.bincount(rows, minlength=len(self.gold))
        return (self.gold[self.row] >= 0) | (n_people[self.row] > is_person)

    def counted_once(self, group: np.ndarray) -> "Answers":
        """Divide the weight of an item's answers by the number from the same ``group`` (J,)."""
        n_groups = group.max(initial=0) + 1
        key = self.row * n_groups + group[self.annotator]
        return self._replace(share=1.0 / np.bincount(key)[key])

    def likelihoods(self, confusions: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
        """Compute w (n, C), the likelihood of each item's answers given each class.

        Each row is divided by its largest entry; a gold label makes it one-hot.

        Args:
            confusions: (J, C, C) confusion matrices.
            weights: (J,) factor of each annotator's log-likelihoods; 0 ignores the annotator.
        """
        log_likelihoods = np.zeros((len(self.gold), confusions.shape[1]))
        weight = (self.share * np.broadcast_to(weights, len(self.names))[self.annotator])[:, None]
        log_confusion = np.log(confusions[self.annotator, :, self.label])
        np.add.at(log_likelihoods, self.row, weight * log_confusion)
        likelihoods = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
        has_gold = self.gold >= 0
        likelihoods[has_gold] = np.eye(likelihoods.shape[1])[self.gold[has_gold]]
        return likelihoods

    def counts(self, label_probs: np.ndarray, is_counted: np.ndarray) -> np.ndarray:
        """Count answers (J, C, C) by annotator, true class and answered class, in expectation.

        Args:
            label_probs: (n, C) posterior probabilities of the true class.
            is_counted: (n,) whether answers to the item are counted.
        """
        n_classes = label_probs.shape[1]
        counted = is_counted[self.row]
        counts = np.zeros((len(self.names), n_classes, n_classes))
        by_answer = counts.transpose(0, 2, 1)  # a view: annotator, answered class, true class
        index = (self.annotator[counted], self.label[counted])
        np.add.at(by_answer, index, label_probs[self.row[counted]])
        return counts


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
    is_program = answers.is_program
    is_checked = _answered_by_people(answers, is_program)
    if not (is_training & is_checked).any():
        # No person has answered: treat programs as people.
        is_program = np.zeros_like(is_program)
        is_checked = is_training
    people_fit = _fit_on_people(answers, n_classes, is_training, is_checked, is_program, predict)
    group = _groups_with_same_mistakes(answers, is_training, people_fit)
    if len(np.unique(group)) < len(group):
        answers = answers.counted_once(group)
        people_fit = _fit_on_people(
            answers, n_classes, is_training, is_checked, is_program, predict
        )
    if is_program.any():
        selection = _select_program_weight(
            answers, is_training, is_checked, is_program, people_fit, predict
        )
    else:
        selection = _ProgramWeight(1.0, people_fit.predictions)
    weights = np.where(is_program, selection.weight, 1.0)
    likelihoods = answers.likelihoods(people_fit.confusions, weights)
    # Audit items are aggregated from the answers alone.
    predictions = np.where(is_training[:, None], selection.predictions, 1.0)
    return AnnotatorFit(
        answers=answers,
        confusions=people_fit.confusions,
        group=group,
        predictions=people_fit.predictions,
        likelihoods=likelihoods,
        label_probs=_normalised(likelihoods * predictions),
    )


class _PeopleFit(NamedTuple):
    """Result of EM with the answers of people alone.

    Attributes:
        confusions: (J, C, C) of all annotators, programs included.
        likelihoods: (n, C) of people's answers.
        predictions: (n, C) leave-one-out predictions of the classifier.
        label_probs: (n, C) posterior probabilities of the true class.
        unchecked_weights: (J,) weight, in the counts, of each annotator's unchecked answers.
    """

    confusions: np.ndarray
    likelihoods: np.ndarray
    predictions: np.ndarray
    label_probs: np.ndarray
    unchecked_weights: np.ndarray


class _ProgramWeight(NamedTuple):
    """The weight of programs' answers, and leave-one-out predictions (n, C) with that weight."""

    weight: float
    predictions: np.ndarray


def _answered_by_people(answers: Answers, is_program: np.ndarray) -> np.ndarray:
    """Return whether each item (n,) was answered by a person or has a gold label."""
    is_answered = answers.gold >= 0
    is_answered[answers.row[~is_program[answers.annotator]]] = True
    return is_answered


def _fit_on_people(
    answers: Answers,
    n_classes: int,
    is_training: np.ndarray,
    is_checked: np.ndarray,
    is_program: np.ndarray,
    predict: LeaveOneOutPredict,
) -> _PeopleFit:
    """Run EM with the answers of people alone; estimate programs' confusion matrices as well."""
    rows = np.flatnonzero(is_training & is_checked)
    initial = confusion_matrix(np.zeros((n_classes, n_classes)))
    confusions = np.stack([initial] * len(answers.names))
    for _ in range(_MAX_EM_ROUNDS):
        # E-step.
        likelihoods = answers.likelihoods(confusions, ~is_program)
        predictions = predict(rows, likelihoods[rows])
        label_probs = _normalised(likelihoods * predictions)
        # M-step.
        checked_counts = answers.counts(label_probs, is_training & is_checked)
        unchecked_counts = answers.counts(label_probs, is_training & ~is_checked)
        unchecked_weights = _unchecked_weights(checked_counts, unchecked_counts)
        counts = checked_counts + unchecked_weights[:, None, None] * unchecked_counts
        previous = confusions
        confusions = np.stack([confusion_matrix(annotator_counts) for annotator_counts in counts])
        if np.abs(confusions - previous)[~is_program].max(initial=0.0) < _EM_TOLERANCE:
            break
    return _PeopleFit(confusions, likelihoods, predictions, label_probs, unchecked_weights)


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


def _select_program_weight(
    answers: Answers,
    is_training: np.ndarray,
    is_checked: np.ndarray,
    is_program: np.ndarray,
    people_fit: _PeopleFit,
    predict: LeaveOneOutPredict,
) -> _ProgramWeight:
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
        given_programs = _normalised(program_likelihoods * predictions[checked_rows])
        return _log_likelihood(people_likelihoods, given_programs)

    best = _ProgramWeight(0.0, people_fit.predictions)
    best_score = score(best.predictions) - _MIN_GAIN_OF_ZERO_WEIGHT * np.sqrt(len(checked_rows))
    for weight in _PROGRAM_WEIGHTS:
        weights = np.where(is_program, weight, 1.0)
        likelihoods = answers.likelihoods(people_fit.confusions, weights)
        predictions = predict(training_rows, likelihoods[training_rows])
        weight_score = score(predictions)
        if weight_score >= best_score:
            best = _ProgramWeight(weight, predictions)
            best_score = weight_score
    return best


def _log_likelihood(likelihoods: np.ndarray, probs: np.ndarray) -> float:
    """Compute Σ_i ln Σ_c w_ic p_ic: how well predictions p (n, C) agree with answers."""
    return float(np.log(np.maximum((likelihoods * probs).sum(axis=1), _EPS)).sum())


def _normalised(values: np.ndarray) -> np.ndarray:
    """Divide each row (n, C) by its sum."""
    return values / np.maximum(values.sum(axis=1, keepdims=True), _EPS)


def _raters(
    answers: Answers, rows: np.ndarray, predictions: np.ndarray, is_member: np.ndarray
) -> tuple[Raters, np.ndarray]:
    """Return the answers to some rows, the classifier's among them, and where each came from.

    The classifier is two raters, J and J + 1: its less and its more confident half.

    Args:
        answers: all answers.
        rows: of the items, ascending.
        predictions: (n, C) of the classifier.
        is_member: (J,) whether the annotator is a rater.

    Returns:
        The raters, and the index (m,) of each answer in ``answers``, -1 for the classifier's.
    """
    source = np.flatnonzero(np.isin(answers.row, rows) & is_member[answers.annotator])
    confidence = predictions[rows].max(axis=1)
    is_confident = confidence > np.median(confidence)
    n_annotators = len(answers.names)
    rater = np.append(answers.annotator[source], n_annotators + is_confident)
    row = np.append(np.searchsorted(rows, answers.row[source]), np.arange(len(rows)))
    label = np.append(answers.label[source], predictions[rows].argmax(axis=1))
    share = np.append(answers.share[source], np.ones(len(rows)))
    order = np.argsort(row, kind="stable")
    raters = Raters(
        rater=rater[order],
        row=row[order],
        label=label[order],
        share=share[order],
        gold=answers.gold[rows],
        is_person=np.append(~answers.is_program, [False, False]),
    )
    return raters, np.append(source, np.full(len(rows), -1))[order]


def _error_rates(
    answers: Answers, group: np.ndarray, predictions: np.ndarray, label_probs: np.ndarray
) -> list[Estimate]:
    """Estimate the error rate of every annotator from checked answers.

    Args:
        answers: all answers.
        group: (J,) annotators with equal numbers do not check each other.
        predictions: (n, C) of a classifier trained on people's answers.
        label_probs: (n, C) posterior probabilities of the true class.
    """
    is_checked = answers.is_checked(group)
    rows = _thinned(np.unique(answers.row[is_checked]))
    if not len(rows):
        return [UNKNOWN_ERROR] * len(answers.names)
    raters, source = _raters(answers, rows, predictions, np.ones(len(answers.names), bool))
    counts = (source >= 0) & is_checked[source]
    draws = draw_errors(raters, counts, label_probs[rows])
    contradicted = 1.0 - predictions[answers.row, answers.label]
    slope = max(_contradiction_slope(predictions), _MIN_SLOPE)
    errors = []
    for j in range(len(answers.names)):
        is_from_annotator = answers.annotator == j
        checked = contradicted[is_from_annotator & is_checked]
        if not len(checked):
            errors.append(UNKNOWN_ERROR)
            continue
        shift = float(contradicted[is_from_annotator].mean() - checked.mean())
        errors.append(draws.estimate(j, shift / slope))
    return errors


def _contradiction_slope(predictions: np.ndarray) -> float:
    """By how much more the classifier contradicts a wrong answer than a right one, on average.

    A calibrated classifier gives the true class the probability Σ_c p_c² in expectation, and any
    other class an equal part of the rest.
    """
    n_classes = predictions.shape[1]
    true_prob = float((predictions**2).sum(axis=1).mean())
    return (n_classes * true_prob - 1.0) / (n_classes - 1.0)


def _groups_with_same_mistakes(
    answers: Answers, is_training: np.ndarray, people_fit: _PeopleFit
) -> np.ndarray:
    """Number (J,) the annotators so that those who make the same mistakes have one number."""
    n_annotators = len(answers.names)
    group = np.arange(n_annotators)
    everybody = np.ones(n_annotators, bool)
    rows = _thinned(np.flatnonzero(is_training))
    raters, _ = _raters(answers, rows, people_fit.predictions, everybody)
    pairs = PairCounts.of(raters, n_annotators)
    suspects = pairs.suspects(~answers.is_program)
    suspects = [members for members in suspects if pairs.has_outside_rater(members)]
    if not suspects:
        return group
    is_member = everybody.copy()
    for members in suspects:
        is_member[members[1:]] = False
    raters, _ = _raters(answers, rows, people_fit.predictions, is_member)
    first_members = [members[0] for members in suspects]
    start_probs = doubtful_start(raters, people_fit.predictions.shape[1], first_members)
    draws = draw_errors(raters, np.ones(len(raters.row), bool), start_probs)
    for first, *others in suspects:
        for other in others:
            if pairs.is_improbable((first, other), draws):
                group[other] = first
    return group


def _thinned(rows: np.ndarray) -> np.ndarray:
    """At most ``_MAX_ITEMS`` rows, drawn at random: enough for an error rate."""
    if len(rows) <= _MAX_ITEMS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, _MAX_ITEMS, replace=False))
