"""Stored predictions as files, pages and people see them: what is decided, and how sure it is.

Of one class an item they are probabilities (N, C), of many labels the probability (N, L) of each,
of numbers the mean and the standard deviation (N, 2).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from parbals.learner.tasks.table import task_named

from parbals_label.answer_form import MANY, NUMBERS, AnswerForm, Plain

__all__ = ["PREDICTED", "DecisionRule", "decisions", "predicted_columns", "predicted_records"]
__all__ += ["raw_predictions", "uncertainty"]

PREDICTED, _SPREAD = "predicted", "predicted_sd"


def predicted_columns(form: AnswerForm) -> list[str]:
    """The columns of :func:`predicted_records`."""
    return [PREDICTED, *([_SPREAD] if form.task == NUMBERS else [f"p_{c}" for c in form.classes])]


def raw_predictions(model: Any, rows: np.ndarray) -> np.ndarray:
    """Predictions of a learner's model for prepared rows (n, D), as they are stored."""
    from parbals.learner.state import mean_proba
    from parbals.learner.tasks.regression import RegressionModel

    if isinstance(model, RegressionModel):
        return np.stack(model.predict(rows), axis=1)
    return mean_proba(model, rows)


def uncertainty(form: AnswerForm, rows: np.ndarray) -> np.ndarray:
    """(n,) how far predictions are from being sure."""
    if form.task == NUMBERS:
        return rows[:, 1]
    return np.minimum(rows, 1 - rows).sum(axis=1) if form.task == MANY else 1 - rows.max(axis=1)


@dataclass(frozen=True)
class DecisionRule:
    """What a task asks of a learner to decide by predictions: the metric and its class weights."""

    metric: str = "accuracy"
    class_weights: Any = None


def decisions(
    form: AnswerForm, rows: np.ndarray, decision_rule: DecisionRule | None = None
) -> list[Plain]:
    """What is decided for each of the rows."""
    if form.task == NUMBERS:
        return [_short(mean) for mean in rows[:, 0]]
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
    shown = rows[:, 1:] if form.task == NUMBERS else rows
    return [
        dict(zip(names, [said, *map(_short, row)], strict=True))
        for said, row in zip(decisions(form, rows, decision_rule), shown, strict=True)
    ]


def _short(value: float) -> float:
    """Six digits behind the point, or of a large number six in all."""
    return round(float(value), 6) if abs(value) < 1.0 else float(f"{value:.7g}")
