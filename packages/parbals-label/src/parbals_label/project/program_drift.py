"""Notice that a program or an LLM has become worse: a model was replaced, or a prompt.

Its answers in their order of time are 0 or 1: whether a randomly drawn check by people found the
answer wrong, and, for all its answers, whether the model's most probable class differs from it. Two
tests look for a time from which on there are more ones, each by the largest standardised difference
of means over all times (a scan statistic). The null distribution is that of random orders, so the
level holds for any number of answers.

Strategies choose the most informative items first, which tend to be difficult, so that a program
that does not change rather seems to become better: only an increase is looked for. Each test has
the level 0.01; how often a change is noticed, and falsely, is measured in ``studies/annotators``.
"""

from dataclasses import dataclass

import numpy as np
from parbals.randomness import derive_generator
from parbals.wording import percent

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.change_point import increase_in
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.features import predictions_of
from parbals_label.project.program_errors import random_positions
from parbals_label.store.store import Store

__all__ = ["Drift", "program_drift"]

_LEVEL = 0.01
"""Probability of a false alarm by each of the two tests, at one look."""
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
    generator = derive_generator(store.settings.seed, "drift", program)
    people = aggregate_labels(store.votes(by_people=True), form)
    checkable = random_positions(store, program) & people.keys()
    checked = [i for i, position in enumerate(order.tolist()) if position in checkable]
    is_wrong = [labels[order[i]] != people[order[i]] for i in checked]
    change = increase_in(is_wrong, generator)
    if change is not None and change.p_value <= _LEVEL:
        return Drift(checked[change.start], change.before, change.after, by_people=True)
    predictions = predictions_of(store)
    if predictions is None or predictions.shape[1] != len(form.classes):
        return None
    compared = np.arange(len(order))
    if len(order) > _MAX_ANSWERS:
        compared = np.sort(generator.choice(compared, _MAX_ANSWERS, replace=False))
    numbers = np.array([form.classes.index(labels[p]) for p in order[compared].tolist()], int)
    is_contradicted = predictions[order[compared]].argmax(axis=1) != numbers
    change = increase_in(is_contradicted, generator)
    if change is not None and change.p_value <= _LEVEL:
        n_before = int(compared[change.start])
        return Drift(n_before, change.before, change.after, by_people=False)
    return None
