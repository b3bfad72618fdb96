"""What people set out for, how far it is, and what to do next."""

from collections.abc import Callable
from dataclasses import dataclass

from parbals.learner.evaluation.metric import METRICS
from parbals.learner.evaluation.report import (
    Measurement,
    Report,
    expected_error,
    measured_error_sentence,
    metric_line,
    metric_words,
)
from parbals.types import Estimate
from parbals.wording import percent

from parbals_label.project.certified import CertificateSample

__all__ = ["Advice", "Goal", "GoalPart", "advice", "goal_parts", "may_stop", "metric_lines"]
__all__ += ["metric_of", "metric_setting"]


@dataclass(frozen=True)
class Goal:
    """What people set out for: so many labels, an error to reach, both, or nothing."""

    labels: int | None = None
    error: float | None = None


@dataclass(frozen=True)
class GoalPart:
    """How far one part of a goal is: a ``share`` from 0 to 1, and the same in words.

    ``is_expected``: the model expects that it is reached, and nobody has measured it.
    """

    share: float
    sentence: str
    is_expected: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether this part is done."""
        return self.share >= 1.0


@dataclass(frozen=True)
class Advice:
    """What to do next.

    Attributes:
        sentence: in words.
        stop: the goal is reached; or nothing is left to choose; or no goal was set, and more labels
            hardly change the model. That is no praise: a model may be bad and hard to improve.
        is_reached: what somebody set out for is reached.
        measures: a random sample would tell whether it is.
    """

    sentence: str
    stop: bool = False
    is_reached: bool = False
    measures: bool = False


def goal_parts(
    goal: Goal, n_labelled: int, report: Report | None, sample: CertificateSample | None = None
) -> list[GoalPart]:
    """How far the goal is.

    An error counts with the upper end of its interval. What the model expects, however good, is
    never the whole way: an audit or a random sample shows that an error is reached.
    """
    parts = []
    if goal.labels is not None:
        share = min(1.0, n_labelled / goal.labels)
        parts.append(GoalPart(share, f"{n_labelled:,} of {goal.labels:,} labels"))
    if goal.error is not None:
        shown = _shown(report)
        share, sentence = 0.0, f"an error below {shown(goal.error)}"
        error, source = _error(report, sample)
        is_below = error is not None and error.high < goal.error  # the goal itself is not below it
        if error is not None:
            share = min(0.99, goal.error / max(error.high, 1e-9))
            sentence += f"; {source} {shown(error.mean)}, at most {shown(error.high)}"
        if is_below and source == "measured":
            share = 1.0
        parts.append(GoalPart(share, sentence, is_below and source != "measured"))
    return parts


def advice(
    goal: Goal, n_labelled: int, report: Report | None, sample: CertificateSample | None = None
) -> Advice:
    """What to do, for a goal, the latest report and the latest random sample."""
    parts = goal_parts(goal, n_labelled, report, sample)
    if parts and all(part.is_reached for part in parts):
        error, source = _error(report, sample)
        shown = _shown(report)
        known = "" if error is None else f" The {source} error is {shown(error.mean)}."
        return Advice(f"Your goal is reached.{known}", stop=True, is_reached=True)
    if parts and all(part.is_reached or part.is_expected for part in parts):
        expects = "The model expects to have reached your goal"
        if sample is not None and sample.result is None:
            return Advice(f"{expects}: {sample.sentence}")
        return Advice(f"{expects}; 60 random labels would show it.", measures=True)
    if report is None:
        return Advice(
            "Go on: a first estimate appears once the model has learnt from a few labels."
        )
    if report.recall is not None:  # a rare class is looked for
        return Advice(report.advice, report.stop, report.stop)
    if report.batch_size == 0:
        return Advice(report.advice, stop=True)
    if goal.labels is not None and n_labelled >= goal.labels:
        return Advice("The labels you planned are given, but the error is above your goal.")
    if report.stop and not parts:
        return Advice(f"{report.advice} Set a goal to know when to stop.", stop=True)
    return Advice(report.advice)


def may_stop(measured: Measurement | None, wanted: float) -> tuple[bool, str]:
    """Whether the error is certified to be below ``wanted``, and the same in words."""
    error = None if measured is None else measured.error
    is_certified = error is not None and error.high < wanted
    answer = "Yes" if is_certified else f"Not yet, for {percent(wanted)} is wanted"
    return is_certified, f"{answer}. {measured_error_sentence(measured)}"


def metric_of(setting: str) -> str:
    """The metric behind what a project remembers of it."""
    return next((metric for metric, loss in METRICS.items() if loss == setting), setting)


def metric_setting(metric: str) -> str:
    """What a project remembers of a metric: its loss, or its own name."""
    return METRICS.get(metric, metric)


def metric_lines(metric: str, report: Report | None) -> list[str]:
    """What the model is judged by, where that is not accuracy and the report does not say it."""
    if metric in ("accuracy", "hamming", "rank-error", "rmse", "subset") or metric_line(report):
        return []
    means = "it is about the probabilities, not the decisions"
    if metric != "log-loss":
        means = "a class may be decided on that is not the most probable one"
    return [f"Judged by {metric_words(metric)}: {means}."]


def _shown(report: Report | None) -> Callable[[float], str]:
    """How an error is written: a share, or an RMSE in units of labels."""
    is_share = report is None or report.task != "regression"
    return percent if is_share else "{:.3g}".format


def _error(report: Report | None, sample: CertificateSample | None) -> tuple[Estimate | None, str]:
    """The error as far as it is known, and whether it was measured or is the model's own word."""
    if report is not None and report.measured is not None:
        return report.measured.error, "measured"
    if sample is not None and sample.result is not None:
        return sample.result.error, "measured"
    return None if report is None else expected_error(report), "expected"
