"""The predictions that a project stores: how they become decisions, and how old they are."""

from typing import TYPE_CHECKING, Any

import numpy as np
from parbals.learner.evaluation.metric import LOSS_OF_METRIC, class_weight_positions
from parbals.learner.tasks.table import task_named
from parbals.types import DEFAULT_N_TARGETS, ClassWeights

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.goal import metric_of
from parbals_label.project.predicted import DecisionRule
from parbals_label.store.store import Store

if TYPE_CHECKING:  # the page shows stored predictions without loading the models
    from parbals.learner.active import ActiveLearner

__all__ = ["decision_rule_of", "newer_answers", "weights_record"]


def decision_rule_of(store: Store, probs: np.ndarray) -> DecisionRule:
    """The rule that turns stored predictions (N, C) into decisions.

    The class weights are those of the learner that made the predictions, from the same items, or
    from the target set.
    """
    settings = store.settings
    metric = metric_of(settings.loss)
    if metric in LOSS_OF_METRIC or settings.task == NUMBERS:
        return DecisionRule(metric)
    stored = settings.predictions
    if stored is not None and stored.metric == metric:
        weights = tuple(
            ClassWeights(np.array(values), None if positive is None else np.array(positive))
            for values, positive in stored.class_weights
        )
        return DecisionRule(metric, weights if settings.task == MANY else weights[0])
    positions = class_weight_positions(settings.seed, len(probs), DEFAULT_N_TARGETS, settings.audit)
    task = task_named(settings.task, store.classes[: probs.shape[1]])
    return DecisionRule(metric, task.class_weights(metric, probs[positions].astype(np.float64)))


def weights_record(learner: "ActiveLearner") -> dict[str, Any]:
    """The class weights of a target set as :class:`PredictionsFile` stores them; {} for none."""
    if learner.setup.target is None or learner.task == NUMBERS:
        return {}
    class_weights = learner.setup.class_weights(learner.fitted())
    if class_weights is None:
        return {}
    weights = [class_weights] if isinstance(class_weights, ClassWeights) else class_weights
    record = tuple(
        (
            tuple(np.asarray(values).tolist()),
            None if positive is None else tuple(np.asarray(positive).tolist()),
        )
        for values, positive in weights
    )
    return {"metric": learner.metric, "class_weights": record}


def newer_answers(store: Store) -> int:
    """Number of answers since the stored predictions; 0 where there are no predictions."""
    stored = store.settings.predictions
    return 0 if stored is None else store.revision()[0] - stored.answers
