"""Choose the next items and whom to ask about each of them.

Annotators may answer wrongly, and differ in cost. A strategy gives each item i a score_i: how much
its true label would tell about the targets (:mod:`parbals.learner.choosing`).

*Answers.* Let an item's true label have the class probabilities p, and let π be an annotator's
confusion matrix: π_ca is the probability of answer a if the true class is c. If p_c would change by
δ_c were the class of a target known, and δ is small (as it is for single labels), the label's
information about the target is ½ Σ_c δ_c² / p_c. That of the answer is ½ Σ_a (Σ_c π_ca δ_c)² / P_a,
where P_a = Σ_c p_c π_ca is the probability of answer a. Their ratio is the answer's efficiency

    ρ(p) = (Σ_ca p_c π_ca² / P_a - 1) / (C - 1):

1 for an annotator who is always right, 0 for one who answers at random. The formula is exact for
two classes. For more, it is an average over δ whose covariance is that of the one-hot label.

*Second opinions.* Where an item has answers already, its class probabilities are r instead of p,
and less of its label is unknown. Information is proportional to the impurity Σ_c p_c (1 - p_c), so
the score of the item falls by the factor Σ r (1 - r) / Σ p (1 - p).

*Questions.* The value of asking annotator j about item i is thus

    score_i · Σ r (1 - r) / Σ p (1 - p) · ρ_j(r) / cost_j,     with r = p for a new item.

A strategy chooses n new items, and n answered ones for a second opinion; of these 2 n questions the
n with the highest values are asked. Audit items go to the most accurate person.

*Checks of programs.* Before any other second opinion, people check ten random answers of programs.
Second opinions of high value would not do as checks: they are about unusual items, on which a
program may be much better or worse than on the others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parbals.errors import InputError
from parbals.learner.annotators.people import confusion_matrix
from parbals.learner.choosing import choose_among, choose_items
from parbals.learner.state import State
from parbals.randomness import derive_generator
from parbals.wording import PROGRAM_PREFIX

__all__ = ["Question", "answer_efficiency", "check_costs", "choose_questions"]

_SECOND_OPINIONS_PER_QUESTION = 4
"""For n questions, second opinions on the 4 n least certain items are considered."""
_N_PROGRAM_CHECKS = 10
"""Number of random answers of programs that people check."""
_EPS = 1e-12


class Question(NamedTuple):
    """A question to an annotator: what is the label of this item?"""

    item: Any
    annotator: str


def check_costs(
    task: str, annotators: Sequence[str] | None, costs: Mapping[str, float] | None
) -> dict[str, float]:
    """Return annotator → cost of one answer, by default 1.

    >>> check_costs("classes", ["ada", "llm"], {"llm": 0.1})
    {'ada': 1.0, 'llm': 0.1}
    """
    if task != "classes":
        raise InputError('annotators and costs need task="classes"; leave them out.')
    costs = costs or {}
    names = list(costs) if annotators is None else list(annotators)
    are_names = bool(names) and all(isinstance(name, str) for name in names)
    if isinstance(annotators, str) or not are_names:
        raise InputError(f"annotators is {annotators!r}; pass a list of names.")
    cost_of = {name: float(costs.get(name, 1.0)) for name in names}
    for name, cost in {**costs, **cost_of}.items():
        if name not in cost_of or not 0.0 < cost < np.inf:
            raise InputError(
                f"costs has {cost!r} for {name!r}; give a positive number for names in annotators, "
                "and no others."
            )
    return cost_of


def answer_efficiency(confusion: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Compute ρ (n,), the information of an answer relative to that of the true label.

    An annotator who is always right, and one who answers at random:

    >>> probs = np.array([[0.3, 0.7]])
    >>> answer_efficiency(np.eye(2), probs).round(6)
    array([1.])
    >>> answer_efficiency(np.full((2, 2), 0.5), probs).round(6)
    array([0.])

    Args:
        confusion: (C, C) confusion matrix of the annotator.
        probs: (n, C) class probabilities of the items.
    """
    answer_probs = np.maximum(probs @ confusion, _EPS)
    information = (probs @ np.square(confusion) / answer_probs).sum(axis=1)
    return (information - 1.0) / (len(confusion) - 1)


class _Candidate(NamedTuple):
    """A question that may be asked; ``value`` is its expected information per cost.

    The value is infinite for questions that come before all others.
    """

    value: float
    position: int
    annotator: str


@dataclass(frozen=True)
class _Annotators:
    """The annotators who may be asked.

    Attributes:
        costs: annotator → cost of one answer.
        confusions: annotator → confusion matrix (C, C).
        asked_annotators: position → annotators who were asked for this item.
    """

    costs: Mapping[str, float]
    confusions: Mapping[str, np.ndarray]
    asked_annotators: Mapping[int, set[str]]

    @property
    def programs(self) -> set[str]:
        """The annotators that are programs."""
        return {name for name in self.costs if name.startswith(PROGRAM_PREFIX)}

    @property
    def most_accurate_person(self) -> str:
        """The person with the highest mean recall; a program if there are no people."""
        programs = self.programs
        people = [name for name in self.costs if name not in programs]
        return max(people or self.costs, key=lambda name: np.trace(self.confusions[name]))

    def answered_or_asked(self, state: State, position: int) -> set[str | None]:
        """Return who has answered an item or was asked to; None stands for a gold label."""
        return {*state.answers.get(position, ()), *self.asked_annotators.get(position, ())}

    def candidates(
        self, state: State, positions: np.ndarray, scores: np.ndarray, probs: np.ndarray
    ) -> list[_Candidate]:
        """Pair each item with the annotator of the highest information per cost.

        Args:
            positions: (n,) of the items.
            scores: (n,) information of the true label; NaN for items that the strategy does not
                score, which come first: audit items, and all items of a cold start.
            probs: (n, C) class probabilities of the items, given any answers to them.
        """
        efficiencies_per_cost = {
            name: answer_efficiency(self.confusions[name], probs) / cost
            for name, cost in self.costs.items()
        }
        candidates = []
        for row, position in enumerate(positions.tolist()):
            unavailable = self.answered_or_asked(state, position)
            available = [name for name in self.costs if name not in unavailable]
            annotator = max(available, key=lambda name: efficiencies_per_cost[name][row])
            value = np.inf
            if np.isfinite(scores[row]):
                value = scores[row] * efficiencies_per_cost[annotator][row]
            if position in state.setup.audit:
                annotator = self.most_accurate_person
            candidates.append(_Candidate(value, position, annotator))
        return candidates


def choose_questions(
    state: State,
    n: int,
    costs: Mapping[str, float],
    asked_annotators: Mapping[int, set[str]],
    leave_out: Collection[int] = (),
) -> list[tuple[int, str]]:
    """Choose at most ``n`` pairs (position, annotator), those of the highest value first.

    Args:
        state: the learner's state.
        n: number of questions.
        costs: annotator → cost of one answer.
        asked_annotators: position → annotators who were asked already.
        leave_out: positions of items that nobody is to be asked about.
    """
    excluded = sorted(leave_out)
    annotators = _Annotators(costs, _confusions(state, costs), asked_annotators)
    candidates = [
        *_new_items(state, n, annotators, excluded),
        *_second_opinions(state, n, annotators, excluded),
    ]
    checks = _program_checks(state, annotators, excluded)
    ranked = _ranked(candidates, checks)
    if not ranked:
        raise InputError("Everybody has answered every item, or was asked to; nothing is left.")
    return [(candidate.position, candidate.annotator) for candidate in ranked[:n]]


def _confusions(state: State, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return annotator → confusion matrix, the prior mean for annotators without answers."""
    fit = state.annotator_fit
    fitted = {} if fit is None else dict(zip(fit.answers.names, fit.confusions, strict=True))
    prior_mean = _prior_confusion(state)
    return {name: fitted.get(name, prior_mean) for name in names}


def _prior_confusion(state: State) -> np.ndarray:
    """Return the confusion matrix (C, C) of an annotator who has not answered yet."""
    n_classes = len(state.setup.classes)
    return confusion_matrix(np.zeros((n_classes, n_classes)))


def _new_items(
    state: State, n: int, annotators: _Annotators, excluded: Sequence[int]
) -> list[_Candidate]:
    """Choose at most ``n`` items without a label, audit items included, and whom to ask."""
    setup = state.setup
    free_audit = np.setdiff1d(setup.audit[state.is_free()[setup.audit]], excluded)
    free = np.setdiff1d(state.choosable(), excluded)
    n_new = min(n, len(free_audit) + len(free))
    if not n_new:
        return []
    batch = choose_items(state, n_new, setup.strategy, excluded, with_audit=True)
    if state.can_fit and len(state.training_positions):
        probs = setup.predictions(state.fitted(), batch.indices)
    else:
        n_classes = len(setup.classes)
        probs = np.full((len(batch), n_classes), 1.0 / n_classes)
    return annotators.candidates(state, batch.indices, batch.scores, probs)


def _second_opinions(
    state: State, n: int, annotators: _Annotators, excluded: Sequence[int]
) -> list[_Candidate]:
    """Choose at most ``n`` answered items that need a second opinion most, and whom to ask."""
    setup = state.setup
    if not state.answers or setup.find is not None or not state.can_fit:
        return []
    label_probs = _label_probs(state)
    uncertainty = dict(zip(state.labelled.tolist(), _impurity(label_probs).tolist(), strict=True))
    open_positions = []
    for position in state.training_positions.tolist():
        names = annotators.answered_or_asked(state, position)
        has_gold_label = None in names
        if not has_gold_label and not names >= annotators.costs.keys():
            open_positions.append(position)
    open_positions = sorted(
        set(open_positions).difference(excluded),
        key=lambda position: (-uncertainty[position], position),
    )
    considered = open_positions[: _SECOND_OPINIONS_PER_QUESTION * n]
    if not considered:
        return []
    batch = choose_among(state, np.sort(considered), min(n, len(considered)), setup.strategy)
    if not np.isfinite(batch.scores).all():
        return []
    # The information that is left after the answers, as a share of that of a new item.
    probs_with_answers = label_probs[np.searchsorted(state.labelled, batch.indices)]
    probs_without = setup.predictions(state.fitted(), batch.indices)
    share_left = _impurity(probs_with_answers) / np.maximum(_impurity(probs_without), _EPS)
    return annotators.candidates(
        state, batch.indices, batch.scores * share_left, probs_with_answers
    )


def _label_probs(state: State) -> np.ndarray:
    """Return class probabilities (n, C) of the labelled items, given all answers to them."""
    fit = state.annotator_fit
    if fit is not None:
        return fit.label_probs
    # With a single annotator there is no annotator fit, and the model treats the answers as gold.
    # A second opinion can only be worth asking for if they may be wrong, as in the prior.
    labels = state.encoded_labels(state.labelled)
    likelihoods = _prior_confusion(state)[:, labels].T
    probs = likelihoods * state.setup.predictions(state.fitted(), state.labelled)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def _program_checks(
    state: State, annotators: _Annotators, excluded: Sequence[int]
) -> list[_Candidate]:
    """Choose random items that only programs have answered, for a person to check.

    There are as many as are missing until people have checked ``_N_PROGRAM_CHECKS``.
    """
    programs = annotators.programs
    has_people = bool(annotators.costs.keys() - programs)
    if not programs or not has_people:
        return []
    unchecked = set()
    n_checked = 0
    for position in state.training_positions.tolist():
        if not programs & {*state.answers.get(position, ())}:
            continue
        if annotators.answered_or_asked(state, position) - programs:
            n_checked += 1
        else:
            unchecked.add(position)
    n_missing = max(0, _N_PROGRAM_CHECKS - n_checked)
    unchecked -= set(excluded)
    generator = derive_generator(state.setup.seed, "checks")
    order = generator.permutation(state.setup.pool.n_rows)
    positions = [position for position in order.tolist() if position in unchecked]
    person = annotators.most_accurate_person
    return [_Candidate(np.inf, position, person) for position in positions[:n_missing]]


def _ranked(candidates: Sequence[_Candidate], checks: Sequence[_Candidate]) -> list[_Candidate]:
    """Sort by value, the highest first; a check replaces other questions about its item."""
    check_positions = {check.position for check in checks}
    others = [candidate for candidate in candidates if candidate.position not in check_positions]
    return sorted([*others, *checks], key=lambda candidate: -candidate.value)


def _impurity(probs: np.ndarray) -> np.ndarray:
    """Compute the Gini impurity Σ p (1 - p) (n,) of class probabilities (n, C)."""
    return (probs * (1.0 - probs)).sum(axis=1)
