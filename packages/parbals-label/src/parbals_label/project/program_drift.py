"""Notice that a program or an LLM has become worse: a model was replaced, or a prompt.

Its answers in their order of time are 0 or 1: whether a randomly drawn check by people found the
answer wrong, and, for all its answers, whether the model's most probable class differs from it. Two
tests look for a time from which on there are more ones
(:mod:`parbals_label.project.change_point`): when there are 20, 40, 80, … checks, and as many
answers. All looks of a test share its level, so it may be read at any time.

Strategies choose the most informative items first, which tend to be difficult, so that a program
that does not change rather seems to become better: only an increase is looked for. How often a
change is noticed, and falsely, is measured in ``studies/annotators`` and, at all looks, in
``studies/error_estimates/statements``. Predictions that are renewed between two looks are another
sequence for the second test, though a similar one; its level is not exact then.
"""

from dataclasses import dataclass

import numpy as np
from parbals.randomness import derive_generator
from parbals.wording import percent

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.change_point import Change, increase_at_look, size_of_look
from parbals_label.project.checks import drawn_positions
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.features import predictions_of
from parbals_label.store.store import Store

__all__ = ["Drift", "program_drift"]

_LEVEL = 0.01
"""Probability of a false alarm by each of the two tests, at any look."""
_MAX_ANSWERS = 2_000
"""Answers that are compared; of more, a random sample."""


@dataclass(frozen=True)
class Drift:
    """A program that has become worse.

    Attributes:
        n_before: its answers before the change, as far as that can be told.
        before, after: shares of wrong answers, or of answers that the model contradicts.
        by_people: whether people's checks show it; otherwise the model's predictions do.
    """

    n_before: int
    before: float
    after: float
    by_people: bool

    def sentence(self, program: str) -> str:
        """The change in words."""
        evidence = "the model contradicts"
        if self.by_people:
            evidence = "people's random checks find wrong"
        return (
            f"{program} seems to have become worse after about {self.n_before:,} answers: "
            f"{evidence} {percent(self.before)} of them and {percent(self.after)} of the later "
            "ones. Its error covers both (false alarms: about 2 in 100)."
        )


def program_drift(store: Store, program: str) -> Drift | None:
    """Whether a program has become worse; None if nothing shows it, or labels are not classes."""
    form = store.form
    if form.task in (NUMBERS, MANY):
        return None
    order = np.array(store.positions_labelled_by(program), int)
    labels = {p: by[program] for p, by in store.current_labels().items() if program in by}
    change = _change_by_people(store, program, order, labels)
    if change is not None:
        return change
    return _change_by_model(store, program, order, labels)


def _change_by_people(
    store: Store, program: str, order: np.ndarray, labels: dict[int, str]
) -> Drift | None:
    """A change among the random checks that there were at the latest look."""
    votes = store.votes(by_people=True)
    people = aggregate_labels(votes, store.form)
    numbers = store.answer_numbers()
    checked_at = {
        position: min(numbers[position, person].first for person in votes[position])
        for position in drawn_positions(store, program) & people.keys() & labels.keys()
    }
    n = size_of_look(len(checked_at))
    if n is None:
        return None
    at_look = set(sorted(checked_at, key=lambda position: checked_at[position])[:n])
    checked = [i for i, position in enumerate(order.tolist()) if position in at_look]
    is_wrong = [labels[order[i]] != people[order[i]] for i in checked]
    change = increase_at_look(is_wrong, n, _LEVEL, _generator(store, program, "people"))
    return None if change is None else _drift(change, np.array(checked), by_people=True)


def _change_by_model(
    store: Store, program: str, order: np.ndarray, labels: dict[int, str]
) -> Drift | None:
    """A change in how often the model contradicts the answers given until the latest look."""
    form = store.form
    predictions = predictions_of(store)
    n = size_of_look(len(order))
    if predictions is None or predictions.shape[1] != len(form.classes) or n is None:
        return None
    generator = _generator(store, program, "model")
    compared = np.arange(n)
    if n > _MAX_ANSWERS:
        compared = np.sort(generator.choice(compared, _MAX_ANSWERS, replace=False))
    numbers = np.array([form.classes.index(labels[p]) for p in order[compared].tolist()], int)
    is_contradicted = predictions[order[compared]].argmax(axis=1) != numbers
    change = increase_at_look(is_contradicted, n, _LEVEL, generator)
    return None if change is None else _drift(change, compared, by_people=False)


def _generator(store: Store, program: str, test: str) -> "np.random.Generator":
    """The generator of a test's random orders."""
    return derive_generator(store.settings.seed, "drift", program, test)


def _drift(change: Change, compared: np.ndarray, *, by_people: bool) -> Drift:
    """A change among the compared answers, given their numbers in the order of time."""
    return Drift(int(compared[change.start]), change.before, change.after, by_people)
