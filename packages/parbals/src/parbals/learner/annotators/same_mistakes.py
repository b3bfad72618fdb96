"""People who make the same mistakes, such as one who copies another: they count as one.

Two people who are often right agree often. Two who agree although they are often wrong are not
independent. One of each group that seldom disagrees takes part in the sampling
(:mod:`parbals.learner.annotators.draws`). If its posterior error rate e is such that independent
annotators would have disagreed on far more of the n items than they did, the group counts as one
annotator: the probability of so few disagreements, Binomial(n, 2 e (1 - e)), averaged over a chain,
is below 0.001, and they are less than a third of those expected. Half of the chains start where the
group is right, and all have to find it that explain the answers about as well as the best. It also
needs a person outside the group who answered the same items: a team that agrees throughout may
simply be right.

Programs are not compared. An item's answers by programs count as one program's anyway
(:mod:`parbals.learner.annotators.programs`), and no program's errors are evidence of another's.
"""

from typing import NamedTuple

import numpy as np

from parbals.learner.annotators.answers import Answers
from parbals.learner.annotators.draws import (
    N_CHAINS,
    ErrorDraws,
    Raters,
    count_votes,
    draw_errors,
    likely_chains,
    raters_of,
    thinned,
)
from parbals.learner.annotators.people import PeopleFit

__all__ = ["groups_with_same_mistakes"]

_MIN_SHARED = 8
_MAX_DISAGREEMENT = 0.15
"""Share of different answers above which a pair is not suspected of being copies."""
_MAX_COPY_PROBABILITY = 1e-3
_MAX_SHARE_OF_EXPECTED = 1.0 / 3.0


def groups_with_same_mistakes(
    answers: Answers, is_training: np.ndarray, people_fit: PeopleFit
) -> np.ndarray:
    """Number (J,) the annotators so that people who make the same mistakes have one number."""
    n_annotators = len(answers.names)
    group = np.arange(n_annotators)
    is_person = ~answers.is_program
    rows = thinned(np.flatnonzero(is_training & answers.is_answered_by_people))
    if not len(rows):
        return group
    raters, _ = raters_of(answers, rows, people_fit.predictions, is_person)
    pairs = _PairCounts.of(raters, n_annotators)
    suspects = pairs.suspects()
    suspects = [members for members in suspects if pairs.has_outside_rater(members)]
    if not suspects:
        return group
    is_member = is_person.copy()
    for members in suspects:
        is_member[members[1:]] = False
    raters, _ = raters_of(answers, rows, people_fit.predictions, is_member)
    first_members = [members[0] for members in suspects]
    start_probs = _doubtful_start(raters, people_fit.predictions.shape[1], first_members)
    draws = draw_errors(raters, np.ones(len(raters.row), bool), start_probs)
    for first, *others in suspects:
        for other in others:
            if pairs.is_improbable((first, other), draws):
                group[other] = first
    return group


def _doubtful_start(raters: Raters, n_classes: int, suspects: list[int]) -> np.ndarray:
    """Start half of the chains where ``suspects`` are right, half at the votes: (n, chains, C)."""
    votes = count_votes(raters, n_classes, np.ones(len(raters.is_person), bool))
    believed = votes.copy()
    is_suspect = np.isin(raters.rater, suspects)
    believed[raters.row[is_suspect], raters.label[is_suspect]] = 1e6
    start = np.stack([votes, believed], axis=1)
    start /= start.sum(axis=2, keepdims=True)
    return start.repeat(N_CHAINS // 2, axis=1)


class _PairCounts(NamedTuple):
    """Numbers of items (J, J) that two annotators both answered, and of different answers."""

    shared: np.ndarray
    different: np.ndarray

    @classmethod
    def of(cls, raters: Raters, n_annotators: int) -> "_PairCounts":
        """Count for every pair of the first J raters."""
        is_annotator = raters.rater < n_annotators
        shape = (raters.label.max(initial=0) + 1, len(raters.gold), n_annotators)
        answered = np.zeros(shape)  # (C, n, J)
        index = (raters.label, raters.row, raters.rater)
        answered[tuple(column[is_annotator] for column in index)] = 1.0
        shared = answered.sum(axis=0).T @ answered.sum(axis=0)
        same = (answered.transpose(0, 2, 1) @ answered).sum(axis=0)
        return cls(shared.astype(int), (shared - same).astype(int))

    def suspects(self) -> list[list[int]]:
        """Groups of two or more people who seldom disagree (single linkage)."""
        seldom = self.different <= _MAX_DISAGREEMENT * self.shared
        is_linked = (self.shared >= _MIN_SHARED) & seldom
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
        errors = draws.rates[:, pair[0]].reshape(-1, N_CHAINS)
        disagreement = 2.0 * (errors * (1.0 - errors))[:, likely_chains(draws.log_likelihoods)]
        from scipy.special import bdtr

        probability = bdtr(n_different, n_shared, disagreement).mean(axis=0).max()
        expected = n_shared * disagreement.mean(axis=0).min()
        is_few = n_different < _MAX_SHARE_OF_EXPECTED * expected
        return bool(is_few and probability < _MAX_COPY_PROBABILITY)
