"""Class shares from a program's labels, corrected by people's random checks.

A program that errs also counts wrongly: if it takes a tenth of ham for spam, it finds too much
spam. Its answers that were drawn at random and checked by people tell by how much: among the items
that it gives the class, and among the others, the checks estimate the share θ_s that people give
it; all its answers tell the size π_s of both groups. The share of the class is Σ_s π_s θ_s: a
post-stratified estimate (:func:`parbals.learner.evaluation.limits.stratified_limits`). It holds
whatever the program does, and the better the program, the narrower the interval. The limits of θ_s
are confidence sequences, so the shares may be read after every check.

The checks are the latest random sample of the program's answers, and the shares are those among the
answers that it was drawn from (:func:`parbals_label.project.checks.random_checks`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from parbals.learner.evaluation.limits import sequence_limits, stratified_limits
from parbals.types import Estimate

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.project.checks import random_checks
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
    0.2 (0.0928 to 0.381)

    Args:
        by_people: (n,) whether a checked item is of the class.
        by_program: (n,) whether the program says so.
        by_program_unchecked: (m,) whether the program says so of the other items.
    """
    mean, low, high = stratified_limits(
        by_people, by_program, by_program_unchecked, _DELTA, sequence_limits
    )
    return Estimate(mean, low, high)


def program_shares(store: Store, program: str) -> ProgramShares | None:
    """The class shares among a program's answers; None without enough random checks."""
    form = store.form
    if form.task == NUMBERS:
        return None
    labels = {p: by[program] for p, by in store.current_labels().items() if program in by}
    sample = random_checks(store, program)
    if sample is None:
        return None
    people = aggregate_labels(store.votes(by_people=True), form)
    population = sample.population
    checked = sorted(sample.drawn & people.keys())
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
