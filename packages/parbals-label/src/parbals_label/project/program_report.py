"""How good a program or an LLM is: its error, its agreement with people, and what it costs.

The error is measured on answers that people have checked: items that both have labelled, where
people are taken as right. Its interval is exact (Clopper and Pearson): whatever the error is, nine
in ten random samples have an interval that holds it. Where enough of these items were chosen at
random, only they count; otherwise the report says that they were not.
"""

from dataclasses import dataclass

from parbals.learner.evaluation.certify import CERTIFY
from parbals.learner.evaluation.looks import clopper_pearson_limits
from parbals.wording import counted, percent

from parbals_label.answer_form import NUMBERS
from parbals_label.project.alternative_test import (
    EPSILON,
    MIN_ITEMS,
    MIN_PEOPLE,
    AlternativeTest,
    alternative_test,
)
from parbals_label.project.checks import drawn_positions
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.replies import Usage, money
from parbals_label.store.store import Store

__all__ = ["CheckedError", "ProgramReport", "program_reports"]

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


@dataclass(frozen=True)
class ProgramReport:
    """Whether a program is good enough.

    Attributes:
        annotator: its name.
        n_labels: its labels.
        n_items: items of the project; ``n_people`` of them have a label of a person.
        n_unlabelled: items without any label.
        error: its error; None if nobody has checked an answer, or labels are numbers.
        test: the alternative annotator test; None if too few people share items with it.
        usage: what it has used so far; None for programs other than LLMs.
        goal_error: the error that the project is to reach; None without one.
    """

    annotator: str
    n_labels: int
    n_items: int
    n_people: int
    n_unlabelled: int
    error: CheckedError | None
    test: AlternativeTest | None
    usage: Usage | None
    goal_error: float | None

    @property
    def cost_of_rest(self) -> float | None:
        """What labelling the remaining items would cost, at the cost of a label so far."""
        if self.usage is None or self.usage.cost is None or not self.n_labels:
            return None
        return self.usage.cost / self.n_labels * self.n_unlabelled

    @property
    def export_error(self) -> tuple[float, float, float] | None:
        """Error of exported labels, and its interval, if it labels all that people do not.

        Labels of people are taken as right.
        """
        if self.error is None:
            return None
        share = 1.0 - self.n_people / self.n_items
        return share * self.error.share, share * self.error.low, share * self.error.high

    @property
    def n_for_goal(self) -> int | None:
        """Further items that people label, chosen at random, so that the export meets the goal.

        By the upper end of the error's interval; None without a goal or an error.
        """
        if self.error is None or self.goal_error is None:
            return None
        n_program = self.n_items - self.n_people
        n_allowed = self.goal_error * self.n_items / self.error.high
        return max(0, round(n_program - n_allowed + 0.5))

    @property
    def lines(self) -> list[str]:
        """The report in sentences."""
        return [
            *self._error_lines(),
            self._test_line(),
            *self._export_lines(),
            *self._cost_lines(),
        ]

    def _error_lines(self) -> list[str]:
        if self.error is None:
            return ["Error: not known; have people check some of its answers (label --check 20)."]
        error = self.error
        interval = f"{percent(error.low)} to {percent(error.high)}"
        line = (
            f"Error: wrong in {error.n_wrong:,} of {error.n_checked:,} answers that people "
            f"checked, {percent(error.share)} (90 % interval {interval})."
        )
        if error.is_random:
            return [line]
        advice = "draw some that are by label --check 20"
        return [line, f"These were not all chosen at random, so it may be misleading; {advice}."]

    def _test_line(self) -> str:
        if self.test is None:
            return (
                "Does it agree with people as they agree with each other? Not known; the "
                f"alternative annotator test needs {MIN_PEOPLE} people with {MIN_ITEMS} items each "
                "that it and another person have labelled, too."
            )
        verdict = "Yes" if self.test.passed else "Not shown"
        return (
            f"Does it agree with people as they agree with each other? {verdict}; it replaces "
            f"{self.test.n_beaten} of {counted(self.test.n_people, 'person', 'people')} by the "
            f"alternative annotator test (ε = {EPSILON:g}, mean advantage probability "
            f"{self.test.advantage:.2f})."
        )

    def _export_lines(self) -> list[str]:
        if self.export_error is None:
            return []
        share, low, high = self.export_error
        lines = [
            f"Exported labels would be wrong in {percent(share)} ({percent(low)} to "
            f"{percent(high)}) if it labels everything that people do not."
        ]
        n_more = self.n_for_goal
        if n_more is not None and self.goal_error is not None:
            advice = "this meets the goal"
            if n_more:
                advice = f"people label {n_more:,} more items, chosen at random, to be sure of it"
            lines.append(f"The goal is {percent(self.goal_error)}: {advice}.")
        return lines

    def _cost_lines(self) -> list[str]:
        if self.cost_of_rest is None:
            return []
        return [
            f"The other {self.n_unlabelled:,} items would cost about {money(self.cost_of_rest)}."
        ]


def program_reports(store: Store, usages: list[Usage]) -> list[ProgramReport]:
    """A report on every program and LLM that has labelled; ``usages`` is what LLMs have used."""
    names = [annotator.name for annotator in store.annotators() if annotator.source == "machine"]
    if not names:
        return []
    form = store.form
    current = store.current_labels()
    votes = store.votes(by_people=True, decided=False)
    people = aggregate_labels(store.votes(by_people=True), form)
    usage_by_name = {usage.annotator: usage for usage in usages}
    random_positions = {name: _random_positions(store, name) for name in names}
    reports = []
    for name in names:
        labels = {position: by[name] for position, by in current.items() if name in by}
        is_wrong = {p: labels[p] != people[p] for p in labels.keys() & people.keys()}
        has_error = form.task != NUMBERS
        reports.append(
            ProgramReport(
                annotator=name,
                n_labels=len(labels),
                n_items=store.n_items,
                n_people=len(people),
                n_unlabelled=store.n_items - store.n_labelled,
                error=_error(is_wrong, random_positions[name]) if has_error else None,
                test=alternative_test(votes, labels) if has_error else None,
                usage=usage_by_name.get(name),
                goal_error=store.settings.goal_error or None,
            )
        )
    return reports


def _error(is_wrong: dict[int, bool], random_positions: set[int]) -> CheckedError | None:
    """The error among checked answers, on random items where there are enough of them."""
    random_checks = [wrong for position, wrong in is_wrong.items() if position in random_positions]
    is_random = len(random_checks) >= _MIN_RANDOM
    checks = random_checks if is_random else list(is_wrong.values())
    if not checks:
        return None
    return CheckedError.of(len(checks), sum(checks), is_random=is_random)


def _random_positions(store: Store, name: str) -> set[int]:
    """Items that were chosen at random: to check this program, or to measure the model's error."""
    samples = store.batches(CERTIFY)
    positions = {item.position for batch in samples for item in batch.items}
    return positions.union(store.settings.audit, drawn_positions(store, name))
