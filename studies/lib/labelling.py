"""The loop of most studies: ask for a batch, tell its true labels, until there are enough."""

from typing import Any

import numpy as np

__all__ = ["label_in_batches"]


def label_in_batches(learner: Any, labels: np.ndarray, n_labels: int, batch_size: int) -> None:
    """Label items until there are ``n_labels``, in batches of at most ``batch_size``.

    Args:
        learner: a :class:`parbals.ActiveLearner`.
        labels: of all items of its pool, (N,).
        n_labels: when to stop; the labels that there are already count.
        batch_size: the last batch may be smaller.
    """
    while (n_missing := n_labels - len(learner.labelled)) > 0:
        batch = learner.ask(min(batch_size, n_missing))
        learner.tell(batch, labels[batch].tolist())
