"""The error that a project shows first: the measured one, else the one that the model expects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parbals.learner.evaluation.report import Report, expected_error
from parbals.types import Estimate
from parbals.wording import counted, percent

from parbals_label.project.samples import RandomSample

__all__ = ["KnownError", "error_format", "known_error", "known_error_line"]


@dataclass(frozen=True)
class KnownError:
    """The error as far as it is known.

    Attributes:
        error: with a 90 % interval.
        is_measured: by random labels; otherwise the model's own estimate.
        n_labels: labels that the model had.
        target: the target set that the random items are of; None for items of the project.
        by_sample: measured once, by a sample that counts wrong items, whatever the metric is.
    """

    error: Estimate
    is_measured: bool
    n_labels: int
    target: str | None = None
    by_sample: bool = False

    @property
    def source(self) -> str:
        """How the error is known, in one word."""
        return "measured" if self.is_measured else "expected"


def known_error(report: Report | None, samples: Sequence[RandomSample] = ()) -> KnownError | None:
    """The error measured by the kept sample, else by the latest complete one, else the expected.

    A sample that is being labelled does not replace the result of an earlier one.
    """
    if report is not None and report.measured_error is not None:
        return KnownError(report.measured_error, True, report.n_labelled)
    for sample in reversed(samples):
        if sample.result is not None:
            return KnownError(
                error=sample.result.error,
                is_measured=True,
                n_labels=sample.result.n_labels,
                target=sample.target,
                by_sample=True,
            )
    error = None if report is None else expected_error(report)
    if report is None or error is None:
        return None
    return KnownError(error, False, report.n_labelled)


def known_error_line(report: Report, samples: Sequence[RandomSample], n_labelled: int) -> list[str]:
    """The measured error and its date, in labels; none before the error was measured."""
    known = known_error(report, samples)
    if known is None or not known.is_measured:
        return []
    show = error_format(report)
    error = known.error
    where = "" if known.target is None else f" on the target set {known.target}"
    line = (
        f"measured error{where}: {show(error.mean)} (90 % interval {show(error.low)} to "
        f"{show(error.high)}), with {counted(known.n_labels, 'label')}"
    )
    n_newer = n_labelled - known.n_labels
    if n_newer > 0:
        line += f"; {counted(n_newer, 'label is', 'labels are')} newer"
    return [line]


def error_format(report: Report | None) -> Callable[[float], str]:
    """A function that formats errors: as a percentage, or as an RMSE in the unit of the labels."""
    if report is not None and report.task == "regression":
        return "{:.3g}".format
    return percent
