"""Checks of a program's answers: people answer a random sample of its items, too.

A random sample measures the error of all the program's answers; items that were chosen because they
are difficult, or because answers differ, do not.
"""

from typing import NamedTuple

from parbals.errors import InputError
from parbals.randomness import derive_generator
from parbals.wording import PROGRAM_PREFIX, counted

from parbals_label.store.store import Store

__all__ = ["Checks", "Draw", "drawn_positions", "draws_of", "queue_checks"]

DRAWN = "answers drawn to check"
"""The kind of event that records a random sample of answers; stored, so it must not change."""


class Checks(NamedTuple):
    """Items whose labels by ``program`` wait to be checked by people."""

    program: str
    positions: list[int]

    @property
    def sentence(self) -> str:
        """What was done, in words."""
        n_answers = counted(len(self.positions), "random answer", "random answers")
        return (
            f"{n_answers} of {self.program} wait on the labelling page to be checked by people. "
            "They were drawn at random, so they measure its error."
        )


def queue_checks(store: Store, n: int, program: str | None = None) -> Checks:
    """Draw ``n`` random answers of a program that no person has checked, and queue them for people.

    Audit items are left out: people label those anyway. Later calls continue the same random order.

    Args:
        store: of the project.
        n: number of answers; all, if there are fewer.
        program: its name, with or without ``machine:``; None if the project has only one.
    """
    name = _program_name(store, program)
    votes = store.votes()  # without programs where a person has answered
    asked = dict(store.settings.again).keys()
    excluded = {*store.settings.audit, *asked}
    unchecked = {p for p, by_annotator in votes.items() if name in by_annotator} - excluded
    if not unchecked:
        raise InputError(f"Every answer of {name} has been checked, or waits to be.")
    generator = derive_generator(store.settings.seed, "checks", name)
    order = generator.permutation(store.n_items).tolist()
    positions = [position for position in order if position in unchecked][:n]
    for position in positions:
        store.ask_again(position)
    last_answer = store.revision()[0]
    store.log(DRAWN, annotator=name, positions=positions, last_answer=last_answer)
    return Checks(name, positions)


class Draw(NamedTuple):
    """Answers that were drawn at random to be checked.

    Attributes:
        positions: of their items.
        last_answer: number of the latest answer in the project at that time; -1 if it is not known.
    """

    positions: list[int]
    last_answer: int


def draws_of(store: Store, program: str) -> list[Draw]:
    """All draws of a program's answers, oldest first."""
    return [
        Draw(event.detail["positions"], event.detail.get("last_answer", -1))
        for event in store.events(DRAWN)
        if event.detail["annotator"] == program
    ]


def drawn_positions(store: Store, program: str) -> set[int]:
    """Positions of all answers of a program that were drawn at random to be checked."""
    return {position for draw in draws_of(store, program) for position in draw.positions}


def _program_name(store: Store, program: str | None) -> str:
    """The full name of a program that has answered."""
    programs = [a.name for a in store.annotators() if a.source == "machine" and a.answers]
    listed = ", ".join(programs) or "none"
    if program is None:
        if len(programs) == 1:
            return programs[0]
        raise InputError(
            f"Name the program whose answers to check with --name; there are {listed}."
        )
    full_name = f"{PROGRAM_PREFIX}{program.removeprefix(PROGRAM_PREFIX)}"
    if full_name not in programs:
        raise InputError(f"{full_name} has not answered; programs that have: {listed}.")
    return full_name
