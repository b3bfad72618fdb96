"""The error of programs and LLMs, from answers that people have checked.

An answer is checked if people have labelled its item, too; their label is taken as right. Where
enough of the latest random sample of its answers are checked, only these count, and the error is
that of the answers the sample was drawn from (:func:`parbals_label.project.checks.random_checks`).
Otherwise whoever shows the error says that they were not chosen at random.

The interval is a confidence sequence (:func:`parbals.learner.evaluation.limits.sequence_limits`):
whatever the error is, in nine of ten projects the interval holds it after every single check, so
people may look at it as often as they like, and stop when it pleases them.

This is the only error of a program that a project shows. The annotator model
(:mod:`parbals.learner.annotators`) has an estimate of its own, which weights the program's answers.
"""

from dataclasses import dataclass
from typing import NamedTuple

from parbals.learner.evaluation.limits import sequence_limits

from parbals_label.answer_form import NUMBERS
from parbals_label.project.checks import random_checks
from parbals_label.project.confidence import split_by_confidence
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.store import Store

__all__ = ["CheckedError", "ProgramAnswers", "program_errors"]

_MIN_RANDOM = 10
"""Randomly chosen answers from which the others are left out."""
_DELTA = 0.05
"""Probability that each end of a 90 % interval fails."""


@dataclass(frozen=True)
class CheckedError:
    """The error among answers that people have checked.

    Attributes:
        n_checked, n_wrong: checked answers, and those that differ from people's label.
        is_random: whether the items were chosen at random.
        low, high: 90 % interval, which holds after every check.
    """

    n_checked: int
    n_wrong: int
    is_random: bool
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of wrong answers."""
        return self.n_wrong / self.n_checked

    @classmethod
    def of(cls, n_checked: int, n_wrong: int, *, is_random: bool) -> "CheckedError":
        """The error from counts.

        >>> error = CheckedError.of(40, 2, is_random=True)
        >>> round(error.low, 3), round(error.high, 3)
        (0.002, 0.203)
        """
        low, high = sequence_limits(n_wrong, n_checked, _DELTA)
        return cls(n_checked, n_wrong, is_random, low, high)


class ProgramAnswers(NamedTuple):
    """The answers of a program, or of one of its thirds by confidence.

    Attributes:
        program: its name in the project.
        n_answers: their number.
        error: None if nobody has checked one of them, or if they are numbers.
    """

    program: str
    n_answers: int
    error: CheckedError | None


def program_errors(store: Store) -> dict[str, ProgramAnswers]:
    """Name → answers and error of every program that has labelled.

    A program that is right more often where it is more confident also has an entry for each third
    of its answers, as in "machine:gpt, surest".
    """
    names = [annotator.name for annotator in store.annotators() if annotator.source == "machine"]
    if not names:
        return {}
    form = store.form
    current = store.current_labels()
    people = aggregate_labels(store.votes(by_people=True), form)
    if form.task == NUMBERS:
        people = {}
    labels = {
        name: {position: by[name] for position, by in current.items() if name in by}
        for name in names
    }
    is_right = {
        (position, name): label == people[position]
        for name, by_position in labels.items()
        for position, label in by_position.items()
        if position in people
    }
    thirds: dict[tuple[str, str], list[int]] = {}
    for (position, name), third in split_by_confidence(store.confidences(), is_right).items():
        thirds.setdefault((name, third), []).append(position)
    errors = {}
    for name in names:
        checks = random_checks(store, name)
        random_items = frozenset() if checks is None else checks.drawn
        groups = {name: list(labels[name])}
        groups |= {third: rows for (program, third), rows in thirds.items() if program == name}
        for group, positions in groups.items():
            is_wrong = {p: not is_right[p, name] for p in positions if (p, name) in is_right}
            errors[group] = ProgramAnswers(name, len(positions), _error(is_wrong, random_items))
    return errors


def _error(is_wrong: dict[int, bool], random_items: frozenset[int]) -> CheckedError | None:
    """The error among checked answers, on random items where there are enough of them."""
    random_checks = [wrong for position, wrong in is_wrong.items() if position in random_items]
    is_random = len(random_checks) >= _MIN_RANDOM
    checks = random_checks if is_random else list(is_wrong.values())
    if not checks:
        return None
    return CheckedError.of(len(checks), sum(checks), is_random=is_random)
