"""What a label is, and all that follows from it: how it is checked, kept, learnt from and decided.

A task is a likelihood on the same Gaussian posterior. The rest of the learner keeps a label as one
plain number (:class:`Task` says which) and asks its task for everything else. This module holds
what all have in common, and the task that a learner has unless told otherwise: one class an item.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.learner.evaluation.metric import (
    METRICS,
    check_metric,
    class_weights_for,
    decide,
    metric_values,
)
from parbals.strategies.table import STRATEGIES, strategy_named
from parbals.types import Loss
from parbals.validate import check_choice

__all__ = ["Classes", "Setup", "Task", "listed", "plain_value"]

Setup = Any
"""A :class:`parbals.learner.state.Setup`: it holds its task, and so is not imported here."""


class Task:
    """What a label is; classes are numbered in the order they were declared.

    Attributes:
        name: what ``ActiveLearner(task=...)`` calls it.
        classes: the declared classes; none of a task without.
        metrics: what a model may be judged by, the default first.
        uncertainty: strategies that need the averaged prediction alone, and can choose without
            samples.
        audit_loss: what an audit measures, as in
            :class:`~parbals.learner.evaluation.report.Measurement`.
        has_samples: whether its models give probabilities (N, K, C) of classes that exclude each
            other, which every strategy can use.
        dtype: of the numbers by which labels are kept.
        n_models: how many two-class models a choice goes through: one, or one for each label.
    """

    name: ClassVar[str]
    fewest_classes: ClassVar[int] = 2
    metrics: ClassVar[tuple[str, ...]]
    uncertainty: ClassVar[tuple[str, ...]] = ()
    audit_loss: ClassVar[str] = "error"
    has_samples: ClassVar[bool] = True
    dtype: ClassVar[Any] = np.int64
    n_models = 1

    def __init__(self, classes: Sequence[Hashable] | None) -> None:
        self.classes = _checked_classes(classes, self.fewest_classes)
        self._number = {label: number for number, label in enumerate(self.classes)}

    # -- labels

    def listed(self, labels: Any) -> list[Any]:
        """What was told, one label for each item."""
        return listed(labels, "labels")

    def encoded(self, label: Any, what: str) -> Any:
        """The number that a label is kept as; messages call the label ``what``."""
        return self.class_number(label, what)

    def decoded(self, number: Any) -> Any:
        """The label behind a number."""
        return self.classes[number]

    def class_number(self, label: Any, what: str = "labels[0]") -> int:
        """The number of a class."""
        try:
            number = self._number.get(label)
        except TypeError:  # unhashable, such as a list
            number = None
        # To a dictionary True is 1 and 1.0 is 1; a label of another type is a mistake.
        if number is None or isinstance(label, bool) != isinstance(self.classes[number], bool):
            raise LabelError(
                f"{what} is {label!r}, which is not one of the classes {list(self.classes)!r}; "
                "nothing was recorded."
            )
        return number

    def balance(self, numbers: np.ndarray) -> dict[Any, int]:
        """How many of the labels (n,) are of each class."""
        counts = np.bincount(numbers, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    # -- what may be asked for

    def check_metric(self, metric: Any) -> str:
        """The metric's name, the first of ``metrics`` where none was asked for."""
        metric = self.metrics[0] if metric is None else metric
        check_choice(metric, self.metrics, "metric")
        return str(metric)

    def loss(self, metric: str) -> Loss:
        """What strategies lower for the sake of a metric."""
        return "log"

    def check_strategy(self, name: str) -> None:
        """Refuse a strategy that there is not, or that cannot choose for this task."""
        if not self._can(name):
            can = [some for some in STRATEGIES if self._can(some)]
            raise InputError(
                f'{name} needs classes; with task="{self.name}" take '
                f"{', '.join(can[:-1])} or {can[-1]}."
            )

    def _can(self, name: str) -> bool:
        entry = strategy_named(name)
        by_task = entry.closed_form or name in self.uncertainty
        return self.has_samples or by_task or not entry.uses_predictions

    def check_settings(self, inference: str, prior_scale: Any, **others: Any) -> None:
        """Refuse settings that are about classes alone, if they were given."""
        others["inference"] = None if inference in ("auto", "ep") else inference
        for name, value in others.items():
            if value is not None:
                raise InputError(f'{name} needs task="classes"; leave it out.')

    # -- the model

    def fit(self, setup: Setup, rows: np.ndarray, numbers: np.ndarray, seed: int) -> Any:
        """The model of prepared rows (n, D) and labels (n,)."""
        raise NotImplementedError

    def decided(self, setup: Setup, model: Any, probs: np.ndarray) -> np.ndarray:
        """What a model decides by its predictions, as it is kept: (n,) numbers."""
        return np.asarray(probs.argmax(axis=1))

    def class_weights(self, metric: str, probs: np.ndarray) -> Any:
        """What decisions are worth where predictions are (M, C); None where all count alike."""
        return None

    # -- what is expected, and what is measured

    def cells(self, probs: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and labels of items as those of classes: (n, C) and (n,)."""
        return probs, numbers

    def decided_cells(self, setup: Setup, model: Any, probs: np.ndarray) -> np.ndarray:
        """Decisions (n,) for predictions of such classes (n, C)."""
        return self.decided(setup, model, probs)

    def has(self, numbers: np.ndarray, number: int) -> np.ndarray:
        """(n,) whether labels are, or hold, a class."""
        return numbers == number

    def losses(self, said: np.ndarray, given: np.ndarray) -> np.ndarray:
        """(n,) how wrong decisions are, from 0 to 1."""
        return said != given

    def doubts(self, probs: np.ndarray, said: np.ndarray) -> np.ndarray:
        """(n,) how wrong a model expects its own decisions to be."""
        return np.asarray(1.0 - probs[np.arange(len(said)), said])

    def metric_values(self, metric: str, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(K,) the metric of decisions for K labellings, all of ``cells``."""
        return metric_values(metric, decisions, labels, self.classes)

    def shown(self, numbers: np.ndarray) -> np.ndarray:
        """Decisions (n,) as users see them."""
        alike = len({type(label) for label in self.classes}) == 1
        return np.array(self.classes, None if alike else object)[numbers]


class Classes(Task):
    """One class an item: :class:`parbals.posterior.estimator.LogisticModel`, or one's own model."""

    name = "classes"
    metrics = ("accuracy",)

    def check_metric(self, metric: Any) -> str:
        return check_metric("accuracy" if metric is None else metric, self.classes)

    def loss(self, metric: str) -> Loss:
        return METRICS.get(metric, METRICS["accuracy"])

    def check_settings(self, inference: str, prior_scale: Any, **others: Any) -> None:
        """All are about classes."""

    def class_weights(self, metric: str, probs: np.ndarray) -> Any:
        return class_weights_for(metric, probs, self.classes)

    def decided(self, setup: Setup, model: Any, probs: np.ndarray) -> np.ndarray:
        return decide(probs, setup.class_weights(model))


def _checked_classes(classes: Sequence[Hashable] | None, fewest: int) -> tuple[Any, ...]:
    wanted = "two class labels" if fewest == 2 else "one class label"
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise LabelError(f"classes is {classes!r}; pass a list of at least {wanted}.")
    labels = tuple(listed(classes, "classes"))
    for number, label in enumerate(labels):
        if not isinstance(label, str | int):
            raise LabelError(
                f"classes[{number}] is {label!r}; class labels are strings, whole numbers or "
                "booleans."
            )
    if len(labels) < fewest:
        raise LabelError(f"classes is {list(labels)!r}; pass at least {wanted}.")
    if len(set(labels)) != len(labels):
        raise LabelError("classes names the same class twice.")
    return labels


def listed(values: Any, name: str) -> list[Any]:
    """A list of plain Python values; a single value stands for a list of one."""
    is_table = hasattr(values, "columns")
    if is_table or isinstance(values, Mapping | set | frozenset):
        kind = "table" if is_table else type(values).__name__
        raise InputError(f"{name} is a {kind}, which is no list of single values; pass a list.")
    values = values.tolist() if hasattr(values, "tolist") else values
    values = values.to_list() if hasattr(values, "to_list") else values
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return [plain_value(values)]
    return [plain_value(value) for value in values]


def plain_value(value: Any) -> Any:
    """A NumPy number, string or boolean as Python's own, so that np.True_ is True and not 1."""
    # Dates as plain numbers would lose their meaning.
    dated = isinstance(value, np.datetime64 | np.timedelta64)
    return value.item() if isinstance(value, np.generic) and not dated else value
