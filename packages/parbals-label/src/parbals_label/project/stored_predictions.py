"""The predictions that a project stores: how they become decisions, and how old they are."""

import numpy as np
from parbals.learner.evaluation.metric import LOSS_OF_METRIC, class_weight_positions
from parbals.learner.tasks.table import task_named
from parbals.types import DEFAULT_N_TARGETS

from parbals_label.answer_form import NUMBERS
from parbals_label.project.goal import metric_of
from parbals_label.project.predicted import DecisionRule
from parbals_label.store.store import Store

__all__ = ["decision_rule_of", "newer_answers"]


def decision_rule_of(store: Store, probs: np.ndarray) -> DecisionRule:
    """The rule that turns stored predictions (N, C) into decisions.

    The class weights are those of the learner that made the predictions, from the same items.
    """
    settings = store.settings
    metric = metric_of(settings.loss)
    if metric in LOSS_OF_METRIC or settings.task == NUMBERS:
        return DecisionRule(metric)
    positions = class_weight_positions(settings.seed, len(probs), DEFAULT_N_TARGETS, settings.audit)
    task = task_named(settings.task, store.classes[: probs.shape[1]])
    return DecisionRule(metric, task.class_weights(metric, probs[positions].astype(np.float64)))


def newer_answers(store: Store) -> int:
    """Number of answers since the stored predictions; 0 where there are no predictions."""
    stored = store.settings.predictions
    return 0 if stored is None else store.revision()[0] - stored.answers
