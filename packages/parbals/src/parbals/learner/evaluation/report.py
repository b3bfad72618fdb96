"""The report: the state of the labelling as a record, as plain values, and in words.

*Expected* values are the model's own estimates, without new labels
(:mod:`parbals.learner.evaluation.expectation`). They are only as good as the model. *Measured*
values come from an audit: their intervals assume nothing about the model
(:mod:`parbals.learner.evaluation.audit`). docs/explanation/coverage.md compares both with the
truth. This module needs no model: it reads a stored report back and puts it into words.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from types import NoneType
from typing import Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from parbals.errors import InputError
from parbals.learner.evaluation.class_shift import ClassShift
from parbals.learner.evaluation.shift import Shift
from parbals.types import Estimate
from parbals.wording import percent, percent_above, percent_below

__all__ = [
    "NEGLIGIBLE_GAIN",
    "EarlierLimit",
    "Estimate",
    "Measurement",
    "Recall",
    "Report",
    "class_lines",
    "error_line",
    "expected_error",
    "label_lines",
    "measured_error_sentence",
    "metric_line",
    "metric_words",
    "with_interval",
]

NEGLIGIBLE_GAIN = 0.01
"""If the next batch is expected to lower the log loss by a smaller share, labelling may stop."""
_UNKNOWN = Estimate(math.nan, math.nan, math.nan)
_NULLABLE_ESTIMATES = ("expected_error", "expected_log_loss")
"""Estimates of a report that are NaN before there is a model, and None among its plain values."""
_LOSS_WORDS = {"error": "error", "hamming": "Hamming loss", "rmse": "RMSE"}
_MAX_FLOAT = 1e300
"""Bound that neither NaN nor infinity passes."""


@dataclass(frozen=True)
class EarlierLimit:
    """The upper limit of the error of an earlier model.

    Attributes:
        n_labels: number of labels at that look, audit labels included.
        high: the limit.
    """

    n_labels: int
    high: float


@dataclass(frozen=True)
class Measurement:
    """The audit's result at the latest look (:mod:`parbals.learner.evaluation.looks`).

    Attributes:
        error: the loss on random items, see ``loss``; None before the first look.
        n: number of audit labels that it is based on.
        n_wrong: number of these that the model got wrong; 0 in regression.
        n_audit: number of items in the audit.
        n_labels: number of labels that the look uses, the earliest ones; audit labels included.
        recall, precision: of each class, over the audit items with this label or this decision;
            None where there are fewer than five. Each interval alone is a 90 % one.
        loss: what ``error`` measures: "error", the share of wrong decisions; "hamming", the share
            of wrong labels in multi-label tasks; "rmse" in regression, whose limits hold if the
            errors are normal, and otherwise about.
        earlier: the limit at the full audit, where it is lower than that of the later look.
        median_error: in regression an upper limit of the median absolute error; it holds for any
            distribution of the errors. None if there are too few audit labels.
    """

    error: Estimate | None
    n: int
    n_wrong: int
    n_audit: int
    n_labels: int
    recall: dict[Any, Estimate | None]
    precision: dict[Any, Estimate | None]
    loss: str = "error"
    earlier: EarlierLimit | None = None
    median_error: float | None = None


@dataclass(frozen=True)
class Recall:
    """How much of one class has been found (:mod:`parbals.learner.evaluation.find`).

    Attributes:
        label: the class.
        found: number of items with this label.
        left: expected number among the items without a label, with a 90 % interval.
        recall: share of the class that has been found, with a 90 % interval.
        measured: the recall estimated from the audit's random items alone; None without audit
            labels.
        next_finds: expected number of items of the class among the next twenty.
        stop: whether five or more are found, and either the lower limit of the recall is at least
            90 % or eighty more labels are expected to find fewer than one.
        advice: the above in words.
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
    """The state of the labelling: how good the model is, and whether more labels would help.

    >>> report = Report(
    ...     n_items=100,
    ...     n_labelled=20,
    ...     n_pending=0,
    ...     n_targets=100,
    ...     class_balance={"ham": 15, "spam": 5},
    ...     expected_error=Estimate(0.08, 0.02, 0.15),
    ...     expected_log_loss=Estimate(0.2, 0.1, 0.3),
    ...     batch_size=10,
    ...     next_gain=0.03,
    ... )
    >>> report.stop, report.advice
    (False, 'Go on: more labels still make the model better.')

    Attributes:
        n_items: number of items in the pool.
        n_labelled: number of items with a label.
        n_pending: number of items that were requested and have no label yet.
        n_targets: number of target points that the expected values are about.
        class_balance: number of labels of each class.
        expected_error: share of wrong decisions on the target set, as the model expects it.
        expected_log_loss: log loss on the target set, as the model expects it, in nats per target
            point. Both are NaN while a user's own model has no labels of two classes.
        batch_size: number of labels that ``next_gain`` is about; 0 when nothing is left to label.
        next_gain: expected decrease of the log loss by these labels, in nats per target point; None
            when nothing is left to label, when there is no model yet, or when the model has too few
            samples to tell.
        warnings: of the model's diagnostics.
        measured: the audit's result; None without an audit.
        recall: how much of the rare class has been found; None if the learner has no ``find``. If
            it has, ``stop`` and ``advice`` are about that search.
        metric: the metric that the learner optimises.
        expected_metric: the metric on the target set, as the model expects it; None where it is the
            error or the log loss, which the report has anyway.
        decide_from: {class: probability from which it is decided}; None if decisions do not depend
            on a threshold for one class.
        task: the kind of labels. In multi-label tasks ``expected_error`` is the Hamming loss and
            ``expected_log_loss`` is per label. In regression both are NaN, and ``expected_metric``
            is the RMSE.
        label_errors: expected error of each label in multi-label tasks.
        pool_error: expected error on the pool, in regression the RMSE; None without a target set,
            where all expected values are about the pool.
        shift: how different the target set is from the pool; None without a target set.
        class_shift: how different the shares of the classes are; None without a target set, with
            few rows of it, and where items have numbers or several labels. Where they differ, the
            intervals of expected values on the target set hold every possible value.
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
    pool_error: Estimate | None = None
    shift: Shift | None = None
    class_shift: ClassShift | None = None

    @property
    def stop(self) -> bool:
        """Whether nothing is left to choose, or more labels hardly change the model.

        This does not mean that the model is good: it may be bad and hard to improve.
        """
        return _advice(self).stop

    @property
    def advice(self) -> str:
        """What to do next, in words."""
        return _advice(self).text

    @property
    def measured_error(self) -> Estimate | None:
        """The error on random items of the pool, with a 90 % interval valid at every look."""
        return None if self.measured is None else self.measured.error

    @property
    def certified(self) -> float | None:
        """Upper bound of the error with 95 % confidence at all looks; of an RMSE, about."""
        return None if self.measured_error is None else self.measured_error.high

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON: class names as texts, None for unknown values."""
        values = _with_text_keys(asdict(self))
        for name in _NULLABLE_ESTIMATES:
            if not getattr(self, name).known:
                values[name] = None
        values["stop"] = self.stop
        values["advice"] = self.advice
        values["certified"] = self.certified
        return values

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        """Read a report back from the plain values of ``to_dict``; its classes are then texts.

        Raises:
            InputError: where a value is missing or has the wrong type.
        """
        return _parse(cls, record, "report")

    def __str__(self) -> str:
        balance = ", ".join(f"{label}: {count}" for label, count in self.class_balance.items())
        balance_words = f" ({balance})" if balance else ""
        lines = [
            f"{self.n_labelled} of {self.n_items} items labelled{balance_words}, "
            f"{self.n_pending} pending"
        ]
        if self.task == "regression":
            lines.append(error_line(self))
        if self.expected_error.known:
            lines.append(error_line(self))
            log_loss: Estimate | str = self.expected_log_loss
            if _has_no_interval(self):
                log_loss = f"{self.expected_log_loss.mean:.3g}"
            lines.append(f"expected log loss: {log_loss}{_gain_words(self)}")
            lines += metric_line(self)
            lines += label_lines(self)
        has_expectation = self.expected_error.known or self.expected_metric is not None
        if has_expectation or self.measured is not None:
            lines.append(measured_error_sentence(self.measured))
            lines += class_lines(self.measured)
        lines.append(self.advice)
        lines += self.warnings
        if self.shift is not None and not self.shift.is_notable:
            lines.append(self.shift.sentence)
        return "\n".join(lines)


def _has_no_interval(report: Report) -> bool:
    """Whether a warning says that the expected error has no interval: it holds every value."""
    error = report.expected_error
    return error.low == 0.0 and error.high == 1.0


def _expected_words(report: Report, share: Estimate) -> str:
    """Write an expected share on the target set."""
    if _has_no_interval(report):
        return f"{percent(share.mean)} (no interval)"
    return with_interval(share)


def _gain_words(report: Report) -> str:
    """Say by which share the next labels are expected to lower the log loss."""
    if report.next_gain is None:
        return ""
    share = report.next_gain / (report.expected_log_loss.mean or math.inf)
    return f"; the next {report.batch_size} labels are expected to lower it by {percent(share)}"


def _with_text_keys(value: Any) -> Any:
    """Convert the keys of nested dictionaries to texts."""
    if not isinstance(value, dict):
        return value
    return {str(key): _with_text_keys(child) for key, child in value.items()}


def _parse(annotation: Any, value: Any, name: str) -> Any:
    """Convert plain values to an annotated type, recursively, and check every one of them.

    It handles the annotations that a report has: dataclasses, ``X | None``, ``dict[Any, X]`` with
    texts as keys, ``tuple[X, ...]``, ``float``, ``int``, ``bool``, ``str``, and ``Any`` for a
    class.

    Args:
        name: of the value, for messages.
    """
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if NoneType in arguments:
        return None if value is None else _parse(arguments[0], value, name)
    is_record = isinstance(annotation, type) and is_dataclass(annotation)
    if is_record and isinstance(value, Mapping):
        return _parse_record(annotation, value, name)
    if origin is dict and isinstance(value, Mapping):
        return {str(key): _parse(arguments[1], child, name) for key, child in value.items()}
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_parse(arguments[0], child, name) for child in value)
    if annotation is Any and isinstance(value, str | int):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is float and is_number and abs(value) < _MAX_FLOAT:
        return float(value)
    if annotation in (int, bool, str) and type(value) is annotation:
        return value
    raise InputError(f"The report's {name} is {value!r:.60}, which is not what a report holds.")


def _parse_record(record_type: Any, value: Mapping[str, Any], name: str) -> Any:
    """Convert a mapping to a dataclass; only fields with a default may be missing.

    A field that is added with a default does not make reports unreadable that were stored earlier.
    """
    annotations = get_type_hints(record_type)
    nullable = _NULLABLE_ESTIMATES if record_type is Report else ()
    arguments: dict[str, Any] = {}
    for field in fields(record_type):
        field_name = field.name
        if field_name not in value:
            if field.default is not MISSING:
                continue
            raise InputError(f"The {name} has no {field_name}, so parbals did not write it.")
        field_value = value[field_name]
        if field_value is None and field_name in nullable:
            arguments[field_name] = _UNKNOWN
        else:
            arguments[field_name] = _parse(annotations[field_name], field_value, field_name)
    return record_type(**arguments)


class _Advice(NamedTuple):
    """What to do next in words, and whether it is to stop."""

    text: str
    stop: bool


def _advice(report: Report) -> _Advice:
    """Advise whether to go on labelling."""
    if report.recall is not None:
        return _Advice(report.recall.advice, report.recall.stop)
    if report.batch_size == 0:
        return _Advice(
            "Nothing is left to choose: every item is labelled, pending or a test item.", stop=True
        )
    if report.next_gain is None and report.expected_error.known:
        return _Advice(
            "Go on: the model gives too few samples to tell what more labels would gain.",
            stop=False,
        )
    if report.next_gain is None:
        return _Advice("Go on: the model has not seen two classes yet.", stop=False)
    # In regression a gain of one nat per point divides the error by e, whatever its unit is.
    log_loss = 1.0 if report.task == "regression" else report.expected_log_loss.mean
    if report.next_gain <= NEGLIGIBLE_GAIN * log_loss:
        return _Advice(
            "More labels hardly change the model; better features may help more.", stop=True
        )
    return _Advice("Go on: more labels still make the model better.", stop=False)


def expected_error(report: Report) -> Estimate | None:
    """Return the expected error, in regression the RMSE; None where there is no model yet."""
    if report.task == "regression":
        return report.expected_metric
    return report.expected_error if report.expected_error.known else None


# -- lines about a report


def error_line(report: Report) -> str:
    """Describe the expected error in one sentence."""
    if report.task == "regression":
        if report.expected_metric is None:
            return "The model has not seen two labels yet."
        if report.pool_error is not None:
            on_pool = f"{report.pool_error} on the pool"
            return f"expected RMSE {report.expected_metric} on the target set, {on_pool}"
        return f"expected RMSE {report.expected_metric} on {report.n_targets:,} target points"
    error = report.expected_error
    if not error.known:
        return "The model has not seen two classes yet."
    loss = _LOSS_WORDS["hamming" if report.task == "many-labels" else "error"]
    if report.pool_error is not None:
        on_pool = f"on the pool: {with_interval(report.pool_error)}"
        return f"expected {loss} on the target set: {_expected_words(report, error)}; {on_pool}"
    words = _expected_words(report, error)
    return f"expected {loss} on {report.n_targets:,} target points: {words}"


def label_lines(report: Report) -> list[str]:
    """Describe the expected error of each label in multi-label tasks."""
    errors = (report.label_errors or {}).items()
    return [f"  {label}: expected error {with_interval(error)}" for label, error in errors]


def metric_line(report: Report | None) -> list[str]:
    """Describe the expected metric; empty where it is the error or the log loss."""
    if report is None or report.expected_metric is None or report.task == "regression":
        return []
    is_share = report.metric != "rank-error"
    value: Estimate | str = report.expected_metric
    if is_share:
        value = _expected_words(report, report.expected_metric)
    line = f"expected {metric_words(report.metric)}: {value}"
    for label, threshold in (report.decide_from or {}).items():
        line += f"; {label} is predicted from a probability of {threshold:.2f}"
    return [line]


def metric_words(metric: str) -> str:
    """Write a metric's name for people.

    >>> metric_words("f1:spam")
    'F1 of spam'
    """
    name, _, label = metric.partition(":")
    return f"F1 of {label}" if label else name.replace("-", " ")


def measured_error_sentence(measured: Measurement | None) -> str:
    """State the measured error, or why there is none; ``measured`` is None without an audit."""
    if measured is None:
        return (
            "The error is estimated by the model and has not been measured; label a random sample "
            "to measure it."
        )
    error = measured.error
    if error is None:
        return (
            f"The error will be measured as the {measured.n_audit} random test items are labelled."
        )
    model = f"the model trained on the first {measured.n_labels:,} labels"
    if measured.loss == "rmse":
        return _rmse_sentences(measured, model)
    earlier = ""
    if measured.earlier is not None:
        earlier = (
            f" The model trained on the first {measured.earlier.n_labels:,} labels has an error of "
            f"at most {percent_above(measured.earlier.high)}."
        )
    if measured.loss == "error":
        # Post-stratified: the share of wrong items alone would be another number.
        is_corrected = percent(error.mean) != percent(measured.n_wrong / measured.n)
        correction = "corrected for how hard they are: " if is_corrected else ""
        result = f"{measured.n_wrong} wrong, {correction}{with_interval(error)}"
        return (
            f"With 95 % confidence the error is at most {percent_above(error.high)}: of "
            f"{measured.n} random items {model} got {result}.{earlier}"
        )
    loss = _LOSS_WORDS[measured.loss]
    return (
        f"With 95 % confidence the {loss} is below {percent(error.high)}: on {measured.n} random "
        f"items that of {model} is {percent(error.mean)} "
        f"(90 % interval {percent(error.low)} to {percent(error.high)}).{earlier}"
    )


def _rmse_sentences(measured: Measurement, model: str) -> str:
    """State the measured RMSE, and the limit of the median error, which needs no assumption."""
    error = measured.error
    assert error is not None
    sentence = (
        f"On {measured.n} random items the RMSE of {model} is {error.mean:.3g} (90 % interval "
        f"{error.low:.3g} to {error.high:.3g} if its errors are normal, otherwise about)."
    )
    if measured.median_error is None:
        return sentence
    return (
        f"{sentence} With 95 % confidence half of its errors on such items are at most "
        f"{measured.median_error:.3g}."
    )


def class_lines(measured: Measurement | None) -> list[str]:
    """Describe the measured recall and precision of each class, one line per class."""
    if measured is None or measured.error is None:
        return []
    lines = []
    unmeasured_classes = []
    for label, recall in measured.recall.items():
        shares = {"recall": recall, "precision": measured.precision[label]}
        parts = [
            f"{name} {percent(share.mean)} ({percent(share.low)} to {percent(share.high)})"
            for name, share in shares.items()
            if share is not None
        ]
        if parts:
            lines.append(f"  {label}: {', '.join(parts)}")
        else:
            unmeasured_classes.append(str(label))
    if unmeasured_classes:
        lines.append(f"  too few random items to tell: {', '.join(unmeasured_classes)}")
    return lines


def with_interval(share: Estimate) -> str:
    """Write a share with its interval, whose ends are rounded outwards.

    >>> with_interval(Estimate(0.05, 0.02, 0.09))
    '5 % (90 % interval 2 % to 9 %)'
    """
    interval = f"{percent_below(share.low)} to {percent_above(share.high)}"
    return f"{percent(share.mean)} (90 % interval {interval})"
