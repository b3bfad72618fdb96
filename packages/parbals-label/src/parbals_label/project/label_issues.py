"""Likely label errors: labels whose leave-one-out probability is lower than another class's.

They are ranked by p(y_i | x_i, all labels but y_i). It is low for wrong labels and for hard items,
and strategies choose hard items: a likely error need not be an error.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from parbals.learner.active import ActiveLearner
from parbals.wording import percent

from parbals_label.project.consensus import consensus_labels
from parbals_label.project.measured import measured_positions
from parbals_label.store.store import Store

__all__ = ["LabelIssue", "current_label_issues", "find_label_issues"]

_MAX_ISSUES = 100


class LabelIssue(NamedTuple):
    """A label that may be wrong.

    Attributes:
        position: of the item.
        label: its label.
        probability: of that label, by a model of all other labels.
        instead: the most probable class.
    """

    position: int
    label: str
    probability: float
    instead: str

    @property
    def sentence(self) -> str:
        """The issue in words."""
        return f"the model expects {self.instead} ({percent(self.probability)} for {self.label})"


def find_label_issues(learner: ActiveLearner, classes: Sequence[str]) -> list[LabelIssue]:
    """At most a hundred labels for which another class is more probable, the least probable first.

    There are none for models without a closed form and for other tasks.
    """
    is_classifier = learner.task == "classes" and learner.state.can_fit
    gaussian = getattr(learner.fitted(), "gaussian", None) if is_classifier else None
    if gaussian is None:
        return []
    positions, class_indices = learner.state.training_labels
    rows, probs = gaussian.leave_one_out(all_labels=True)
    is_label = rows < len(positions)  # descriptions of classes come after the labels
    rows = rows[is_label]
    probs = probs[is_label]
    labels = class_indices[rows]
    predicted = probs.argmax(axis=1)
    label_probs = probs[np.arange(len(rows)), labels]
    issues = [
        LabelIssue(
            position=int(positions[row]),
            label=classes[label],
            probability=round(float(probability), 6),
            instead=classes[best],
        )
        for row, label, probability, best in zip(rows, labels, label_probs, predicted, strict=True)
        if best != label
    ]
    return sorted(issues, key=lambda issue: issue.probability)[:_MAX_ISSUES]


def current_label_issues(store: Store) -> list[LabelIssue]:
    """Likely label errors of the latest report whose labels have not changed since.

    There are none of items that are being measured: they would tell what the model expects.
    """
    issues = [LabelIssue(*row) for row in store.settings.doubts]
    if not issues:
        return []
    labels = consensus_labels(store)
    hidden = measured_positions(store)
    return [
        issue
        for issue in issues
        if labels.get(issue.position) == issue.label and issue.position not in hidden
    ]
