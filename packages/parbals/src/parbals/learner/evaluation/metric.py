"""Metrics: the loss that strategies minimise for each, its class weights, decisions and values.

Balanced accuracy and F1 are not means over target points, but near the best decisions they are
linear in them. The contribution of decision d for label y is then a 0-1 loss with class weights w_y
(:class:`parbals.types.ClassWeights`), and a label is worth its expected gain under that loss.

* Balanced accuracy is the mean recall: a correct decision for class b adds w_b = 1 / (C π_b), with
  π_b the expected share of class b among the targets.
* F1 of class c is 2 TP / (n_c + n_decided). The best value F* is reached by deciding c wherever the
  mean of 2 [y = c] - F* is positive, that is P_c > F*/2 (Dinkelbach's argument for ratios). So a
  correct decision for c adds (2 - F*) / (π_c + δ), and one for another class adds F* / (π_c + δ),
  with δ the share of targets for which c is decided.

The shares and F* are those that the model expects on its target set. They stay fixed while a batch
is chosen.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import drawn_positions
from parbals.errors import InputError
from parbals.randomness import derive_generator
from parbals.types import ClassWeights, Loss
from parbals.validate import check_choice

__all__ = [
    "BALANCED",
    "LOSS_OF_METRIC",
    "BestF1",
    "best_f1",
    "check_metric",
    "class_weight_positions",
    "class_weights_for",
    "decide",
    "decision_threshold",
    "metric_values",
]

LOSS_OF_METRIC: dict[str, Loss] = {"accuracy": "error", "log-loss": "log"}
"""Metric → the loss that strategies minimise, for metrics that weight all target points equally."""
BALANCED = "balanced-accuracy"
_F1_PREFIX = "f1:"
_METRIC_NAMES = ("accuracy", BALANCED, f"{_F1_PREFIX}CLASS", "log-loss")


def check_metric(metric: Any, classes: Sequence[Any]) -> str:
    """Return the metric's name if it exists for these classes; otherwise raise ``InputError``.

    >>> check_metric("f1:spam", ["ham", "spam"])
    'f1:spam'
    """
    if isinstance(metric, str) and metric.startswith(_F1_PREFIX):
        if _f1_class_number(metric, classes) is None:
            class_names = ", ".join(map(str, classes[:10]))
            raise InputError(
                f"metric is {metric!r}, but {metric.removeprefix(_F1_PREFIX)!r} is not one of the "
                f"classes: {class_names}."
            )
        return metric
    if metric not in (*LOSS_OF_METRIC, BALANCED):
        check_choice(metric, _METRIC_NAMES, "metric")
    return str(metric)


def class_weights_for(
    metric: str, probs: np.ndarray, classes: Sequence[Any]
) -> ClassWeights | None:
    """Compute the class weights of a metric; None where all classes count alike.

    A class that is rarer among the targets counts more:

    >>> probs = np.tile([0.8, 0.2], (98, 1))
    >>> class_weights_for("balanced-accuracy", probs, ["ham", "spam"]).values.round(1)
    array([0.6, 2.4])

    Args:
        probs: (M, C) predictions for the targets.
    """
    n_targets, n_classes = probs.shape
    if metric == BALANCED:
        # One more item of each class, so that no class is rare enough to outweigh all others.
        shares = (probs.sum(axis=0) + 1.0) / (n_targets + n_classes)
        return ClassWeights(1.0 / (n_classes * shares))
    positive_number = _f1_class_number(metric, classes)
    if positive_number is None:
        return None
    positive_probs = probs[:, positive_number]
    best = best_f1(positive_probs)
    is_positive = (np.arange(n_classes) == positive_number).astype(float)
    # π_c + δ of the module's docstring.
    size = (positive_probs.sum() + best.n_positive) / n_targets
    values = np.where(is_positive > 0, 2.0 - best.value, best.value) / size
    return ClassWeights(values, is_positive if n_classes > 2 else None)


def class_weight_positions(seed: int, n_items: int, size: int, audit: Sequence[int]) -> np.ndarray:
    """Draw the pool items from which class weights are computed: at most ``size``, none audited.

    They are drawn once, so that the same model always makes the same decisions, as the looks at an
    audit require.
    """
    generator = derive_generator(seed, "stakes")
    return drawn_positions(generator, n_items, size, np.asarray(audit, np.int64))


class BestF1(NamedTuple):
    """The highest expected F1, and the number of items decided positive to reach it."""

    value: float
    n_positive: int


def best_f1(probs: np.ndarray) -> BestF1:
    """Find the highest expected F1 of decisions by a threshold.

    One more item, with probability 0.5, keeps the value away from 0 and 1.

    >>> best_f1(np.array([0.9, 0.8, 0.1])).n_positive
    2

    Args:
        probs: (M,) probabilities of the positive class.
    """
    ordered = np.append(np.sort(probs)[::-1], 0.5)
    true_positives = np.cumsum(ordered)
    n_positive = np.arange(1, len(ordered) + 1)
    values = 2.0 * true_positives / (n_positive + ordered.sum())
    best = int(values.argmax())
    return BestF1(float(values[best]), int(n_positive[best]))


def decide(probs: np.ndarray, class_weights: ClassWeights | None) -> np.ndarray:
    """Choose the class numbers (N,) that maximise the expected metric.

    Without class weights these are the most probable classes.

    >>> decide(np.array([[0.6, 0.4]]), ClassWeights(np.array([1.0, 2.0])))
    array([1])

    Args:
        probs: (N, C) predictions.
    """
    if class_weights is None:
        return np.asarray(probs.argmax(axis=1))
    if class_weights.positive is None:
        return np.asarray((probs * class_weights.values).argmax(axis=1))
    positive_number = int(class_weights.positive.argmax())
    positive_weight = class_weights.values[positive_number]
    negative_weight = np.delete(class_weights.values, positive_number)[0]
    best_negative = np.where(class_weights.positive > 0, -1.0, probs).argmax(axis=1)
    positive_gain = probs[:, positive_number] * (positive_weight + negative_weight)
    return np.where(positive_gain > negative_weight, positive_number, best_negative)


def decision_threshold(
    class_weights: ClassWeights | None, classes: Sequence[Any]
) -> dict[Any, float] | None:
    """Find the probability above which a class is decided, as {class: threshold}.

    None where the decision does not depend on the probability of one class alone.

    >>> decision_threshold(ClassWeights(np.array([1.0, 3.0])), ["ham", "spam"])
    {'spam': 0.25}
    """
    if class_weights is None or (class_weights.positive is None and len(classes) > 2):
        return None
    positive_number = 1
    if class_weights.positive is not None:
        positive_number = int(class_weights.positive.argmax())
    positive_weight = class_weights.values[positive_number]
    negative_weight = np.delete(class_weights.values, positive_number)[0]
    return {classes[positive_number]: float(negative_weight / (negative_weight + positive_weight))}


def metric_values(
    metric: str, decisions: np.ndarray, labels: np.ndarray, classes: Sequence[Any]
) -> np.ndarray:
    """Compute the metric (K,) of decisions (M,) for each of K labellings (K, M).

    Balanced accuracy ignores classes without labels. F1 is 1 where no item is positive, neither by
    label nor by decision.

    >>> metric_values("f1:b", np.array([1, 1, 0]), np.array([[1, 0, 0]]), ["a", "b"]).round(2)
    array([0.67])
    """
    positive_number = _f1_class_number(metric, classes)
    if positive_number is not None:
        return _f1_values(decisions == positive_number, labels == positive_number)
    is_correct = labels == decisions
    if metric != BALANCED:
        return np.asarray(is_correct.mean(axis=1))
    recall_sum = np.zeros(len(labels))
    n_present_classes = np.zeros(len(labels))
    for class_number in range(len(classes)):
        is_class = labels == class_number
        n_class = is_class.sum(axis=1)
        recall_sum += (is_class & is_correct).sum(axis=1) / np.maximum(n_class, 1)
        n_present_classes += n_class > 0
    return np.asarray(recall_sum / n_present_classes)


def _f1_values(decided_positive: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    """Compute F1 (K,) of decisions (M,) for each of K labellings (K, M)."""
    sizes = is_positive.sum(axis=1) + decided_positive.sum()
    true_positives = (is_positive & decided_positive).sum(axis=1)
    return np.where(sizes > 0, 2.0 * true_positives / np.maximum(sizes, 1), 1.0)


def _f1_class_number(metric: str, classes: Sequence[Any]) -> int | None:
    """Find the number of the class whose F1 a metric names; None for other metrics."""
    if not metric.startswith(_F1_PREFIX):
        return None
    class_names = [str(label) for label in classes]
    name = metric.removeprefix(_F1_PREFIX)
    return class_names.index(name) if name in class_names else None
