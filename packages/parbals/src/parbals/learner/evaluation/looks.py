"""When an audit is evaluated (its *looks*), and limits of the error that hold at all of them.

*Looks.* The limits would fail more often if the audit were evaluated after every label. It is
therefore evaluated at fixed times only, as in a group-sequential trial. These are called looks, and
a result stands until the next. The main look is when the audit is full, which means that 95 % of it
are labelled, because people skip an item now and then. Earlier looks are at a half of the audit, a
quarter, and so on, but not at fewer than 20 audit labels. Later looks are whenever the number of
all labels, not only of the audit's, has doubled since the audit was full. At each look a model is
trained on the labels so far, except those of the audit, and evaluated on the audit labels so far.

*One look.* Given the model, whether it is wrong on audit item i, ℓ_i (0 or 1), is an independent
draw with the same probability p for every item: the error. The Clopper–Pearson limits of p, given
Σ ℓ_i, each fail with a probability of at most δ, exactly. The model
also predicts its probability of being wrong, f_i, and the mean f̄ over the pool is known without
labels; items that trained the model count with predictions without their own labels. So
ℓ_i - λ (f_i - f̄) has mean p as well, with less variance (PPI++,
:mod:`parbals.learner.evaluation.ppi`). The estimate is as precise as n' ≥ n plain draws, and the
limits are those of Clopper and Pearson for n' draws with error p̂ (Korn and Graubard's method for
surveys). They are exact where λ = 0, for example where no ℓ_i is 1, and otherwise asymptotic:
P(p > U) ≤ δ + O(1/√n).

*All looks.* Look k has the risk δ_k = δ w_k with Σ_k w_k = 1 (alpha spending). By the union bound,
whatever the models are,

    P(p_k < L_k at some look) ≤ Σ δ_k = δ,   P(p_k > U_k at some look) ≤ δ,

so each limit also holds if somebody stops at a look because of its result, such as a small U. With
δ = 5 % the interval has a confidence of 90 %, and its upper limit alone of 95 %. The look at the
full audit gets most of the risk.
"""

import math
from typing import NamedTuple

import numpy as np

from parbals.learner.evaluation.ppi import ppi_mean

__all__ = [
    "DELTA",
    "Look",
    "clopper_pearson_limits",
    "labels_at_next_look",
    "latest_look",
    "ppi_limits",
]

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

    def n_labels_at(count: int) -> int:
        """Return how many labels there were when the audit label number ``count`` arrived."""
        return int(np.searchsorted(np.cumsum(is_audit), count)) + 1

    full = math.ceil(_FULL_SHARE * size)
    if n_audit_labels >= full:
        n_labels_when_full = n_labels_at(full)
        doublings = int(math.log2(len(is_audit) // n_labels_when_full))
        weight = _WEIGHT_FULL if doublings == 0 else _WEIGHT_AFTER * 0.5**doublings
        return Look(n_labels_when_full * 2**doublings, DELTA * weight)
    halvings = 1
    while (count := math.ceil(size / 2**halvings)) >= _MIN_AUDIT_LABELS:
        if n_audit_labels >= count:
            return Look(n_labels_at(count), DELTA * _WEIGHT_BEFORE * 0.5**halvings)
        halvings += 1
    return None


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


def clopper_pearson_limits(n_wrong: float, n: float, delta: float) -> tuple[float, float]:
    """Compute Clopper–Pearson limits of a share, given ``n_wrong`` of ``n`` draws.

    The upper limit solves P(Binomial(n, p) ≤ n_wrong) = δ, the lower P(Binomial(n, p) ≥ n_wrong) =
    δ. The incomplete beta function extends both to counts that are not integers.

    >>> low, high = clopper_pearson_limits(0, 100, 0.05)
    >>> low, round(high, 3)
    (0.0, 0.03)
    """
    from scipy.special import betaincinv

    low = 0.0 if n_wrong == 0 else float(betaincinv(n_wrong, n - n_wrong + 1, delta))
    high = 1.0 if n_wrong == n else float(betaincinv(n_wrong + 1, n - n_wrong, 1.0 - delta))
    return low, high


def ppi_limits(
    wrong: np.ndarray, expected: np.ndarray, expected_pool: np.ndarray, delta: float
) -> tuple[float, float, float]:
    """Estimate the error by PPI++, with limits that each fail with probability ``delta``.

    Args:
        wrong: (n,) errors, 0 or 1.
        expected: (n,) the model's own probability of each error.
        expected_pool: (N,) the model's probability of an error for random items of the pool.
    """
    n = len(wrong)
    error, deviation, _ = ppi_mean(wrong, expected, expected_pool)
    plain_error = float(wrong.mean())
    plain_variance = plain_error * (1.0 - plain_error) / n
    if plain_variance == 0.0 or not 0.0 < error < 1.0:
        return plain_error, *clopper_pearson_limits(plain_error * n, n, delta)
    # Two degrees of freedom less, because λ is fitted to the same draws. The estimate then counts
    # for as many plain draws as its variance is smaller, and never for fewer than n.
    variance_ratio = deviation**2 / plain_variance * n / max(n - 2, 1)
    n_effective = n / min(1.0, variance_ratio)
    return error, *clopper_pearson_limits(error * n_effective, n_effective, delta)
