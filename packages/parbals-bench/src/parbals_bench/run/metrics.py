"""The five metrics that are recorded after every round, and how tables show them."""

from dataclasses import dataclass

import numpy as np
from parbals.errors import InputError

__all__ = ["METRICS", "Metric", "calibration_error", "measure", "metric_named"]

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


def measure(probs: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Every metric of probs (N, C) against class numbers (N,).

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
    return {name: float(value) for name, value in zip(METRICS, values, strict=True)}


def calibration_error(probs: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    """Expected calibration error: mean |accuracy - confidence| over equal bins of confidence."""
    confidence = probs.max(axis=1).astype(np.float64)
    is_correct = probs.argmax(axis=1) == truth
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=is_correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(truth))
