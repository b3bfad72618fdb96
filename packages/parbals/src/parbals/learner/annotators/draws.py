"""Gibbs sampling of the true classes of checked items and of the error rates of their raters.

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
"""

from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers
from parbals.types import Estimate

__all__ = [
    "N_CHAINS",
    "ErrorDraws",
    "Raters",
    "count_votes",
    "draw_errors",
    "likely_chains",
    "raters_of",
    "thinned",
]

_PERSON_PRIOR = (4.0, 1.0)
"""Beta prior of a person's accuracy in judging who is right; of other raters it is uniform."""
_ROW_CONCENTRATION = 8.0
"""Number of answers that the prior of a row of a confusion matrix is worth."""
N_CHAINS = 8
"""Chains from different starts, all sampled at once."""
_N_WARM_UP = 50
_N_SWEEPS = 100
_MAX_NATS_BEHIND = 3.0
"""A chain whose mean log-likelihood is further behind the best is stuck in a worse explanation."""
_MAX_ITEMS = 2_000
"""Number of items from which error rates are estimated."""


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
        is_likely = likely_chains(self.log_likelihoods + self.log_priors)
        return np.tile(is_likely, len(self.rates) // N_CHAINS)

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


def likely_chains(log_densities: np.ndarray) -> np.ndarray:
    """Whether each chain's mean log density, of all draws (K,), is nearly that of the best."""
    means = log_densities.reshape(-1, N_CHAINS).mean(axis=0)
    return np.asarray(means > means.max() - _MAX_NATS_BEHIND)


def thinned(rows: np.ndarray) -> np.ndarray:
    """At most ``_MAX_ITEMS`` rows, drawn at random: enough for an error rate."""
    if len(rows) <= _MAX_ITEMS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, _MAX_ITEMS, replace=False))


def raters_of(
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
    chain = np.arange(N_CHAINS)[:, None]
    count_shape = (N_CHAINS, n_raters, n_classes, n_classes)
    n_checked = np.bincount(raters.rater[is_checked], minlength=n_raters)

    def draw_classes(log_probs: np.ndarray) -> np.ndarray:
        """Draw z (n, chains) by the Gumbel trick, log_probs (n, chains, C)."""
        classes = (log_probs + generator.gumbel(size=log_probs.shape)).argmax(axis=-1)
        classes[has_gold] = raters.gold[has_gold, None]
        return classes

    start = np.log(np.maximum(start_probs, 1e-12)).reshape(n_items, -1, n_classes)
    start = start + np.log(count_votes(raters, n_classes, raters.is_person))[:, None, :]
    true = draw_classes(np.broadcast_to(start, (n_items, N_CHAINS, n_classes)))
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


def count_votes(raters: Raters, n_classes: int, is_voter: np.ndarray) -> np.ndarray:
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
