"""How good a program or an LLM is: its error, its agreement with people, and what it costs.

The error is the one of :mod:`parbals_label.project.program_errors`, like everywhere else.
"""

from dataclasses import dataclass, replace

from parbals.wording import counted, percent

from parbals_label.answer_form import NUMBERS
from parbals_label.project.alternative_test import (
    EPSILON,
    MIN_ITEMS,
    MIN_PEOPLE,
    AlternativeTest,
    alternative_test,
)
from parbals_label.project.checks import CHECK_SIZE, random_checks
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.program_drift import Drift, program_drift
from parbals_label.project.program_errors import CheckedError, program_errors
from parbals_label.project.program_mix import Mix, cheapest_mix
from parbals_label.project.program_shares import ProgramShares, program_shares
from parbals_label.store.replies import Usage, money
from parbals_label.store.store import Store

__all__ = ["ProgramReport", "program_reports"]

_MAX_CLASSES = 6
"""Classes whose shares a sentence names."""


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
        mix: the cheapest mix of people and the program that reaches it; None without a goal, or
            without enough random checks.
        drift: None if nothing shows that it has become worse.
        shares: class shares among its answers, corrected by people's checks; None if people have
            checked too few random answers.
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
    shares: ProgramShares | None = None
    mix: Mix | None = None
    drift: Drift | None = None

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
        """Further items that people label so that the export meets the goal; None without a mix."""
        return None if self.mix is None else self.mix.n_people

    @property
    def lines(self) -> list[str]:
        """The report in sentences."""
        return [
            self._verdict_line(),
            *self._error_lines(),
            *([self.drift.sentence(self.annotator)] if self.drift else []),
            self._test_line(),
            *self._share_lines(),
            *self._export_lines(),
            *self._cost_lines(),
        ]

    def _verdict_line(self) -> str:
        """Whether its error is below the goal, as far as random checks tell."""
        if self.error is None:
            return (
                "Good enough? Not known: have people check some of its answers "
                f"(label --check {CHECK_SIZE})."
            )
        error = self.error
        interval = f"{percent(error.low)} to {percent(error.high)}"
        if self.goal_error is None:
            return (
                "Good enough? Without a goal nobody can tell (--goal-error 5%); it is wrong in "
                f"{interval} of its answers."
            )
        goal = percent(self.goal_error)
        if error.is_random and error.low > self.goal_error:
            return f"Good enough? Not for {goal}: it is wrong in {interval} of its answers."
        if error.is_random and error.high < self.goal_error:
            return f"Good enough? Yes, for {goal}: it is wrong in {interval} of its answers."
        return (
            f"Good enough? Not known for {goal}: it is wrong in {interval} of its answers; more "
            "random checks would tell."
        )

    def _error_lines(self) -> list[str]:
        if self.error is None:
            return []
        error = self.error
        interval = f"{percent(error.low)} to {percent(error.high)}"
        line = (
            f"Error: wrong in {error.n_wrong:,} of {error.n_checked:,} answers that people "
            f"checked, {percent(error.share)} (90 % interval {interval})."
        )
        if error.is_random:
            return [line]
        advice = f"draw some that are by label --check {CHECK_SIZE}"
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

    def _share_lines(self) -> list[str]:
        if self.shares is None:
            return []
        likeliest = sorted(self.shares.classes, key=lambda row: -row.share.mean)[:_MAX_CLASSES]
        corrected = ", ".join(
            f"{row.name} {percent(row.share.mean)} ({percent(row.share.low)} to "
            f"{percent(row.share.high)})"
            for row in likeliest
        )
        by_program = ", ".join(f"{row.name} {percent(row.by_program)}" for row in likeliest)
        n_left = len(self.shares.classes) - len(likeliest)
        more = f" and {counted(n_left, 'smaller class', 'smaller classes')}" if n_left else ""
        return [
            f"Class shares among {self.shares.n_items:,} of its answers, corrected by "
            f"{self.shares.n_checked:,} random checks (90 % intervals): {corrected}{more}.",
            f"By its labels alone they would be {by_program}.",
        ]

    def _export_lines(self) -> list[str]:
        if self.export_error is None:
            return []
        share, low, high = self.export_error
        lines = [
            f"Exported labels would be wrong in {percent(share)} ({percent(low)} to "
            f"{percent(high)}) if it labels everything that people do not."
        ]
        if self.mix is not None:
            lines += self.mix.lines
        elif self.goal_error is None:
            lines.append(
                "Which mix of people and it is the cheapest? Set a goal: --goal-error 0.05."
            )
        else:
            lines.append(
                "Which mix of people and it is the cheapest? Not known; have people check random "
                "answers (label --check 60)."
            )
        return lines

    def _cost_lines(self) -> list[str]:
        if self.cost_of_rest is None:
            return []
        return [
            f"The other {self.n_unlabelled:,} items would cost about {money(self.cost_of_rest)} "
            "in the currency of --price."
        ]


def program_reports(
    store: Store, usages: list[Usage], human_cost: float | None = None
) -> list[ProgramReport]:
    """A report on every program and LLM that has labelled.

    Args:
        store: of the project.
        usages: what LLMs have used.
        human_cost: cost of a label by a person, in the currency of ``usages``.
    """
    programs = {
        name: answers.error
        for name, answers in program_errors(store).items()
        if name == answers.program
    }
    if not programs:
        return []
    form = store.form
    current = store.current_labels()
    votes = store.votes(by_people=True, decided=False)
    people = aggregate_labels(store.votes(by_people=True), form)
    usage_by_name = {usage.annotator: usage for usage in usages}
    reports = []
    for name, error in programs.items():
        labels = {position: by[name] for position, by in current.items() if name in by}
        report = ProgramReport(
            annotator=name,
            n_labels=len(labels),
            n_items=store.n_items,
            n_people=len(people),
            n_unlabelled=store.n_items - store.n_labelled,
            error=error,
            test=None if form.task == NUMBERS else alternative_test(votes, labels),
            usage=usage_by_name.get(name),
            goal_error=store.settings.goal_error or None,
            shares=program_shares(store, name),
            drift=program_drift(store, name),
        )
        mix = _mix(store, report, labels, people, human_cost)
        reports.append(replace(report, mix=mix))
    return reports


def _mix(
    store: Store,
    report: ProgramReport,
    labels: dict[int, str],
    people: dict[int, str],
    human_cost: float | None,
) -> Mix | None:
    """The cheapest mix that reaches the goal; None without a goal or enough random checks."""
    if report.goal_error is None or report.error is None or not report.error.is_random:
        return None
    confidences = {
        position: confidence
        for (position, name), confidence in store.confidences().items()
        if name == report.annotator
    }
    sample = random_checks(store, report.annotator)
    assert sample is not None  # the error is random
    checked = sample.drawn & people.keys()
    return cheapest_mix(
        goal_error=report.goal_error,
        n_items=report.n_items,
        n_by_people=report.n_people,
        confidences=list(confidences.values()),
        checks=[(confidences.get(p), labels[p] != people[p]) for p in checked],
        program_cost=report.cost_of_rest,
        human_cost=human_cost,
    )
