"""The report: where the labelling stands, as a record, as plain values, and in words for people.

*Expected* is what the model says without a new label
(:mod:`parbals.learner.evaluation.expectation`). It is as honest as the model. *Measured* is what an
audit has found: an interval that assumes nothing of the model
(:mod:`parbals.learner.evaluation.audit`). docs/explanation/coverage.md compares both with the
truth. Nothing here needs a model: a stored report is read back and put into words at once.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import NoneType
from typing import Any, Self, get_args, get_origin, get_type_hints

from parbals.errors import InputError
from parbals.types import Estimate
from parbals.wording import percent

__all__ = ["NEGLIGIBLE", "Estimate", "Measurement", "Recall", "Report"]
__all__ += ["class_lines", "error_line", "expected_error", "label_lines"]
__all__ += ["measured_error_sentence", "metric_line", "metric_words", "with_interval"]

NEGLIGIBLE = 0.01
"""A batch that would lower the expected log loss by a smaller share hardly changes the model."""
_UNKNOWN = Estimate(math.nan, math.nan, math.nan)
_ESTIMATES = ("expected_error", "expected_log_loss")
_WORDS = {"error": "error", "hamming": "Hamming loss", "rmse": "RMSE"}


@dataclass(frozen=True)
class Measurement:
    """What the audit says at the latest look (:mod:`parbals.learner.evaluation.looks`).

    Attributes:
        error: share of wrong decisions on random items; None until the look holds audit labels.
        n: audit labels that it rests on; n_wrong of them the model got wrong.
        n_audit: how many items the audit has.
        n_labels: the look: the first so many labels, those of the audit included.
        recall, precision: of each class, over the audit's items that have this label, and that
            get this decision; None where they are fewer than five. Each interval is by itself a
            90 % one.
        loss: what ``error`` is: "error", the share of wrong decisions; "hamming", that of wrong
            labels where items have several; "rmse", of numbers.
    """

    error: Estimate | None
    n: int
    n_wrong: int
    n_audit: int
    n_labels: int
    recall: dict[Any, Estimate | None]
    precision: dict[Any, Estimate | None]
    loss: str = "error"


@dataclass(frozen=True)
class Recall:
    """How much of one class has been found.

    Attributes:
        label: the class; found: how many items have this label.
        left: how many are expected among the items without a label, with a 90 % interval.
        recall: found of all there are, likewise.
        measured: the same from the audit's random items; None without labels of an audit.
        next_finds: how many of the next twenty items are expected to be of the class.
        stop: five or more are found, and the recall is at least 90 % by the lower end of its
            interval, or eighty more labels are expected to find fewer than one.
        advice: all that in words.
    """

    label: Any
    found: int
    left: Estimate
    recall: Estimate
    measured: Estimate | None
    next_finds: float
    stop: bool
    advice: str


@dataclass(frozen=True)
class Report:
    """Where the labelling stands.

    Attributes:
        expected_error: share of wrong decisions on the target set, as the model expects it.
        expected_log_loss: nats a point on the target set. Both are NaN until a model of your own
            has seen two classes.
        class_balance: how many labels each class has.
        batch_size: how many labels ``next_gain`` is about; 0 when nothing is left to label.
        next_gain: how far these are expected to lower the log loss, nats a point; None when nothing
            is left to label, where there is no model yet, or where it has too few samples to tell.
        measured: what the audit says; None without one.
        recall: how much of the class that the learner is to find has been found; None where it is
            to find none. ``stop`` and ``advice`` are then about that.
        metric: what the model is judged by.
        expected_metric: balanced accuracy, F1 or what else the metric is, on the target set, as
            the model expects it; None where that is the error or the log loss, which are there.
        decide_from: then the probability from which a class is decided, where one number says it.
        task: what a label is. With several labels an item ``expected_error`` is the Hamming loss
            and ``expected_log_loss`` is of one label; with numbers there is neither, and
            ``expected_metric`` is the root mean squared error.
        label_errors: where items have several labels, the expected error of each.
    """

    n_items: int
    n_labelled: int
    n_pending: int
    n_targets: int
    class_balance: dict[Any, int]
    expected_error: Estimate
    expected_log_loss: Estimate
    batch_size: int
    next_gain: float | None
    warnings: tuple[str, ...] = ()
    measured: Measurement | None = None
    recall: Recall | None = None
    metric: str = "accuracy"
    expected_metric: Estimate | None = None
    decide_from: dict[Any, float] | None = None
    task: str = "classes"
    label_errors: dict[Any, Estimate] | None = None

    @property
    def stop(self) -> bool:
        """Whether nothing is left to choose, or more labels hardly change the model.

        That is no praise: a model may be bad and hard to improve.
        """
        return _advice(self)[1]

    @property
    def advice(self) -> str:
        """What to do next, in words."""
        return _advice(self)[0]

    @property
    def measured_error(self) -> Estimate | None:
        """The error on random items of the pool with a 90 % interval, however often one looks."""
        return None if self.measured is None else self.measured.error

    @property
    def certified(self) -> float | None:
        """The error is below this with 95 % confidence, however often one looks."""
        return None if self.measured_error is None else self.measured_error.high

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: classes by their names, None for what is not known."""
        plain = _plain(asdict(self))
        plain |= {name: None for name in _ESTIMATES if not getattr(self, name).known}
        return plain | {name: getattr(self, name) for name in ("stop", "advice", "certified")}

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        """The report behind the plain values of ``to_dict``; its classes are texts.

        An ``InputError`` says what is missing or is not what it should be.
        """
        return _read(cls, record, "report")

    def __str__(self) -> str:
        balance = ", ".join(f"{label}: {count}" for label, count in self.class_balance.items())
        of_each = f" ({balance})" if balance else ""
        lines = [
            f"{self.n_labelled} of {self.n_items} items labelled{of_each}, {self.n_pending} pending"
        ]
        if self.task == "regression":
            lines.append(error_line(self))
        if self.expected_error.known:
            gain = ""
            if self.next_gain is not None:
                share = percent(self.next_gain / (self.expected_log_loss.mean or math.inf))
                gain = f"; the next {self.batch_size} labels are expected to lower it by {share}"
            loss = f"expected log loss: {self.expected_log_loss}{gain}"
            lines += [error_line(self), loss, *metric_line(self), *label_lines(self)]
        known = self.expected_error.known or self.expected_metric is not None
        if known or self.measured is not None:
            lines += [measured_error_sentence(self.measured), *class_lines(self.measured)]
        return "\n".join([*lines, self.advice, *self.warnings])


def _plain(value: Any) -> Any:
    return {str(k): _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _read(kind: Any, value: Any, name: str) -> Any:
    """``value`` as a ``kind``: a record, a mapping of texts, a tuple, a number, a text."""
    origin, parts = get_origin(kind), get_args(kind)
    if NoneType in parts:
        return None if value is None else _read(parts[0], value, name)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
        hints = get_type_hints(kind)
        unknown = _ESTIMATES if kind is Report else ()
        read: dict[str, Any] = {}
        for part in (one.name for one in fields(kind)):
            if part not in value:
                raise InputError(f"The {name} has no {part}, so it is not one of ours.")
            is_unknown = value[part] is None and part in unknown
            read[part] = _UNKNOWN if is_unknown else _read(hints[part], value[part], part)
        return kind(**read)
    if origin is dict and isinstance(value, Mapping):
        return {str(key): _read(parts[1], part, name) for key, part in value.items()}
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(parts[0], part, name) for part in value)
    if kind is Any and isinstance(value, str | int):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number and abs(value) < 1e300:  # neither NaN nor infinite
        return float(value)
    if kind in (int, bool, str) and type(value) is kind:
        return value
    raise InputError(f"The report's {name} is {value!r:.60}, which is not what a report holds.")


def _advice(report: Report) -> tuple[str, bool]:
    """What to do next, in words, and whether that is to stop."""
    if report.recall is not None:  # a rare class is looked for
        return report.recall.advice, report.recall.stop
    if report.batch_size == 0:
        return "Nothing is left to choose: every item is labelled, out or for measuring.", True
    if report.next_gain is None and report.expected_error.known:
        return "Go on: the model gives too few samples to tell what more labels would gain.", False
    if report.next_gain is None:
        return "Go on: the model has not seen two classes yet.", False
    # A nat a point divides the error of numbers by e, whatever its unit.
    whole = 1.0 if report.task == "regression" else report.expected_log_loss.mean
    if report.next_gain <= NEGLIGIBLE * whole:
        return "More labels hardly change the model; better features may help more.", True
    return "Go on: more labels still make the model better.", False


def expected_error(report: Report) -> Estimate | None:
    """The error that the model expects, of numbers the RMSE; None where there is no model yet."""
    if report.task == "regression":
        return report.expected_metric
    return report.expected_error if report.expected_error.known else None


# -- lines about a report


def error_line(report: Report) -> str:
    """What the model expects, in one sentence."""
    if report.task == "regression":
        known = report.expected_metric
        on = f"on {report.n_targets:,} target points"
        return f"expected RMSE {known} {on}" if known else "The model has not seen two labels yet."
    error = report.expected_error
    if not error.known:
        return "The model has not seen two classes yet."
    what = _WORDS["hamming" if report.task == "many-labels" else "error"]
    return f"expected {what} on {report.n_targets:,} target points: {with_interval(error)}"


def label_lines(report: Report) -> list[str]:
    """The expected error of each label, where items have several."""
    errors = (report.label_errors or {}).items()
    return [f"  {label}: expected error {with_interval(error)}" for label, error in errors]


def metric_line(report: Report | None) -> list[str]:
    """What the model is judged by, where that is neither the error nor the log loss."""
    if report is None or report.expected_metric is None or report.task == "regression":
        return []
    shares = (report.decide_from or {}).items()
    decided = "".join(f"; {c} is decided from a probability of {p:.2f} on" for c, p in shares)
    is_share = report.metric != "rank-error"
    value = with_interval(report.expected_metric) if is_share else report.expected_metric
    return [f"expected {metric_words(report.metric)}: {value}{decided}"]


def metric_words(metric: str) -> str:
    """The name of a metric as people read it."""
    name, _, label = metric.partition(":")
    return f"F1 of {label}" if label else name.replace("-", " ")


def measured_error_sentence(measured: Measurement | None) -> str:
    """How large the error is: one sentence; ``measured`` is None where there is no audit."""
    if measured is None:
        return (
            "How large the error is has not been measured: the expected error is the model's own "
            "expectation, and an audit would measure it."
        )
    if measured.error is not None and measured.loss != "error":
        shown = "{:.3g}".format if measured.loss == "rmse" else percent
        mean, low, high = map(shown, (measured.error.mean, measured.error.low, measured.error.high))
        return (
            f"With 95 % confidence the {_WORDS[measured.loss]} is below {high}: on {measured.n} "
            f"random items that of the model of the first {measured.n_labels:,} labels is {mean} "
            f"(90 % interval {low} to {high})."
        )
    if measured.error is None:
        return (
            f"How large the error is will be measured as the {measured.n_audit} random items of "
            "the audit are labelled."
        )
    return (
        f"With 95 % confidence the error is below {percent(measured.error.high)}: of {measured.n} "
        f"random items the model of the first {measured.n_labels:,} labels got "
        f"{measured.n_wrong} wrong, {with_interval(measured.error)}."
    )


def class_lines(measured: Measurement | None) -> list[str]:
    """Recall and precision of each class as far as the audit can tell, a line each."""
    if measured is None or measured.error is None:
        return []
    lines, silent = [], []
    for label, recall in measured.recall.items():
        told = [
            f"{name} {percent(share.mean)} ({percent(share.low)} to {percent(share.high)})"
            for name, share in (("recall", recall), ("precision", measured.precision[label]))
            if share is not None
        ]
        lines += [f"  {label}: {', '.join(told)}"] if told else []
        silent += [] if told else [str(label)]
    if silent:
        lines.append(f"  too few random items to tell: {', '.join(silent)}")
    return lines


def with_interval(share: Estimate) -> str:
    """A share and its interval in words."""
    return f"{percent(share.mean)} (90 % interval {percent(share.low)} to {percent(share.high)})"
