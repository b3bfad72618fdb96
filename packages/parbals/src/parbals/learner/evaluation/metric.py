"""What a model is judged by: the loss that strategies lower for its sake, and its decisions.

Balanced accuracy and F1 are not means over target points, but near the best decisions they are
linear in them: what a decision d for label y adds is then a 0-1 loss with class weights w_y
(:class:`parbals.scores.losses.ClassWeights`), and a label is worth what it is expected to gain
there.

* Balanced accuracy, the mean recall: being right about class b adds w_b = 1 / (C π_b), π_b the
  share of b that is expected among the targets.
* F1 of class c, 2 TP / (n_c + n_decided): the best value F* is reached by deciding c wherever
  2 [y = c] - F* is positive on average, P_c > F*/2 (Dinkelbach's argument for a ratio). So being
  right about c adds (2 - F*) / (π_c + δ), about anything else F* / (π_c + δ), δ the share that is
  decided to be c.

Shares and F* are those the model expects on its target set, and stay as they are while a batch
grows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parbals.arrays import drawn_positions
from parbals.errors import InputError
from parbals.randomness import derive_generator
from parbals.types import ClassWeights, Loss
from parbals.validate import check_choice

__all__ = ["BALANCED", "METRICS", "best_f1", "check_metric", "decide", "decision_threshold"]
__all__ += ["class_weight_positions", "class_weights_for", "metric_values"]

METRICS: dict[str, Loss] = {"accuracy": "error", "log-loss": "log"}
BALANCED = "balanced-accuracy"
_F1 = "f1:"
_NAMES = ("accuracy", BALANCED, f"{_F1}CLASS", "log-loss")


def check_metric(metric: Any, classes: Sequence[Any]) -> str:
    """The metric's name, if there is such a one for these classes."""
    if isinstance(metric, str) and metric.startswith(_F1):
        if _class_of(metric, classes) is None:
            shown = ", ".join(map(str, classes[:10]))
            raise InputError(
                f"metric is {metric!r}, but {metric.removeprefix(_F1)!r} is not one of the "
                f"classes: {shown}."
            )
        return metric
    if metric not in (*METRICS, BALANCED):
        check_choice(metric, _NAMES, "metric")
    return str(metric)


def class_weights_for(
    metric: str, probs: np.ndarray, classes: Sequence[Any]
) -> ClassWeights | None:
    """Of decisions at targets with predictions (M, C); None where all classes count alike."""
    n_targets, n_classes = probs.shape
    if metric == BALANCED:
        # One item more of each class: no class is so rare that it alone counts.
        shares = (probs.sum(axis=0) + 1.0) / (n_targets + n_classes)
        return ClassWeights(1.0 / (n_classes * shares))
    number = _class_of(metric, classes)
    if number is None:
        return None
    best, n_decided = best_f1(probs[:, number])
    mark = (np.arange(n_classes) == number).astype(float)
    size = (probs[:, number].sum() + n_decided) / n_targets
    values = np.where(mark > 0, 2.0 - best, best) / size
    return ClassWeights(values, mark if n_classes > 2 else None)


def class_weight_positions(seed: int, n_items: int, size: int, audit: Sequence[int]) -> np.ndarray:
    """The items of a pool by which class weights are set: at most ``size``, none of the audit's.

    They stay the same, so that the decisions of an audit's look do too.
    """
    generator = derive_generator(seed, "stakes")
    return drawn_positions(generator, n_items, size, np.asarray(audit, np.int64))


def best_f1(probs: np.ndarray) -> tuple[float, int]:
    """The highest F1 that decisions by a threshold are expected to reach, and how many it takes.

    An item more, of which nothing is known, keeps it from 0 and 1.
    """
    ordered = np.append(np.sort(probs)[::-1], 0.5)
    hits, n_decided = np.cumsum(ordered), np.arange(1, len(ordered) + 1)
    values = 2.0 * hits / (n_decided + ordered.sum())
    best = int(values.argmax())
    return float(values[best]), int(n_decided[best])


def decide(probs: np.ndarray, class_weights: ClassWeights | None) -> np.ndarray:
    """(N,) class numbers of the best decisions; without class weights the most probable classes."""
    if class_weights is None:
        return np.asarray(probs.argmax(axis=1))
    if class_weights.positive is None:
        return np.asarray((probs * class_weights.values).argmax(axis=1))
    number = int(class_weights.positive.argmax())
    others = np.delete(class_weights.values, number)[0]
    best = np.where(class_weights.positive > 0, -1.0, probs).argmax(axis=1)
    is_one = probs[:, number] * (class_weights.values[number] + others) > others
    return np.where(is_one, number, best)


def decision_threshold(
    class_weights: ClassWeights | None, classes: Sequence[Any]
) -> dict[Any, float] | None:
    """The probability from which a class is decided, where two are left to decide between."""
    if class_weights is None or (class_weights.positive is None and len(classes) > 2):
        return None
    mark = class_weights.positive if class_weights.positive is not None else np.array([0.0, 1.0])
    number = int(mark.argmax())
    against = np.delete(class_weights.values, number)[0]
    return {classes[number]: float(against / (against + class_weights.values[number]))}


def metric_values(
    metric: str, decisions: np.ndarray, labels: np.ndarray, classes: Sequence[Any]
) -> np.ndarray:
    """(K,) the metric of decisions (M,), for every one of K labellings (K, M).

    A class without labels has no recall and is left out of the mean; without anything to find and
    anything decided F1 is 1.
    """
    number = _class_of(metric, classes)
    if number is not None:
        is_one, said = labels == number, decisions == number
        sizes = is_one.sum(axis=1) + said.sum()
        hits = (is_one & said).sum(axis=1)
        return np.where(sizes > 0, 2.0 * hits / np.maximum(sizes, 1), 1.0)
    right = labels == decisions
    if metric != BALANCED:
        return np.asarray(right.mean(axis=1))
    total, n_seen = np.zeros(len(labels)), np.zeros(len(labels))
    for c in range(len(classes)):
        n_own = (labels == c).sum(axis=1)
        total += ((labels == c) & right).sum(axis=1) / np.maximum(n_own, 1)
        n_seen += n_own > 0
    return np.asarray(total / n_seen)


def _class_of(metric: str, classes: Sequence[Any]) -> int | None:
    """The number of the class whose F1 is meant."""
    if not metric.startswith(_F1):
        return None
    names = [str(label) for label in classes]
    name = metric.removeprefix(_F1)
    return names.index(name) if name in names else None
