"""The metrics that are recorded after every round, and how tables show them.

There are five, and one of the suite's own: ``metric = "module:name"`` in its settings names a
function of probabilities (N, C) and class numbers (N,) that returns a number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import numpy as np
from parbals.errors import InputError

__all__ = [
    "METRICS",
    "OWN_METRIC",
    "Metric",
    "calibration_error",
    "describe_own_metric",
    "load_metric",
    "measure",
    "metric_named",
]

OWN_METRIC = "own"
"""Key of a suite's own metric."""

_MIN_PROBABILITY = 1e-12
"""A true class of probability 0 costs ln(1e12) instead of infinity."""


@dataclass(frozen=True)
class Metric:
    """Tables and pictures show ``scale`` times the recorded number, to ``digits`` decimals."""

    key: str
    title: str
    explanation: str
    lower_is_better: bool = False
    unit: str = "%"
    scale: float = 100.0
    digits: int = 2

    @property
    def best(self) -> str:
        return "lowest" if self.lower_is_better else "highest"

    @property
    def in_words(self) -> str:
        """The title in the middle of a sentence: "test accuracy", "F1"."""
        return self.title if self.key == "f1" else self.title.lower()


METRICS = {
    metric.key: metric
    for metric in (
        Metric("accuracy", "Test accuracy", "The share of test points that are classified right."),
        Metric(
            "log_loss",
            "Log loss",
            "The mean of −ln p of the true class: confident mistakes cost most. This is what EPIG "
            "reduces.",
            lower_is_better=True,
            unit="nats",
            scale=1.0,
            digits=4,
        ),
        Metric(
            "calibration_error",
            "Calibration error",
            "How far the stated confidence is from the share that is right, averaged over 15 bins "
            "of confidence.",
            lower_is_better=True,
        ),
        Metric(
            "f1",
            "F1",
            "The harmonic mean of precision and recall: with two classes of the positive one, with "
            "more the mean over the classes.",
        ),
        Metric(
            "balanced_accuracy",
            "Balanced accuracy",
            "The mean of the classes' recalls, so that a rare class counts as much as a common "
            "one.",
        ),
    )
}


def metric_named(name: str) -> Metric:
    """ "log_loss" or "log-loss"; any other name is refused."""
    metric = METRICS.get(name.strip().lower().replace("-", "_"))
    if metric is None:
        raise InputError(f"There is no metric {name!r}; choose one of {', '.join(METRICS)}.")
    return metric


def describe_own_metric(reference: str, *, lower_is_better: bool) -> Metric:
    """How tables show the metric ``module:name``.

    >>> describe_own_metric("shop:revenue", lower_is_better=False).title
    'Revenue'
    """
    title = reference.rpartition(":")[2].replace("_", " ").capitalize()
    return Metric(
        OWN_METRIC,
        title,
        f"The suite's own metric, {reference}.",
        lower_is_better=lower_is_better,
        unit="as the function returns it",
        scale=1.0,
        digits=4,
    )


def load_metric(reference: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """The function ``module:name``."""
    try:
        function = EntryPoint("metric", reference, "").load()
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"The metric {reference!r} cannot be loaded ({error}); write module:name, where name "
            "is a function of probabilities (N, C) and class numbers (N,)."
        ) from None
    if not callable(function):
        raise InputError(f"The metric {reference!r} is no function.")
    checked: Callable[[np.ndarray, np.ndarray], float] = function
    return checked


def _own_value(reference: str, probs: np.ndarray, truth: np.ndarray) -> float:
    try:
        value = float(load_metric(reference)(probs, truth))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The metric {reference!r} failed ({error}); it is called with probabilities (N, C) "
            "and class numbers (N,), and returns a number."
        ) from None
    if not np.isfinite(value):
        raise InputError(f"The metric {reference!r} returned {value}, which is not finite.")
    return value


def measure(probs: np.ndarray, truth: np.ndarray, reference: str = "") -> dict[str, float]:
    """Every metric of probs (N, C) against class numbers (N,), and the suite's own.

    F1 is that of class 1 when there are two classes, else the mean over the classes that occur or
    are predicted. Balanced accuracy is the mean recall of the classes that occur.
    """
    from sklearn.metrics import precision_recall_fscore_support

    classes = np.arange(probs.shape[1])
    predicted = probs.argmax(axis=1)
    _, recall, f1, counts = precision_recall_fscore_support(
        truth, predicted, labels=classes, zero_division=0.0
    )
    occurs = counts > 0
    at_truth = probs[np.arange(len(truth)), truth].astype(np.float64)
    values = (
        (predicted == truth).mean(),
        # scikit-learn's log loss clips at the precision of the probabilities: 1e-7 for float32.
        -np.log(np.clip(at_truth, _MIN_PROBABILITY, 1.0)).mean(),
        calibration_error(probs, truth),
        f1[1] if len(classes) == 2 else f1[occurs | np.isin(classes, predicted)].mean(),
        recall[occurs].mean(),
    )
    measured = {name: float(value) for name, value in zip(METRICS, values, strict=True)}
    if reference:
        measured[OWN_METRIC] = _own_value(reference, probs, truth)
    return measured


def calibration_error(probs: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    """Expected calibration error: mean |accuracy - confidence| over equal bins of confidence."""
    confidence = probs.max(axis=1).astype(np.float64)
    is_correct = probs.argmax(axis=1) == truth
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=is_correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(truth))
