"""Checks of a program's answers: people answer a random sample of its items, too.

A random sample measures the error of all the program's answers; items that were chosen because they
are difficult, or because answers differ, do not. Answers that the program is unsure of can be sent
to people, too: that corrects them, and measures nothing.
"""

from typing import NamedTuple

from parbals.errors import InputError
from parbals.randomness import derive_generator
from parbals.wording import PROGRAM_PREFIX, counted

from parbals_label.store.store import Store

__all__ = [
    "CHECK_SIZE",
    "Checks",
    "RandomChecks",
    "drawn_positions",
    "program_name",
    "queue_checks",
    "queue_unsure",
    "random_checks",
]

CHECK_SIZE = 20
"""Random answers to check that advice names; with 5 wrong ones the interval is 10 to 46 %."""
DRAWN = "answers drawn to check"
"""The kind of event that records a random sample of answers; stored, so it must not change."""


UNSURE = "unsure answers sent to people"
"""The kind of event that records answers of low confidence; stored, so it must not change."""


class Checks(NamedTuple):
    """Items whose labels by ``program`` wait to be checked by people.

    ``is_random`` is False where they are those that the program is least sure of.
    """

    program: str
    positions: list[int]
    is_random: bool = True

    @property
    def sentence(self) -> str:
        """What was done, in words."""
        if not self.is_random:
            n_answers = counted(len(self.positions), "answer", "answers")
            return (
                f"{n_answers} that {self.program} is least sure of wait on the labelling page for "
                "people, whose labels then count."
            )
        n_answers = counted(len(self.positions), "random answer", "random answers")
        return (
            f"{n_answers} of {self.program} wait on the labelling page to be checked by people. "
            "They were drawn at random, so they measure its error."
        )


def queue_checks(store: Store, n: int, program: str | None = None) -> Checks:
    """Draw ``n`` random answers of a program that no person has checked, and queue them for people.

    Audit items are left out: people label those anyway. Later calls continue the same random order.
    Answers that people got because the program was unsure of them are drawn like all others, or the
    sample would have too few of them.

    Args:
        store: of the project.
        n: number of answers; all, if there are fewer.
        program: its name, with or without ``machine:``; None if the project has only one.
    """
    name = program_name(store, program)
    sent_to_people = _positions_of(store, UNSURE, name) - drawn_positions(store, name)
    unchecked = _unchecked(store, name)
    if not unchecked:
        raise InputError(f"Every answer of {name} has been checked, or waits to be.")
    generator = derive_generator(store.settings.seed, "checks", name)
    order = generator.permutation(store.n_items).tolist()
    drawn_from = unchecked | sent_to_people
    positions = [position for position in order if position in drawn_from][:n]
    for position in positions:
        if position in unchecked:
            store.ask_again(position)
    last_answer = store.revision()[0]
    store.log(DRAWN, annotator=name, positions=positions, last_answer=last_answer)
    return Checks(name, positions)


def queue_unsure(store: Store, n: int, program: str | None = None) -> Checks:
    """Queue the ``n`` answers that a program is least sure of for people, whose labels then count.

    Args:
        store: of the project.
        n: number of answers; all, if there are fewer.
        program: its name, with or without ``machine:``; None if the project has only one.
    """
    name = program_name(store, program)
    unchecked = _unchecked(store, name)
    confidences = {
        position: confidence
        for (position, annotator), confidence in store.confidences().items()
        if annotator == name and position in unchecked
    }
    if not confidences:
        raise InputError(
            f"{name} does not say how sure it is of answers that people have not checked; check "
            "random ones with --check."
        )
    positions = sorted(confidences, key=lambda position: (confidences[position], position))[:n]
    for position in positions:
        store.ask_again(position)
    store.log(UNSURE, annotator=name, positions=positions)
    return Checks(name, positions, is_random=False)


def _unchecked(store: Store, name: str) -> set[int]:
    """Positions of a program's answers that no person has checked or is asked to check."""
    votes = store.votes()  # without programs where a person has answered
    requested = dict(store.settings.again).keys()
    excluded = {*store.settings.audit, *requested}
    return {p for p, by_annotator in votes.items() if name in by_annotator} - excluded


class RandomChecks(NamedTuple):
    """A random sample of a program's answers, and what it was drawn from.

    Attributes:
        population: positions of the answers that the program had given at the latest draw, without
            those that people had checked before and those of a kept sample.
        drawn: positions of the sample, a part of the population.
    """

    population: frozenset[int]
    drawn: frozenset[int]


def random_checks(store: Store, program: str) -> RandomChecks | None:
    """The latest random sample of a program's answers; None if there is none.

    Draws between which the program has given no answer are one sample. An earlier draw is of other
    answers: 20 of the first 500 and 20 of 5,000 are no random sample of the 5,000.
    """
    draws = [event.detail for event in store.events(DRAWN) if event.detail["annotator"] == program]
    if not draws:
        return None
    numbers = store.answer_numbers()
    at_latest_draw = draws[-1]["last_answer"]
    given = {
        position: numbers[position, program].last
        for position, by_annotator in store.current_labels().items()
        if program in by_annotator and numbers[position, program].last <= at_latest_draw
    }
    latest_answer = max(given.values(), default=0)
    sample = [draw for draw in draws if draw["last_answer"] >= latest_answer]
    earlier = draws[: len(draws) - len(sample)]
    drawn_earlier = {position for draw in earlier for position in draw["positions"]}
    checked_before = {
        position
        for position, by_person in store.votes(by_people=True).items()
        for person in by_person
        if numbers[position, person].first <= sample[0]["last_answer"]
    }
    population = given.keys() - checked_before - drawn_earlier - set(store.settings.audit)
    drawn = {position for draw in sample for position in draw["positions"]}
    return RandomChecks(frozenset(population), frozenset(population & drawn))


def drawn_positions(store: Store, program: str) -> set[int]:
    """Positions of all answers of a program that were drawn at random to be checked."""
    return _positions_of(store, DRAWN, program)


def _positions_of(store: Store, kind: str, program: str) -> set[int]:
    """Positions in all events of a kind about a program."""
    return {
        position
        for event in store.events(kind)
        if event.detail["annotator"] == program
        for position in event.detail["positions"]
    }


def program_name(store: Store, program: str | None) -> str:
    """The full name of a program that has answered."""
    programs = [a.name for a in store.annotators() if a.source == "machine" and a.answers]
    listed = ", ".join(programs) or "none"
    if program is None:
        if len(programs) == 1:
            return programs[0]
        raise InputError(f"Name the program with --name; there are {listed}.")
    full_name = f"{PROGRAM_PREFIX}{program.removeprefix(PROGRAM_PREFIX)}"
    if full_name not in programs:
        raise InputError(f"{full_name} has not answered; programs that have: {listed}.")
    return full_name
