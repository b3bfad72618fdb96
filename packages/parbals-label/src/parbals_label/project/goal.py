"""The goal of a project, progress towards it, and advice on the next step."""

from dataclasses import dataclass

from parbals.learner.evaluation.metric import LOSS_OF_METRIC
from parbals.learner.evaluation.report import (
    Measurement,
    Report,
    measured_error_sentence,
    metric_line,
    metric_words,
)
from parbals.wording import percent

from parbals_label.project.known_error import KnownError, error_format, known_error
from parbals_label.project.samples import RandomSample

__all__ = [
    "Advice",
    "Goal",
    "GoalPart",
    "advice",
    "goal_parts",
    "may_stop",
    "metric_lines",
    "metric_of",
    "metric_setting",
]

_MAX_UNMEASURED_SHARE = 0.99
"""Largest progress towards an error as long as no measurement shows that it is reached."""
_SELF_EXPLANATORY_METRICS = ("accuracy", "hamming", "rank-error", "rmse", "subset")


@dataclass(frozen=True)
class Goal:
    """A number of labels, an error to reach, both, or neither.

    >>> Goal(labels=200, error=0.05)
    Goal(labels=200, error=0.05)
    """

    labels: int | None = None
    error: float | None = None


@dataclass(frozen=True)
class GoalPart:
    """Progress towards one part of a goal.

    Attributes:
        share: progress from 0 to 1.
        sentence: the progress in words.
        is_expected: the model estimates that this part is reached, and nobody has measured it.
    """

    share: float
    sentence: str
    is_expected: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether this part is complete."""
        return self.share >= 1.0


@dataclass(frozen=True)
class Advice:
    """The next step.

    Attributes:
        sentence: the advice in words.
        stop: the goal is reached; or no item is left to choose; or there is no goal, and more
            labels hardly change the model, which may nevertheless be bad.
        is_reached: the goal is reached.
        measures: a random sample would tell whether the goal is reached.
    """

    sentence: str
    stop: bool = False
    is_reached: bool = False
    measures: bool = False


def goal_parts(
    goal: Goal, n_labelled: int, report: Report | None, sample: RandomSample | None = None
) -> list[GoalPart]:
    """Progress towards each part of the goal.

    Progress towards an error uses the upper bound of its interval. An estimate of the model never
    completes it: an audit or a random sample has to show that the error is reached.

    >>> goal_parts(Goal(labels=200), 50, None)
    [GoalPart(share=0.25, sentence='50 of 200 labels', is_expected=False)]
    """
    parts = []
    if goal.labels is not None:
        share = min(1.0, n_labelled / goal.labels)
        sentence = f"{n_labelled:,} of {goal.labels:,} labels"
        if n_labelled > goal.labels:
            sentence = f"{n_labelled:,} labels; the goal was {goal.labels:,}"
        parts.append(GoalPart(share, sentence))
    if goal.error is not None:
        parts.append(_error_part(goal.error, report, sample))
    return parts


def _error_part(goal_error: float, report: Report | None, sample: RandomSample | None) -> GoalPart:
    """Progress towards an error."""
    format_error = error_format(report)
    sentence = f"an error below {format_error(goal_error)}"
    known = _known_error(report, sample)
    if known is None:
        return GoalPart(0.0, sentence)
    high = known.error.high
    sentence += f"; {known.source} {format_error(known.error.mean)}"
    sentence += f" (90 % interval up to {format_error(high)})"
    is_below = high < goal_error
    if is_below and known.is_measured:
        return GoalPart(1.0, sentence)
    share = min(_MAX_UNMEASURED_SHARE, goal_error / max(high, 1e-9))
    return GoalPart(share, sentence, is_expected=is_below and not known.is_measured)


def advice(
    goal: Goal, n_labelled: int, report: Report | None, sample: RandomSample | None = None
) -> Advice:
    """What to do next, for a goal, the latest report and the latest random sample."""
    parts = goal_parts(goal, n_labelled, report, sample)
    if parts and all(part.is_reached for part in parts):
        return _goal_reached(report, sample)
    if parts and all(part.is_reached or part.is_expected for part in parts):
        return _goal_expected(sample)
    if report is None:
        return Advice("Keep labelling: the first estimate appears after a few labels.")
    if report.recall is not None:  # the goal is to find a rare class
        return Advice(report.advice, stop=report.stop, is_reached=report.stop)
    if report.batch_size == 0:  # no item is left to choose
        return Advice(report.advice, stop=True)
    if goal.error is not None and goal.labels is not None and n_labelled >= goal.labels:
        return _only_labels_reached(goal.error, report, sample)
    if report.stop and not parts:
        return Advice(f"{report.advice} Set an error goal to see how far away it is.", stop=True)
    return Advice(report.advice)


def _goal_reached(report: Report | None, sample: RandomSample | None) -> Advice:
    """The advice where every part of the goal is reached."""
    sentence = "Your goal is reached."
    known = _known_error(report, sample)
    if known is not None:
        format_error = error_format(report)
        sentence += f" The {known.source} error is {format_error(known.error.mean)}."
    return Advice(sentence, stop=True, is_reached=True)


def _only_labels_reached(goal_error: float, report: Report, sample: RandomSample | None) -> Advice:
    """The advice where there are enough labels, and the error is not shown to be low enough."""
    sentence = "You reached your label goal, but the error"
    known = _known_error(report, sample)
    if known is None:
        return Advice(f"{sentence} is not known yet.")
    if known.error.mean < goal_error:
        return Advice(f"{sentence} may still be above target.")
    return Advice(f"{sentence} is still above target.")


def _goal_expected(sample: RandomSample | None) -> Advice:
    """The advice where the model estimates that the goal is reached."""
    sentence = "The model expects that your goal is reached."
    if sample is not None and sample.result is None:
        return Advice(f"{sentence} {sample.sentence}")
    return Advice(f"{sentence} Label 60 random items to measure it.", measures=True)


def may_stop(measured: Measurement | None, target: float) -> tuple[bool, str]:
    """Whether the error is certified to be below ``target``, and a sentence that says so."""
    error = None if measured is None else measured.error
    is_certified = error is not None and error.high < target
    answer = "Yes." if is_certified else f"Not yet: the target is {percent(target)}."
    return is_certified, f"{answer} {measured_error_sentence(measured)}"


def metric_of(setting: str) -> str:
    """The metric that a project's setting ``loss`` stands for.

    >>> metric_of("error"), metric_of("f1:spam")
    ('accuracy', 'f1:spam')
    """
    return next((metric for metric, loss in LOSS_OF_METRIC.items() if loss == setting), setting)


def metric_setting(metric: str) -> str:
    """The setting ``loss`` of a metric: the name of its loss where it has one.

    >>> metric_setting("accuracy"), metric_setting("f1:spam")
    ('error', 'f1:spam')
    """
    return LOSS_OF_METRIC.get(metric, metric)


def metric_lines(metric: str, report: Report | None) -> list[str]:
    """A line that explains the metric; none if that is not needed or the report has such a line."""
    if metric in _SELF_EXPLANATORY_METRICS or metric_line(report):
        return []
    consequence = "It scores the probabilities, not the decisions."
    if metric != "log-loss":
        consequence = "The predicted class may not be the most probable one."
    return [f"Metric: {metric_words(metric)}. {consequence}"]


def _known_error(report: Report | None, sample: RandomSample | None) -> KnownError | None:
    """The error that tells about a goal: what the model expects says nothing beside an audit."""
    known = known_error(report, [] if sample is None else [sample])
    is_audited = report is not None and report.measured is not None
    if known is not None and not known.is_measured and is_audited:
        return None
    return known
