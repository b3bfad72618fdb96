"""What a label is: how it is checked, stored, learnt from and predicted.

The rest of the learner stores a label as one plain number, the *encoded label*, and asks its
:class:`Task` for everything that depends on the type of the labels: above all the model, which has
a Gaussian posterior and the task's likelihood. This module has the base class and the default task,
one class per item.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.learner.evaluation.metric import (
    LOSS_OF_METRIC,
    check_metric,
    class_weights_for,
    decide,
    metric_values,
)
from parbals.strategies.table import STRATEGIES, strategy_named
from parbals.types import ClassWeights, Loss
from parbals.validate import check_choice

if TYPE_CHECKING:  # so that labels can be checked without loading the models
    from parbals.posterior.closed.whitening import PoolMoments

__all__ = ["Classification", "DecisionWeights", "FitSettings", "Task", "as_list", "plain_value"]

DecisionWeights = ClassWeights | tuple[ClassWeights, ...] | None
"""Class weights of the 0-1 loss; for a multi-label task, those of each label; None if all are 1."""


class FitSettings(NamedTuple):
    """How the model of a task is fitted.

    Attributes:
        prior_scale: as in :class:`parbals.BayesianLogisticRegression`.
        pool_moments: mean and covariance of the pool's features, for the prior.
        n_samples: posterior samples that ``sample_proba`` returns.
        seed: of these samples.
    """

    prior_scale: float | str
    pool_moments: "PoolMoments"
    n_samples: int
    seed: int


class Task:
    """The type of a label; classes are numbered in the declared order.

    Attributes:
        name: the value of ``ActiveLearner(task=...)``.
        classes: the declared classes; empty for regression.
        min_classes: the least number of classes that may be declared.
        metrics: metrics that the task supports, the default first.
        uncertainty_strategies: strategies that need only the mean prediction, and so work without
            posterior samples.
        audit_loss: the loss that an audit measures, as in
            :class:`~parbals.learner.evaluation.report.Measurement`.
        has_samples: whether ``sample_proba`` of the models returns probabilities (N, K, C) of
            mutually exclusive classes, so that every strategy can be used.
        dtype: NumPy type of the encoded labels.
        n_models: number of models that a choice evaluates: one, or one per label.
    """

    name: ClassVar[str]
    min_classes: ClassVar[int] = 2
    metrics: ClassVar[tuple[str, ...]]
    uncertainty_strategies: ClassVar[tuple[str, ...]] = ()
    audit_loss: ClassVar[str] = "error"
    has_samples: ClassVar[bool] = True
    dtype: ClassVar[Any] = np.int64
    n_models = 1

    def __init__(self, classes: Sequence[Hashable] | None) -> None:
        self.classes = _check_classes(classes, self.min_classes)
        self._number_of = {label: number for number, label in enumerate(self.classes)}

    # -- labels

    def as_list(self, labels: Any) -> list[Any]:
        """Return the labels that a user passed as a list, one label per item."""
        return as_list(labels, "labels")

    def encode(self, label: Any, name: str) -> Any:
        """Return the number that a label is stored as; error messages call the label ``name``."""
        return self.class_number(label, name)

    def decode(self, encoded: Any) -> Any:
        """Return the label that an encoded label stands for."""
        return self.classes[encoded]

    def class_number(self, label: Any, name: str = "labels[0]") -> int:
        """Return the number of a class; error messages call the label ``name``."""
        try:
            number = self._number_of.get(label)
        except TypeError:  # unhashable, such as a list
            number = None
        # A dictionary finds the class 1 for True as well, which must be a mistake.
        if number is None or isinstance(label, bool) != isinstance(self.classes[number], bool):
            raise LabelError(
                f"{name} is {label!r}, which is not one of the classes {list(self.classes)!r}; "
                "nothing was recorded."
            )
        return number

    def class_counts(self, labels: np.ndarray) -> dict[Any, int]:
        """Count the encoded labels (n,) of each class."""
        counts = np.bincount(labels, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    # -- settings

    def check_metric(self, metric: Any) -> str:
        """Return the name of the metric, by default the first of ``metrics``."""
        metric = self.metrics[0] if metric is None else metric
        check_choice(metric, self.metrics, "metric")
        return str(metric)

    def loss(self, metric: str) -> Loss:
        """Return the loss that strategies minimise for a metric."""
        return "log"

    def check_strategy(self, name: str) -> None:
        """Refuse an unknown strategy, or one that cannot choose for this task."""
        if not self._supports(name):
            supported = [strategy for strategy in STRATEGIES if self._supports(strategy)]
            raise InputError(
                f'{name} needs classes; with task="{self.name}" take '
                f"{', '.join(supported[:-1])} or {supported[-1]}."
            )

    def _supports(self, name: str) -> bool:
        entry = strategy_named(name)
        if entry.needs_classes and not self.classes:
            return False
        if self.has_samples or not entry.uses_predictions:
            return True
        return entry.closed_form or name in self.uncertainty_strategies

    def check_settings(self, inference: str, prior_scale: Any, **settings: Any) -> None:
        """Refuse settings that apply to ``task="classes"`` only: each must be None.

        ``inference`` must be "auto" or "ep", and ``prior_scale`` one that the task's model has.
        """
        settings["inference"] = None if inference in ("auto", "ep") else inference
        for name, value in settings.items():
            if value is not None:
                raise InputError(f'{name} needs task="classes"; leave it out.')

    # -- the model

    def fit(self, rows: np.ndarray, labels: np.ndarray, settings: FitSettings) -> Any:
        """Fit the task's own model to prepared rows (n, D) and encoded labels (n,)."""
        raise NotImplementedError

    def decide(self, probs: np.ndarray, metric: str, class_weights: DecisionWeights) -> np.ndarray:
        """Return the decisions (n,), as encoded labels, that maximise the expected metric."""
        return np.asarray(probs.argmax(axis=1))

    def class_weights(self, metric: str, probs: np.ndarray) -> DecisionWeights:
        """Return the class weights of a metric, given predictions (M, C) for the targets."""
        return None

    # -- evaluation

    def flatten(self, probs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions (n, C) and labels (n,) as those of a single-label problem.

        The multi-label task returns one row for every pair of an item and a label.
        """
        return probs, labels

    def decide_flattened(
        self, probs: np.ndarray, metric: str, class_weights: DecisionWeights
    ) -> np.ndarray:
        """Return the decisions (n,) for predictions (n, C) in the form of :meth:`flatten`."""
        return self.decide(probs, metric, class_weights)

    def contains(self, labels: np.ndarray, class_number: int) -> np.ndarray:
        """Return whether each encoded label (n,) is, or includes, a class."""
        return labels == class_number

    def losses(self, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the loss (n,) of each decision, from 0 to 1."""
        return decisions != labels

    def expected_losses(self, probs: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        """Return the loss (n,) that the model expects of each of its decisions."""
        return np.asarray(1.0 - probs[np.arange(len(decisions)), decisions])

    def metric_values(self, metric: str, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the metric (K,) of decisions (n,) for K labellings (K, n), all flattened."""
        return metric_values(metric, decisions, labels, self.classes)

    def output_labels(self, decisions: np.ndarray) -> np.ndarray:
        """Return decisions (n,) in the form that ``predict`` returns."""
        have_one_type = len({type(label) for label in self.classes}) == 1
        classes = np.array(self.classes, None if have_one_type else object)
        return np.asarray(classes[decisions])


class Classification(Task):
    """One class per item.

    The learner fits :class:`parbals.posterior.estimator.LogisticModel`, or the user's own model.

    >>> task = Classification(["ham", "spam"])
    >>> task.encode("spam", "label")
    1
    >>> task.decode(0)
    'ham'
    """

    name = "classes"
    metrics = ("accuracy",)

    def check_metric(self, metric: Any) -> str:
        return check_metric("accuracy" if metric is None else metric, self.classes)

    def loss(self, metric: str) -> Loss:
        return LOSS_OF_METRIC.get(metric, LOSS_OF_METRIC["accuracy"])  # others: weighted 0-1 losses

    def check_settings(self, inference: str, prior_scale: Any, **settings: Any) -> None:
        """Accept all settings."""

    def class_weights(self, metric: str, probs: np.ndarray) -> DecisionWeights:
        return class_weights_for(metric, probs, self.classes)

    def decide(self, probs: np.ndarray, metric: str, class_weights: DecisionWeights) -> np.ndarray:
        assert isinstance(class_weights, ClassWeights | None)
        return decide(probs, class_weights)


def _check_classes(classes: Sequence[Hashable] | None, min_classes: int) -> tuple[Any, ...]:
    """Return distinct class labels, at least ``min_classes`` of them."""
    required = "two class labels" if min_classes == 2 else "one class label"
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise LabelError(f"classes is {classes!r}; pass a list of at least {required}.")
    labels = tuple(as_list(classes, "classes"))
    for index, label in enumerate(labels):
        if not isinstance(label, str | int):
            raise LabelError(
                f"classes[{index}] is {label!r}; class labels are strings, whole numbers or "
                "booleans."
            )
    if len(labels) < min_classes:
        raise LabelError(f"classes is {list(labels)!r}; pass at least {required}.")
    if len(set(labels)) != len(labels):
        raise LabelError("classes names the same class twice.")
    return labels


def as_list(values: Any, name: str) -> list[Any]:
    """Return a list of plain Python values; a single value becomes a list of one.

    >>> as_list(np.array([True, False]), "labels")
    [True, False]
    >>> as_list("spam", "labels")
    ['spam']
    """
    is_table = hasattr(values, "columns")
    if is_table or isinstance(values, Mapping | set | frozenset):
        type_name = "table" if is_table else type(values).__name__
        raise InputError(f"{name} is a {type_name}, not a list of single values; pass a list.")
    if hasattr(values, "tolist"):  # NumPy and PyTorch
        values = values.tolist()
    if hasattr(values, "to_list"):  # polars
        values = values.to_list()
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return [plain_value(values)]
    return [plain_value(value) for value in values]


def plain_value(value: Any) -> Any:
    """Convert a NumPy scalar to Python's type, so that np.True_ is True and not 1.

    >>> plain_value(np.int64(3))
    3
    """
    # A date as a plain number would lose its meaning.
    is_date = isinstance(value, np.datetime64 | np.timedelta64)
    return value.item() if isinstance(value, np.generic) and not is_date else value
