"""When an audit is evaluated (its *looks*), and limits of the error that hold at all of them.

*Looks.* The limits would fail more often if the audit were evaluated after every label. It is
therefore evaluated at fixed times only, as in a group-sequential trial. These are called looks, and
a result stands until the next. The main look is when the audit is full, which means that 95 % of it
are labelled, because people skip an item now and then. Earlier looks are at a half of the audit, a
quarter, and so on, but not at fewer than 20 audit labels. Later looks are whenever the number of
all labels, not only of the audit's, has doubled since the audit was full. At each look a model is
trained on the labels so far, except those of the audit, and evaluated on the audit labels so far.

*One look.* Given the model, its errors on the audit items are independent draws with one mean p.
The model also predicts its probability of being wrong, for all items of the pool; the limits of p
are those of two strata by this prediction (:mod:`parbals.learner.evaluation.limits`). Each fails
with a probability of at most δ: exactly where all labels are in one stratum, and otherwise as
closely as a combination of two exact limits does.

*All looks.* Look k has the risk δ_k = δ w_k with Σ_k w_k = 1 (alpha spending). By the union bound,
whatever the models are,

    P(p_k < L_k at some look) ≤ Σ δ_k = δ,   P(p_k > U_k at some look) ≤ δ,

so each limit also holds if somebody stops at a look because of its result, such as a small U. With
δ = 5 % the interval has a confidence of 90 %, and its upper limit alone of 95 %. The look at the
full audit gets most of the risk, so the limit of a later look may be higher although no more errors
were made. The statement then has the limit at the full audit beside it, with the number of labels
that its model was trained on: as all limits hold together, so do these two.
"""

import math
from typing import NamedTuple

import numpy as np

__all__ = ["DELTA", "Look", "full_look", "labels_at_next_look", "latest_look"]

DELTA = 0.05
"""δ: at most this is the probability that an upper limit fails at some look; a lower likewise."""
_WEIGHT_FULL = 0.7
"""Share of the risk that the look at the full audit gets."""
_WEIGHT_BEFORE = 0.1
"""Share of the risk that all looks before it get."""
_WEIGHT_AFTER = 0.2
"""Share of the risk that all looks after it get."""
_FULL_SHARE = 0.95
"""The audit counts as full once this share of it is labelled."""
_MIN_AUDIT_LABELS = 20
"""Audit labels that the first look needs."""


class Look(NamedTuple):
    """One evaluation of an audit.

    Attributes:
        n_labels: number of labels that the look uses, the earliest ones; audit labels included.
        delta: the upper limit fails with at most this probability; so does the lower.
    """

    n_labels: int
    delta: float


def latest_look(is_audit: np.ndarray, size: int) -> Look | None:
    """Find the latest look that the labels allow; None before the first.

    >>> latest_look(np.ones(15, bool), 40) is None
    True
    >>> latest_look(np.ones(38, bool), 40).n_labels
    38

    Args:
        is_audit: (n,) whether each label, in the order they arrived, is an audit label.
        size: number of items in the audit.
    """
    n_audit_labels = int(is_audit.sum())
    if not n_audit_labels:
        return None

    full = full_look(is_audit, size)
    if full is not None:
        doublings = int(math.log2(len(is_audit) // full.n_labels))
        if doublings == 0:
            return full
        return Look(full.n_labels * 2**doublings, DELTA * _WEIGHT_AFTER * 0.5**doublings)
    halvings = 1
    while (count := math.ceil(size / 2**halvings)) >= _MIN_AUDIT_LABELS:
        if n_audit_labels >= count:
            n_labels = _n_labels_at(is_audit, count)
            return Look(n_labels, DELTA * _WEIGHT_BEFORE * 0.5**halvings)
        halvings += 1
    return None


def full_look(is_audit: np.ndarray, size: int) -> Look | None:
    """Find the look at the full audit, which has most of the risk; None before it.

    >>> full_look(np.ones(100, bool), 40).n_labels
    38

    Args:
        is_audit: (n,) whether each label, in the order they arrived, is an audit label.
        size: number of items in the audit.
    """
    full = math.ceil(_FULL_SHARE * size)
    if not 0 < full <= is_audit.sum():
        return None
    return Look(_n_labels_at(is_audit, full), DELTA * _WEIGHT_FULL)


def _n_labels_at(is_audit: np.ndarray, count: int) -> int:
    """Return how many labels there were when the audit label number ``count`` arrived."""
    return int(np.searchsorted(np.cumsum(is_audit), count)) + 1


def labels_at_next_look(n_audit_labels: int, size: int) -> int | None:
    """Number of audit labels at the next look; None once the audit is full.

    >>> labels_at_next_look(0, 60), labels_at_next_look(47, 60), labels_at_next_look(57, 60)
    (30, 57, None)

    Args:
        n_audit_labels: number of audit labels so far.
        size: number of items in the audit.
    """
    counts = [math.ceil(_FULL_SHARE * size)]
    halvings = 1
    while (count := math.ceil(size / 2**halvings)) >= _MIN_AUDIT_LABELS:
        counts.append(count)
        halvings += 1
    return min((count for count in counts if count > n_audit_labels), default=None)
