"""Labels that the model doubts: those that surprise it most when it has not seen them.

The surprise of label y_i is -ln p(y_i | x_i, all labels but it). It is large for wrong labels and
for hard items, and a strategy chooses hard items: a doubt is not an error.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from parbals.learner.active import ActiveLearner
from parbals.wording import percent

from parbals_label.project.consensus import consensus_labels
from parbals_label.store.store import Store

__all__ = ["LabelIssue", "current_label_issues", "find_label_issues"]

MOST = 100


class LabelIssue(NamedTuple):
    """An item's label, its probability by all other labels, and what they would say instead."""

    position: int
    label: str
    probability: float
    instead: str

    @property
    def sentence(self) -> str:
        return f"the model expects {self.instead} ({percent(self.probability)} for {self.label})"


def find_label_issues(learner: ActiveLearner, classes: Sequence[str]) -> list[LabelIssue]:
    """At most a hundred labels for which another class is likelier, the most surprising first.

    Of models without a closed form and of other tasks, none.
    """
    one = learner.task == "classes" and learner.state.can_fit
    gaussian = getattr(learner.fitted(), "gaussian", None) if one else None
    if gaussian is None:
        return []
    positions, numbers = learner.state.training
    places, probs = gaussian.leave_one_out(all_labels=True)
    is_label = places < len(positions)  # behind them are descriptions of classes
    places, probs = places[is_label], probs[is_label]
    given = probs[np.arange(len(places)), numbers[places]]
    found = [
        LabelIssue(
            int(positions[place]), classes[numbers[place]], round(float(p), 6), classes[best]
        )
        for place, p, best in zip(places, given, probs.argmax(axis=1), strict=True)
        if best != numbers[place]
    ]
    return sorted(found, key=lambda doubt: doubt.probability)[:MOST]


def current_label_issues(store: Store) -> list[LabelIssue]:
    """The doubts of the latest report whose labels still hold."""
    labels = consensus_labels(store)
    found = [LabelIssue(*row) for row in store.settings.doubts]
    return [doubt for doubt in found if labels.get(doubt.position) == doubt.label]
