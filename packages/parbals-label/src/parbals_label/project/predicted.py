"""Predictions as files, pages and people see them: the decision and its probabilities.

Predictions are stored as probabilities (N, C) of classes, as the probability (N, L) of each of many
labels, or as mean and standard deviation (N, 2) of numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from parbals.learner.tasks.table import task_named

from parbals_label.answer_form import MANY, NUMBERS, AnswerForm, Plain

__all__ = [
    "PREDICTED",
    "DecisionRule",
    "decisions",
    "predicted_columns",
    "predicted_records",
    "raw_predictions",
    "uncertainty",
]

PREDICTED = "predicted"
"""The column of decisions in exports."""
_PREDICTED_SD = "predicted_sd"


def predicted_columns(form: AnswerForm) -> list[str]:
    """The columns of :func:`predicted_records`.

    >>> predicted_columns(AnswerForm("classes", ("ham", "spam")))
    ['predicted', 'p_ham', 'p_spam']
    """
    if form.task == NUMBERS:
        return [PREDICTED, _PREDICTED_SD]
    return [PREDICTED, *(f"p_{name}" for name in form.classes)]


def raw_predictions(model: Any, rows: np.ndarray) -> np.ndarray:
    """Predictions of a learner's model for prepared rows (n, D), as they are stored."""
    from parbals.learner.setup import mean_proba
    from parbals.learner.tasks.regression import RegressionModel

    if isinstance(model, RegressionModel):
        return np.stack(model.predict(rows), axis=1)
    return mean_proba(model, rows)


def uncertainty(form: AnswerForm, rows: np.ndarray) -> np.ndarray:
    """(n,) uncertainty of predictions: expected number of wrong labels, or standard deviation.

    >>> uncertainty(AnswerForm("classes", ("ham", "spam")), np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([0.5, 0. ])
    """
    if form.task == NUMBERS:
        return rows[:, 1]
    if form.task == MANY:
        return np.minimum(rows, 1 - rows).sum(axis=1)
    return 1 - rows.max(axis=1)


@dataclass(frozen=True)
class DecisionRule:
    """How predictions become decisions: the metric, and class weights if it needs them."""

    metric: str = "accuracy"
    class_weights: Any = None


def decisions(
    form: AnswerForm, rows: np.ndarray, decision_rule: DecisionRule | None = None
) -> list[Plain]:
    """The decision for each row of predictions: a class, a list of labels or a number."""
    if form.task == NUMBERS:
        return [_rounded(mean) for mean in rows[:, 0]]
    task = task_named(form.task, form.classes)
    rule = decision_rule or DecisionRule()
    encoded = task.decide(rows, rule.metric, rule.class_weights)
    labels = [task.decode(label) for label in encoded.tolist()]
    return [list(label) if form.task == MANY else label for label in labels]


def predicted_records(
    form: AnswerForm, rows: np.ndarray, decision_rule: DecisionRule | None = None
) -> list[dict[str, Any]]:
    """One record for each row of predictions, with the columns of ``predicted_columns``."""
    names = predicted_columns(form)
    values = rows[:, 1:] if form.task == NUMBERS else rows
    return [
        dict(zip(names, [decision, *map(_rounded, row)], strict=True))
        for decision, row in zip(decisions(form, rows, decision_rule), values, strict=True)
    ]


def _rounded(value: float) -> float:
    """Six decimals, or seven significant digits of a large number."""
    if abs(value) < 1.0:
        return round(float(value), 6)
    return float(f"{value:.7g}")
