"""The classes that stored predictions decide for, by the project's metric; needs no model."""

import numpy as np
from parbals.learner.numbers.metric import METRICS, judged_positions, metric_of, stakes_for
from parbals.types import TARGETS, Stakes

from parbals_label.store.store import Store

__all__ = ["stakes_of"]


def stakes_of(store: Store, probs: np.ndarray) -> Stakes | None:
    """What decisions by stored predictions (N, C) are worth; None where all classes count alike.

    The stakes are those of the learner that made the predictions: it judges by the same items.
    """
    settings = store.settings
    metric = metric_of(settings.loss)
    if metric in METRICS:
        return None
    judged = judged_positions(settings.seed, len(probs), TARGETS, settings.audit)
    return stakes_for(metric, probs[judged].astype(np.float64), store.classes[: probs.shape[1]])
