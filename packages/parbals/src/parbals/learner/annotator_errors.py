"""Annotators' error rates from checked answers, and annotators who make the same mistakes.

An answer is *checked* if its item has a gold label, or if another person answered it too; a
program is checked by any person, a person by no program. Without checked answers an error rate is
not known.

*Who is right* where answers differ is itself uncertain, and an interval has to say so. The true
classes z of all checked items and the confusion matrices of all raters are therefore drawn from
their joint posterior by Gibbs sampling, under Dawid and Skene's model. The raters are the
annotators and, as one more annotator, the classifier's leave-one-out predictions: how far it can be
trusted is learnt from the answers like everybody's accuracy, which is uniform beforehand. A
person's is Beta(4, 1): people are believed to be right more often than not, which tells the truth
from its opposite.

*Label switching.* Answers that explain each other do so with the classes exchanged, too: everybody
is wrong, and an adversary right. A chain does not leave such a mode once it is in it. So chains
start at people's votes where nothing else is known, and only those count whose answers and
accuracies are together nearly as likely as those of the best.

*The error rate.* Given z, annotator j's checked answers are right or wrong, and the rate has the
posterior Beta(1 + wrong, 1 + right). The estimate is the mean over all draws of z, the interval
their 5 % and 95 % quantiles. Unchecked answers, which the classifier alone could judge, only widen
it: if the classifier contradicts them more, or less, often than the checked ones, by d on average
over all answers, the interval is extended by d / b in that direction. Here b is the difference
between the contradictions of a wrong and a right answer, which for an unsure classifier is small.

*Same mistakes.* Two annotators who are often right agree often. Two who agree although they are
often wrong are not independent: copies of one program, or a person who copies another. One of each
group that seldom disagrees takes part in the sampling. If its posterior error rate e is such that
independent annotators would have disagreed on far more of the n items than they did, the group
counts as one annotator: the probability of so few disagreements, Binomial(n, 2 e (1 - e)), averaged
over a chain, is below 0.001, and they are less than a third of those expected. Half of the chains
start where the group is right, and all have to find it that explain the answers about as well as
the best. It also needs an annotator outside the group who answered the same items: a team that
agrees throughout may simply be right.
"""

from typing import NamedTuple

import numpy as np

from parbals.types import Estimate

__all__ = ["UNKNOWN_ERROR", "ErrorDraws", "PairCounts", "Raters", "doubtful_start", "draw_errors"]

UNKNOWN_ERROR = Estimate(float("nan"), 0.0, 1.0)
_PERSON_PRIOR = (4.0, 1.0)
"""Beta prior of a person's accuracy in judging who is right; of other raters it is uniform."""
_ROW_CONCENTRATION = 8.0
"""Number of answers that the prior of a row of a confusion matrix is worth."""
_N_CHAINS = 8
_N_WARM_UP = 50
_N_SWEEPS = 100
_MIN_SHARED = 8
_MAX_DISAGREEMENT = 0.15
"""Share of different answers above which a pair is not suspected of being copies."""
_MAX_COPY_PROBABILITY = 1e-3
_MAX_SHARE_OF_EXPECTED = 1.0 / 3.0
_MAX_NATS_BEHIND = 3.0
"""A chain whose mean log-likelihood is further behind the best is stuck in a worse explanation."""


class Raters(NamedTuple):
    """m answers of J raters to n items, sorted by item; every item has an answer.

    Attributes:
        rater: (m,) index of the rater.
        row: (m,) index of the item, ascending.
        label: (m,) class number.
        share: (m,) weight of each answer, below 1 where several raters count as one.
        gold: (n,) gold label of each item, or -1.
        is_person: (J,) whether the rater is a person.
    """

    rater: np.ndarray
    row: np.ndarray
    label: np.ndarray
    share: np.ndarray
    gold: np.ndarray
    is_person: np.ndarray


class ErrorDraws(NamedTuple):
    """Draws from the posterior, for J raters.

    Attributes:
        rates: (K, J) error rates.
        shares: (K, J) shares of wrong answers among the checked ones; NaN without any.
        log_likelihoods: (K,) of all answers, given the confusion matrices.
        log_priors: (K,) log densities of the raters' accuracies.
    """

    rates: np.ndarray
    shares: np.ndarray
    log_likelihoods: np.ndarray
    log_priors: np.ndarray

    @property
    def is_likely(self) -> np.ndarray:
        """Whether each draw (K,) is of a chain whose mode is nearly as likely as the best."""
        log_joint = (self.log_likelihoods + self.log_priors).reshape(-1, _N_CHAINS).mean(axis=0)
        is_likely = log_joint > log_joint.max() - _MAX_NATS_BEHIND
        return np.tile(is_likely, len(self.rates) // _N_CHAINS)

    def estimate(self, j: int, shift: float = 0.0) -> Estimate:
        """Summarise the draws of a rater: the mean rate, and an interval of 90 %.

        The interval holds the quantiles of the rate and of the share: if all checked answers may be
        right, it begins at 0. ``shift``: by how much more often unchecked answers seem to be wrong;
        it extends the interval.

        >>> rates = np.linspace(0.1, 0.2, 80)[:, None]
        >>> draws = ErrorDraws(rates, np.full((80, 1), 0.15), np.zeros(80), np.zeros(80))
        >>> print(draws.estimate(0, shift=-0.05))
        0.15 (0.055 to 0.195)
        """
        rates = self.rates[self.is_likely, j]
        shares = self.shares[self.is_likely, j]
        quantiles = np.quantile([rates, shares], [0.05, 0.95], axis=1)
        return Estimate(
            mean=float(rates.mean()),
            low=max(float(quantiles[0].min()) + min(shift, 0.0), 0.0),
            high=min(float(quantiles[1].max()) + max(shift, 0.0), 1.0),
        )


def draw_errors(
    raters: Raters, is_checked: np.ndarray, start_probs: np.ndarray, seed: int = 0
) -> ErrorDraws:
    """Draw the error rates of the raters from their posterior.

    Two people who agree on 30 items are hardly ever wrong:

    >>> row = np.repeat(np.arange(30), 2)
    >>> raters = Raters(
    ...     rater=np.tile([0, 1], 30),
    ...     row=row,
    ...     label=row % 2,
    ...     share=np.ones(60),
    ...     gold=np.full(30, -1),
    ...     is_person=np.ones(2, bool),
    ... )
    >>> start_probs = 0.1 + 0.8 * np.eye(2)[np.arange(30) % 2]
    >>> draws = draw_errors(raters, np.ones(60, bool), start_probs)
    >>> draws.rates.shape, bool(draws.rates.mean() < 0.1)
    ((800, 2), True)

    Args:
        raters: the answers.
        is_checked: (m,) whether the answer counts in the rater's error rate.
        start_probs: (n, C), or (n, 8, C) for every chain, probabilities of the first z.
        seed: of the draws.
    """
    from scipy.special import logsumexp, xlog1py, xlogy  # scipy.stats takes longer to load

    generator = np.random.default_rng(seed)
    n_items = len(start_probs)
    n_classes = start_probs.shape[-1]
    n_raters = len(raters.is_person)
    prior_right = np.where(raters.is_person, _PERSON_PRIOR[0], 1.0)
    prior_wrong = np.where(raters.is_person, _PERSON_PRIOR[1], 1.0)
    first_answer = np.flatnonzero(np.diff(raters.row, prepend=-1))
    has_gold = raters.gold >= 0
    off_diagonal = 1.0 - np.eye(n_classes)
    chain = np.arange(_N_CHAINS)[:, None]
    count_shape = (_N_CHAINS, n_raters, n_classes, n_classes)
    n_checked = np.bincount(raters.rater[is_checked], minlength=n_raters)

    def draw_classes(log_probs: np.ndarray) -> np.ndarray:
        """Draw z (n, chains) by the Gumbel trick, log_probs (n, chains, C)."""
        classes = (log_probs + generator.gumbel(size=log_probs.shape)).argmax(axis=-1)
        classes[has_gold] = raters.gold[has_gold, None]
        return classes

    start = np.log(np.maximum(start_probs, 1e-12)).reshape(n_items, -1, n_classes)
    start = start + np.log(_votes(raters, n_classes, raters.is_person))[:, None, :]
    true = draw_classes(np.broadcast_to(start, (n_items, _N_CHAINS, n_classes)))
    rates = []
    shares_wrong = []
    log_likelihoods = []
    log_priors = []
    for sweep in range(_N_WARM_UP + _N_SWEEPS):
        true_of_answer = true[raters.row].T  # (chains, m)
        cell = (chain * n_raters + raters.rater) * n_classes + true_of_answer
        cell = cell * n_classes + raters.label
        counts = np.bincount(cell.ravel(), minlength=np.prod(count_shape)).reshape(count_shape)
        n_right = counts.trace(axis1=2, axis2=3)
        n_wrong = counts.sum(axis=(2, 3)) - n_right
        accuracy = generator.beta(prior_right + n_right, prior_wrong + n_wrong)
        mistakes = off_diagonal * (1.0 + (off_diagonal * counts).sum(axis=2))[:, :, None, :]
        mistakes /= mistakes.sum(axis=3, keepdims=True)
        diagonal = accuracy[..., None, None]
        row_mean = diagonal * np.eye(n_classes) + (1.0 - diagonal) * mistakes
        gammas = generator.gamma(_ROW_CONCENTRATION * row_mean + counts) + 1e-300
        log_confusion = np.log(gammas / gammas.sum(axis=3, keepdims=True))
        class_counts = np.stack([(true == c).sum(axis=0) for c in range(n_classes)], axis=1)
        shares = generator.gamma(1.0 + class_counts)
        log_shares = np.log(shares / shares.sum(axis=1, keepdims=True))
        of_answers = log_confusion[:, raters.rater, :, raters.label]  # (m, chains, C)
        of_answers *= raters.share[:, None, None]
        log_probs = log_shares + np.add.reduceat(of_answers, first_answer, axis=0)
        true = draw_classes(log_probs)
        if sweep >= _N_WARM_UP:
            n_right = _checked_right(raters, is_checked, true)
            rates.append(generator.beta(1.0 + n_checked - n_right, 1.0 + n_right))
            shares_wrong.append(1.0 - n_right / np.where(n_checked, n_checked, np.nan))
            log_likelihoods.append(logsumexp(log_probs, axis=-1).sum(axis=0))
            log_density = xlogy(prior_right - 1.0, accuracy) + xlog1py(prior_wrong - 1.0, -accuracy)
            log_priors.append(log_density.sum(axis=1))
    return ErrorDraws(*map(np.concatenate, (rates, shares_wrong, log_likelihoods, log_priors)))


def _votes(raters: Raters, n_classes: int, is_voter: np.ndarray) -> np.ndarray:
    """One more than the number of votes (n, C) of some raters, (J,), for each class."""
    votes = np.ones((len(raters.gold), n_classes))
    counts = is_voter[raters.rater]
    np.add.at(votes, (raters.row[counts], raters.label[counts]), 1.0)
    return votes


def _checked_right(raters: Raters, is_checked: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Count checked answers (chains, J) that are right, given true classes (n, chains)."""
    rater = raters.rater[is_checked]
    is_right = true[raters.row[is_checked]] == raters.label[is_checked, None]
    n_raters = len(raters.is_person)
    return np.stack([np.bincount(rater, weights, n_raters) for weights in is_right.T])


def doubtful_start(raters: Raters, n_classes: int, suspects: list[int]) -> np.ndarray:
    """Start half of the chains where ``suspects`` are right, half at the votes: (n, chains, C)."""
    votes = _votes(raters, n_classes, np.ones(len(raters.is_person), bool))
    believed = votes.copy()
    is_suspect = np.isin(raters.rater, suspects)
    believed[raters.row[is_suspect], raters.label[is_suspect]] = 1e6
    start = np.stack([votes, believed], axis=1)
    start /= start.sum(axis=2, keepdims=True)
    return start.repeat(_N_CHAINS // 2, axis=1)


class PairCounts(NamedTuple):
    """Numbers of items (J, J) that two annotators both answered, and of different answers."""

    shared: np.ndarray
    different: np.ndarray

    @classmethod
    def of(cls, raters: Raters, n_annotators: int) -> "PairCounts":
        """Count for every pair of the first J raters."""
        is_annotator = raters.rater < n_annotators
        shape = (raters.label.max(initial=0) + 1, len(raters.gold), n_annotators)
        answered = np.zeros(shape)  # (C, n, J)
        index = (raters.label, raters.row, raters.rater)
        answered[tuple(column[is_annotator] for column in index)] = 1.0
        shared = answered.sum(axis=0).T @ answered.sum(axis=0)
        same = (answered.transpose(0, 2, 1) @ answered).sum(axis=0)
        return cls(shared.astype(int), (shared - same).astype(int))

    def suspects(self, is_person: np.ndarray) -> list[list[int]]:
        """Groups of two or more people, or programs, that seldom disagree (single linkage)."""
        seldom = self.different <= _MAX_DISAGREEMENT * self.shared
        is_linked = (self.shared >= _MIN_SHARED) & seldom
        is_linked &= is_person[:, None] == is_person
        is_in_group = is_linked | np.eye(len(is_linked), dtype=bool)
        for _ in range(len(is_linked).bit_length()):  # each step doubles the length of the paths
            is_in_group = is_in_group @ is_in_group
        members = [np.flatnonzero(row).tolist() for row in is_in_group]
        return [names for row, names in enumerate(members) if names[0] == row and len(names) > 1]

    def has_outside_rater(self, members: list[int]) -> bool:
        """Whether an annotator outside the group shares enough items with its first member."""
        is_outside = np.ones(len(self.shared), bool)
        is_outside[members] = False
        return bool((self.shared[members[0], is_outside] >= _MIN_SHARED).any())

    def is_improbable(self, pair: tuple[int, int], draws: ErrorDraws) -> bool:
        """Whether independent annotators with the first one's error rate would disagree far more.

        Every chain has to find it whose answers are nearly as likely as those of the best: one that
        does not has an explanation by which both agree because they are right.
        """
        n_shared = self.shared[pair]
        n_different = self.different[pair]
        if n_shared < _MIN_SHARED:
            return False
        errors = draws.rates[:, pair[0]].reshape(-1, _N_CHAINS)
        log_likelihood = draws.log_likelihoods.reshape(-1, _N_CHAINS).mean(axis=0)
        is_likely = log_likelihood > log_likelihood.max() - _MAX_NATS_BEHIND
        disagreement = 2.0 * (errors * (1.0 - errors))[:, is_likely]
        from scipy.special import bdtr

        probability = bdtr(n_different, n_shared, disagreement).mean(axis=0).max()
        expected = n_shared * disagreement.mean(axis=0).min()
        is_few = n_different < _MAX_SHARE_OF_EXPECTED * expected
        return bool(is_few and probability < _MAX_COPY_PROBABILITY)
