"""Class shares from a program's labels, corrected by people's random checks.

A program that errs also counts wrongly: if it takes a tenth of ham for spam, it finds too much
spam. Its answers that were drawn at random and checked by people tell by how much: among the items
that it gives the class, and among the others, the checks estimate the share θ_s that people give
it; all its answers tell the size π_s of both groups. The share of the class is Σ_s π_s θ_s: a
post-stratified estimate, which is the prediction-powered one for predictions that are 0 or 1. It
holds whatever the program does, and the better the program, the narrower the interval.

The interval combines those of Clopper and Pearson for θ_s by MOVER (Zou and Donner 2008): the
squared distances of its ends from the estimate are Σ_s π_s² (u_s - θ_s)². Limits by a normal
approximation fail too often where few of the checked answers are wrong.

The checks are a random sample of the answers that the program had given, and no person had checked,
at their first draw; the shares are those among these answers. Answers that it gave later were not
drawn from, so draws count that came after the program's last answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from parbals.learner.evaluation.looks import clopper_pearson_limits
from parbals.types import Estimate

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.project.checks import draws_of
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.store import Store

__all__ = ["ClassShare", "ProgramShares", "corrected_share", "program_shares"]

_DELTA = 0.05
"""Probability that each end of a 90 % interval fails."""
_MIN_CHECKS = 10
"""Random checks from which shares are estimated."""


@dataclass(frozen=True)
class ClassShare:
    """The share of a class.

    Attributes:
        name: of the class.
        by_program: its share among the program's labels.
        share: corrected by people's checks, with a 90 % interval.
    """

    name: str
    by_program: float
    share: Estimate


@dataclass(frozen=True)
class ProgramShares:
    """Class shares among ``n_items`` answers, of which people checked ``n_checked``."""

    n_items: int
    n_checked: int
    classes: list[ClassShare]


def corrected_share(
    by_people: np.ndarray, by_program: np.ndarray, by_program_unchecked: np.ndarray
) -> Estimate:
    """The share of a class, with a 90 % interval.

    A program that finds half of the class, and people who checked 40 random answers:

    >>> by_people = np.repeat([1, 0], [8, 32])
    >>> by_program = np.repeat([1, 0], [4, 36])
    >>> print(corrected_share(by_people, by_program, np.repeat([1, 0], [96, 864])))
    0.2 (0.116 to 0.313)

    Args:
        by_people: (n,) whether a checked item is of the class.
        by_program: (n,) whether the program says so.
        by_program_unchecked: (m,) whether the program says so of the other items.
    """
    all_by_program = np.concatenate([by_program, by_program_unchecked]).astype(bool)
    mean = 0.0
    squared_below = 0.0
    squared_above = 0.0
    for is_class in (False, True):
        stratum_share = float((all_by_program == is_class).mean())
        labels = by_people[by_program.astype(bool) == is_class]
        n_class = float(labels.sum())
        share = n_class / len(labels) if len(labels) else 0.5
        low, high = clopper_pearson_limits(n_class, len(labels), _DELTA) if len(labels) else (0, 1)
        mean += stratum_share * share
        squared_below += (stratum_share * (share - low)) ** 2
        squared_above += (stratum_share * (high - share)) ** 2
    return Estimate(mean, max(mean - squared_below**0.5, 0.0), min(mean + squared_above**0.5, 1.0))


def program_shares(store: Store, program: str) -> ProgramShares | None:
    """The class shares among a program's answers; None without enough random checks."""
    form = store.form
    if form.task == NUMBERS:
        return None
    labels = {p: by[program] for p, by in store.current_labels().items() if program in by}
    votes = store.votes(by_people=True)
    numbers = store.answer_numbers()
    last_answer = max((numbers[position, program].last for position in labels), default=0)
    draws = [draw for draw in draws_of(store, program) if draw.last_answer >= last_answer]
    if not draws:
        return None
    checked_before = {
        position
        for position, by_person in votes.items()
        for person in by_person
        if numbers[position, person].first <= draws[0].last_answer
    }
    population = labels.keys() - checked_before - set(store.settings.audit)
    people = aggregate_labels(votes, form)
    drawn = {position for draw in draws for position in draw.positions}
    checked = sorted(population & drawn & people.keys())
    if len(checked) < _MIN_CHECKS:
        return None
    unchecked = sorted(population.difference(checked))
    shares = []
    for name in form.classes:
        by_people = _is_class(form, name, [people[position] for position in checked])
        by_program = _is_class(form, name, [labels[position] for position in checked])
        by_program_unchecked = _is_class(form, name, [labels[position] for position in unchecked])
        n_by_program = float(by_program.sum() + by_program_unchecked.sum())
        share = corrected_share(by_people, by_program, by_program_unchecked)
        shares.append(ClassShare(name, n_by_program / len(population), share))
    return ProgramShares(len(population), len(checked), shares)


def _is_class(form: AnswerForm, name: str, labels: Sequence[str]) -> np.ndarray:
    """Whether each label (n,) names a class, 0 or 1."""
    return np.array([name in form.names(label) for label in labels], float)
