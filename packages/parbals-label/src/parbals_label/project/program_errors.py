"""The error of programs and LLMs, from answers that people have checked.

An answer is checked if people have labelled its item, too; their label is taken as right. The
interval is exact (Clopper and Pearson): whatever the error is, nine in ten random samples have an
interval that holds it. Where enough of these items were chosen at random, only they count;
otherwise whoever shows the error says that they were not.

This is the only error of a program that a project shows. The annotator model
(:mod:`parbals.learner.annotators`) has an estimate of its own, which weights the program's answers.
"""

from dataclasses import dataclass
from typing import NamedTuple

from parbals.learner.evaluation.looks import clopper_pearson_limits

from parbals_label.answer_form import NUMBERS
from parbals_label.project.checks import drawn_positions
from parbals_label.project.confidence import split_by_confidence
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.measured import sampled_positions
from parbals_label.store.store import Store

__all__ = ["CheckedError", "ProgramAnswers", "program_errors", "random_positions"]

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
        low, high: 90 % interval.
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
        (0.009, 0.149)
        """
        low, high = clopper_pearson_limits(n_wrong, n_checked, _DELTA)
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
        random_items = random_positions(store, name)
        groups = {name: list(labels[name])}
        groups |= {third: rows for (program, third), rows in thirds.items() if program == name}
        for group, positions in groups.items():
            is_wrong = {p: not is_right[p, name] for p in positions if (p, name) in is_right}
            errors[group] = ProgramAnswers(name, len(positions), _error(is_wrong, random_items))
    return errors


def random_positions(store: Store, program: str) -> frozenset[int]:
    """Items that were chosen at random: to check this program, or to measure the model's error."""
    return sampled_positions(store) | drawn_positions(store, program)


def _error(is_wrong: dict[int, bool], random_items: frozenset[int]) -> CheckedError | None:
    """The error among checked answers, on random items where there are enough of them."""
    random_checks = [wrong for position, wrong in is_wrong.items() if position in random_items]
    is_random = len(random_checks) >= _MIN_RANDOM
    checks = random_checks if is_random else list(is_wrong.values())
    if not checks:
        return None
    return CheckedError.of(len(checks), sum(checks), is_random=is_random)
