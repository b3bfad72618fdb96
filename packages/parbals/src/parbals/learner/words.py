"""What a report says, in words for people; it takes the report as plain values, and no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parbals.wording import percent

__all__ = ["Goal", "GoalPart", "advice", "certificate", "class_lines", "error_line", "may_stop"]
__all__ += ["goal_parts", "judged_line", "metric_line", "metric_words", "why_words"]

_HARDLY = 0.01
"""Ten labels that are expected to lower the log loss by a smaller share hardly help."""


@dataclass(frozen=True)
class Goal:
    """What people set out for: so many labels, an error to reach, both, or nothing."""

    labels: int | None = None
    error: float | None = None


@dataclass(frozen=True)
class GoalPart:
    """How far one part of a goal is: a ``share`` from 0 to 1, and the same in words."""

    share: float
    sentence: str

    @property
    def is_reached(self) -> bool:
        """Whether this part is done."""
        return self.share >= 1.0


def goal_parts(goal: Goal, n_labelled: int, report: Mapping[str, Any] | None) -> list[GoalPart]:
    """How far the goal is.

    An error counts with the upper end of its interval: the measured one, or without an audit the
    one that the model expects.
    """
    parts = []
    if goal.labels is not None:
        parts.append(
            GoalPart(
                min(1.0, n_labelled / goal.labels), f"{n_labelled:,} of {goal.labels:,} labels"
            )
        )
    if goal.error is not None:
        share, sentence = 0.0, f"an error below {percent(goal.error)}"
        error, source = _error(report)
        if error is not None:
            # The goal itself is not below the goal.
            share = 1.0 if error["high"] < goal.error else min(0.99, goal.error / error["high"])
            sentence += f"; {source} {percent(error['mean'])}, at most {percent(error['high'])}"
        parts.append(GoalPart(share, sentence))
    return parts


def advice(goal: Goal, n_labelled: int, report: Mapping[str, Any] | None) -> tuple[bool, str]:
    """Whether the goal is reached, and what to do.

    "Reached" is said of a goal that somebody set, never because labels help little: a model may be
    bad and hard to improve.
    """
    parts = goal_parts(goal, n_labelled, report)
    if parts and all(part.is_reached for part in parts):
        error, source = _error(report)
        known = "" if error is None else f" The {source} error is {percent(error['mean'])}."
        unsure = " Only an audit would measure it." if known and source != "measured" else ""
        return True, f"Your goal is reached.{known}{unsure}"
    if report is None:
        return False, "Go on: a first estimate appears once the model has learnt from a few labels."
    if report.get("recall") is not None:  # a rare class is looked for
        return bool(report["recall"]["stop"]), str(report["recall"]["advice"])
    gain, loss = report.get("next_gain"), (report.get("expected_log_loss") or {}).get("mean")
    if report.get("batch_size") == 0:
        return False, "Nothing is left to choose: every item is labelled, out or for measuring."
    if goal.labels is not None and n_labelled >= goal.labels:
        return False, "The labels you planned are given, but the error is above your goal."
    if gain is None or not loss:
        return False, "Go on: the model has not seen two classes yet."
    if gain / loss < _HARDLY:
        end = "" if parts else " Set a goal to know when to stop."
        return False, f"More labels hardly change the model; better features may help more.{end}"
    return False, "Go on: more labels still make the model better."


def _error(report: Mapping[str, Any] | None) -> tuple[Mapping[str, float] | None, str]:
    """The error as far as it is known, and whether it was measured or is the model's own word."""
    measured = (report or {}).get("measured")
    if measured is not None:
        return measured["error"], "measured"
    return (report or {}).get("expected_error"), "expected"


def error_line(report: Mapping[str, Any]) -> str:
    """What the model expects, in one sentence."""
    error = report["expected_error"]
    if error is None:
        return "The model has not seen two classes yet."
    return (
        f"expected error on {report['n_targets']:,} target points: {percent(error['mean'])} "
        f"(90 % interval {percent(error['low'])} to {percent(error['high'])})"
    )


def metric_words(metric: str) -> str:
    """A metric's name as people say it."""
    name, _, label = metric.partition(":")
    return f"F1 of {label}" if label else name.replace("-", " ")


def judged_line(metric: str, report: Mapping[str, Any] | None) -> list[str]:
    """What the model is judged by, where that is not accuracy and the report does not say it."""
    if metric == "accuracy" or metric_line(report or {}):
        return []
    means = "it is about the probabilities, not the decisions"
    if metric != "log-loss":
        means = "a class may be decided on that is not the most probable one"
    return [f"Judged by {metric_words(metric)}: {means}."]


def metric_line(report: Mapping[str, Any]) -> list[str]:
    """What the model is judged by, where that is neither the error nor the log loss."""
    value = report.get("expected_metric")
    if value is None:
        return []
    words = metric_words(str(report["metric"]))
    shares = (report.get("decide_from") or {}).items()
    decided = "".join(f"; {c} is decided from a probability of {p:.2f} on" for c, p in shares)
    return [
        f"expected {words}: {percent(value['mean'])} (90 % interval {percent(value['low'])} to "
        f"{percent(value['high'])}){decided}"
    ]


def why_words(
    predicted: Mapping[str, float] | None, similar: int | None = None, *, is_start: bool = False
) -> str:
    """Why this item: how sure the model is of it, and how many others depend on it.

    Classes between which the model wavers are named in the order of the project, without shares,
    and one that it is sure of is not named: a guess that is seen sways the reader.
    """
    if is_start or predicted is None:
        sentence = "One of the items that stand for the others, to begin with"
        if not is_start:
            sentence = "The model does not know this item yet"
    else:
        best = max(predicted.values())
        near = [label for label, share in predicted.items() if share > 0.5 * best]
        if len(near) == 1:
            sure = "is fairly sure of this one" if best >= 0.9 else "has a guess but is not sure"
            sentence = f"The model {sure}"
        elif len(near) <= 3:
            sentence = f"The model wavers between {_listed(near)}"
        else:
            sentence = "The model has no idea yet what this is"
    about = _about(similar or 0)
    return f"{sentence}; about {about} similar items depend on it." if about else f"{sentence}."


def _about(count: int) -> str:
    """A count with two digits that mean something; "" where it is not worth a word."""
    if count < 5:
        return ""
    size = 10 ** max(0, len(str(count)) - 2)
    return f"{round(count / size) * size:,}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def may_stop(measured: Mapping[str, Any] | None, wanted: float) -> tuple[bool, str]:
    """Whether the error is certified to be below ``wanted``, and the same in words."""
    is_certified = bool(measured and measured["error"] and measured["error"]["high"] < wanted)
    answer = "Yes" if is_certified else f"Not yet, for {percent(wanted)} is wanted"
    return is_certified, f"{answer}. {certificate(measured)}"


def certificate(measured: Mapping[str, Any] | None) -> str:
    """How large the error is: one sentence.

    ``measured`` is a report's, as a dictionary; None where there is no audit.
    """
    if measured is None:
        return (
            "How large the error is has not been measured: the expected error is the model's own "
            "expectation, and an audit would measure it."
        )
    error = measured["error"]
    if error is None:
        return (
            f"How large the error is will be measured as the {measured['n_audit']} random items of "
            "the audit are labelled."
        )
    return (
        f"With 95 % confidence the error is below {percent(error['high'])}: of {measured['n']} "
        f"random items the model of the first {measured['n_labels']:,} labels got "
        f"{measured['n_wrong']} wrong, {percent(error['mean'])} (90 % interval "
        f"{percent(error['low'])} to {percent(error['high'])})."
    )


def class_lines(measured: Mapping[str, Any] | None) -> list[str]:
    """Recall and precision of each class as far as the audit can tell, a line each."""
    if measured is None or measured["error"] is None:
        return []
    lines, silent = [], []
    for label in measured["recall"]:
        shares = [(name, measured[name][label]) for name in ("recall", "precision")]
        told = [
            f"{name} {percent(share['mean'])} ({percent(share['low'])} to {percent(share['high'])})"
            for name, share in shares
            if share is not None
        ]
        lines += [f"  {label}: {', '.join(told)}"] if told else []
        silent += [] if told else [str(label)]
    if silent:
        lines.append(f"  too few random items to tell: {', '.join(silent)}")
    return lines
