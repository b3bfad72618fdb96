"""The cheapest mix of people and a program that reaches a goal.

People relabel a share q of the program's answers and are taken as right; the program's other
answers stay. Wrong labels that stay are a share (1 - q) θ of its answers, where θ is the program's
error among them. The smallest q is wanted for which (1 - q) θ is at most a limit t.

* *At random.* If the answers to relabel are drawn at random, θ is the error of all answers. Its
  upper limit u gives q = 1 - t / u.
* *By confidence.* If they are the ones that the program is least sure of, θ_q is the error of the
  surer ones. Starting with everything relabelled, q is lowered step by step while the upper limit
  of (1 - q) θ_q stays within t, and the first step that fails ends it (fixed-sequence testing:
  Bauer 1991; for prediction rules Angelopoulos et al. 2021). So no correction for the many steps
  is needed.

Limits are confidence sequences (:func:`parbals.learner.evaluation.limits.sequence_limits`) from
answers that were drawn at random and checked. Both ways have half of the probability 0.05 of a
failure, so the better one may be taken: in at least 95 of 100 projects the labels that are exported
have no more errors than the goal, also if people check one answer after the other until the mix
pleases them. Answers that the program has yet to give are assumed to be like those that it gave.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from parbals.learner.evaluation.limits import sequence_limits
from parbals.wording import percent

from parbals_label.store.replies import money

__all__ = ["CheckedAnswer", "Mix", "Relabelling", "cheapest_mix", "relabelling"]

_DELTA = 0.05
"""Probability that more labels are wrong than the goal allows."""
_N_STEPS = 50
"""Steps in which the share of answers to relabel is lowered."""

CheckedAnswer = tuple[float | None, bool]
"""The program's confidence in a randomly checked answer, and whether it was wrong."""


@dataclass(frozen=True)
class Relabelling:
    """Which of a program's answers people relabel.

    Attributes:
        share: of its answers.
        threshold: answers with at most this confidence are relabelled; None for random ones.
        estimated_share: the share that would do if the estimated error were the true one.
    """

    share: float
    threshold: float | None
    estimated_share: float


def relabelling(
    confidences: Sequence[float], checks: Sequence[CheckedAnswer], limit: float
) -> Relabelling:
    """The smallest share of answers to relabel so that at most ``limit`` of them stay wrong.

    Two of a hundred checked answers are wrong, and a twentieth may be:

    >>> round(relabelling([], [(None, i < 2) for i in range(100)], 0.05).share, 3)
    0.416
    >>> relabelling([], [(None, i < 2) for i in range(100)], 0.10).share
    0.0

    Args:
        confidences: of all the program's answers; may be empty.
        checks: the answers that were drawn at random and checked.
        limit: largest share of wrong answers.
    """
    n_wrong = sum(wrong for _, wrong in checks)
    delta = _DELTA / 2 if len(confidences) else _DELTA
    high = sequence_limits(n_wrong, len(checks), delta)[1]
    share = max(0.0, 1.0 - limit / high)
    estimated_share = max(0.0, 1.0 - limit * len(checks) / n_wrong) if n_wrong else 0.0
    best = Relabelling(share, None, estimated_share)
    if not len(confidences):
        return best
    by_confidence = _by_confidence(np.asarray(confidences), checks, limit, delta)
    return by_confidence if by_confidence.share < share else best


def _by_confidence(
    confidences: np.ndarray, checks: Sequence[CheckedAnswer], limit: float, delta: float
) -> Relabelling:
    """As :func:`relabelling`, where people relabel what the program is least sure of."""
    thresholds = np.quantile(confidences, np.linspace(1.0, 0.0, _N_STEPS + 1), method="lower")
    best = Relabelling(1.0, None, 1.0)
    estimated_share = 1.0
    is_sure = True
    for threshold in [*dict.fromkeys(thresholds.tolist()), -1.0]:
        share_kept = float((confidences > threshold).mean())
        # Answers without a confidence are relabelled.
        wrong = [is_wrong for value, is_wrong in checks if value is not None and value > threshold]
        high = sequence_limits(sum(wrong), len(wrong), delta)[1] if wrong else 1.0
        is_sure = is_sure and share_kept * high <= limit
        if is_sure:
            best = Relabelling(1.0 - share_kept, threshold, 1.0)
        if share_kept * (np.mean(wrong) if wrong else 1.0) <= limit:
            estimated_share = min(estimated_share, 1.0 - share_kept)
    return Relabelling(best.share, best.threshold, min(estimated_share, best.share))


@dataclass(frozen=True)
class Mix:
    """The cheapest mix of people and a program for a goal.

    Attributes:
        goal_error: share of exported labels that may be wrong.
        n_people: items that people label besides those that they have labelled.
        n_estimated: as many would do if the estimated error were the true one.
        threshold: of the program's confidence, up to which they do; None for random items.
        n_checked: random checks that this follows from.
        program_cost: of the labels that the program has yet to give; None if it is not known.
        human_cost: of one label by a person; None if it is not known.
        n_open: items that no person has labelled.
    """

    goal_error: float
    n_people: int
    n_estimated: int
    threshold: float | None
    n_checked: int
    program_cost: float | None
    human_cost: float | None
    n_open: int

    @property
    def cost(self) -> float | None:
        """What the mix costs from now on; None if the cost of a person's label is not known."""
        if self.human_cost is None:
            return None
        return self.n_people * self.human_cost + (self.program_cost or 0.0)

    @property
    def lines(self) -> list[str]:
        """The mix in sentences."""
        goal = percent(self.goal_error)
        if not self.n_people:
            return [f"The goal is {goal}: its labels meet it without further labels of people."]
        selection = "chosen at random"
        if self.threshold is not None:
            selection = f"those it is least sure of (confidence up to {self.threshold:.2g})"
        lines = [
            f"The goal is {goal}: people label {self.n_people:,} more items, {selection}, and it "
            "labels the rest; then the goal is met with 95 % certainty."
        ]
        if self.n_estimated < self.n_people:
            lines.append(
                f"By its estimated error {self.n_estimated:,} would do; more random checks than "
                f"{self.n_checked:,} bring the two numbers together."
            )
        if self.cost is not None and self.human_cost is not None:
            alone = self.n_open * self.human_cost
            verdict = f"people alone would cost {money(alone)}"
            lines.append(f"This mix costs about {money(self.cost)} from now on; {verdict}.")
        return lines


def cheapest_mix(
    goal_error: float,
    n_items: int,
    n_by_people: int,
    confidences: Sequence[float],
    checks: Sequence[CheckedAnswer],
    program_cost: float | None = None,
    human_cost: float | None = None,
) -> Mix:
    """The mix that reaches a goal at the least cost.

    Args:
        goal_error: share of exported labels that may be wrong.
        n_items: of the project; ``n_by_people`` of them have a label of a person.
        n_by_people: see above.
        confidences: of all the program's answers; empty if it gives none.
        checks: the answers that were drawn at random and checked.
        program_cost: of the labels that the program has yet to give.
        human_cost: of one label by a person.
    """
    n_open = n_items - n_by_people
    if not n_open:
        return Mix(goal_error, 0, 0, None, len(checks), program_cost, human_cost, 0)
    best = relabelling(confidences, checks, goal_error * n_items / n_open)
    return Mix(
        goal_error=goal_error,
        n_people=int(np.ceil(best.share * n_open)),
        n_estimated=int(np.ceil(best.estimated_share * n_open)),
        threshold=best.threshold,
        n_checked=len(checks),
        program_cost=program_cost,
        human_cost=human_cost,
        n_open=n_open,
    )
