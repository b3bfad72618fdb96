"""How good predictions are: the five numbers recorded after every round."""

import numpy as np

__all__ = ["calibration_error", "measure"]

_LEAST = 1e-12
"""A class that happens despite probability 0 costs ln(1e12) and not infinity."""


def measure(probs: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss, calibration error, F1 and balanced accuracy of probs (N, C) against class
    numbers (N,).

    F1 is that of class 1 when there are two classes, else the mean over the classes that occur or
    are predicted. Balanced accuracy is the mean recall of the classes that occur.
    """
    n_classes = probs.shape[1]
    predicted = probs.argmax(axis=1)
    confusion = np.bincount(truth * n_classes + predicted, minlength=n_classes**2).reshape(
        n_classes, n_classes
    )
    right, occurs, called = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    # A class that neither occurs nor is predicted has no F1. As in scikit-learn, of two classes it
    # then is 0, and of more such classes are left out of the mean.
    f1 = 2.0 * right / np.maximum(occurs + called, 1)
    at_truth = probs[np.arange(len(truth)), truth].astype(np.float64)
    return {
        "accuracy": float(right.sum() / len(truth)),
        "log_loss": float(-np.log(np.clip(at_truth, _LEAST, 1.0)).mean()),
        "calibration_error": calibration_error(probs, truth),
        "f1": float(f1[1] if n_classes == 2 else f1[(occurs + called) > 0].mean()),
        "balanced_accuracy": float((right[occurs > 0] / occurs[occurs > 0]).mean()),
    }


def calibration_error(probs: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    """Expected calibration error: |accuracy - confidence| in equal bins of the highest probability,
    averaged."""
    confidence = probs.max(axis=1).astype(np.float64)
    right = probs.argmax(axis=1) == truth
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(truth))
