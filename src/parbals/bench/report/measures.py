"""What results are judged by, and how each of the five measures is written."""

from dataclasses import dataclass

from parbals.errors import InputError

__all__ = ["MEASURES", "Measure", "measure_named"]


@dataclass(frozen=True)
class Measure:
    """A measure of the records.

    Tables and pictures show ``scale`` times it, with ``digits`` after the point.
    """

    key: str
    title: str
    unit: str
    scale: float
    digits: int
    lower_is_better: bool
    explained: str

    @property
    def best(self) -> str:
        return "lowest" if self.lower_is_better else "highest"

    def difference(self, value: float) -> str:
        """A difference in words: "0.62 points", "0.0130 nats"."""
        return f"{abs(value):.{self.digits}f} {'points' if self.unit == '%' else self.unit}"


_ALL = (
    Measure(
        "accuracy",
        "Test accuracy",
        "%",
        100.0,
        2,
        False,
        "The share of test points that are classified right.",
    ),
    Measure(
        "log_loss",
        "Log loss",
        "nats",
        1.0,
        4,
        True,
        "The mean of −ln p of the true class: confident mistakes cost most. This is what EPIG "
        "reduces.",
    ),
    Measure(
        "calibration_error",
        "Calibration error",
        "%",
        100.0,
        2,
        True,
        "How far the stated confidence is from the share that is right, averaged over 15 bins of "
        "confidence.",
    ),
    Measure(
        "f1",
        "F1",
        "%",
        100.0,
        2,
        False,
        "The harmonic mean of precision and recall: with two classes of the positive one, with "
        "more the mean over the classes.",
    ),
    Measure(
        "balanced_accuracy",
        "Balanced accuracy",
        "%",
        100.0,
        2,
        False,
        "The mean of the classes' recalls, so that a rare class counts as much as a common one.",
    ),
)
MEASURES = {measure.key: measure for measure in _ALL}


def measure_named(name: str) -> Measure:
    """ "log_loss" or "log-loss"; any other name is refused."""
    found = MEASURES.get(name.strip().lower().replace("-", "_"))
    if found is None:
        raise InputError(f"There is no metric {name!r}; choose one of {', '.join(MEASURES)}.")
    return found
