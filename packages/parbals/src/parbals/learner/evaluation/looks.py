"""When an audit is read, and with what risk: intervals that hold however often one looks.

*Looks.* An audit of n items is read when its last 5 % begin (people pass an item now and then),
and after that whenever the labels have doubled; before, when a half of it, a quarter, … have
labels, but no fewer than 20. What a look says stands until the next one. At a look the model of the
labels so far meets the audit's items among them, whose labels had no part in that model.

*One look.* Given the model, its mistakes ℓ_i are independent draws with one probability p. Clopper
and Pearson's limits of Σ ℓ_i mistakes fail with probability δ at most, each, exactly. The model
also says how likely it is to be wrong, f_i, and f̄ over the pool is known without a label: the mean
of ℓ_i - λ (f_i - f̄) is p as well, with less variance (:mod:`parbals.learner.evaluation.ppi`).
It is as good as n' ≥ n plain draws, and the limits are Clopper and Pearson's of n' draws with the
share p̂ (Korn and Graubard's for surveys): exact where λ = 0, such as without a mistake, else as n
grows, P(p > U) ≤ δ + O(1/√n).

*All looks.* Look k has δ_k = δ w_k, Σ_k w_k = 1, and by the union bound, whatever the models are,

    P(p_k < L_k at some look) ≤ Σ δ_k = δ,   P(p_k > U_k at some look) ≤ δ,

so both ends hold at a time chosen by what was seen, such as the first look with a small U: with
δ = 5 % the interval has 90 % and its upper end alone 95 %. Most of the risk is the full audit's.
"""

import math
from typing import NamedTuple

import numpy as np

from parbals.learner.evaluation.ppi import ppi_mean

__all__ = ["DELTA", "Look", "clopper_pearson_limits", "latest_look", "ppi_limits"]

DELTA = 0.05
_FULL, _BEFORE, _AFTER = 0.7, 0.1, 0.2
"""Shares of the risk: of the full audit's look, and of all looks before and after it."""
_MOST = 0.95
"""The audit counts as full with this share of its labels."""
_FEWEST = 20


class Look(NamedTuple):
    """A look at the first ``n_labels`` labels, each of whose limits may fail with ``delta``."""

    n_labels: int
    delta: float


def latest_look(is_audit: np.ndarray, size: int) -> Look | None:
    """The last look that the labels allow; None before the first.

    Args:
        is_audit: (n,) whether each label, in the order they came, is one of the audit's.
        size: how many items the audit has.
    """
    n_audited = int(is_audit.sum())
    if not n_audited:
        return None

    def when(count: int) -> int:
        """How many labels there were when the audit had so many of them."""
        return int(np.searchsorted(np.cumsum(is_audit), count)) + 1

    full = math.ceil(_MOST * size)
    if n_audited >= full:
        first = when(full)
        doublings = int(math.log2(len(is_audit) // first))
        weight = _FULL if doublings == 0 else _AFTER * 0.5**doublings
        return Look(first * 2**doublings, DELTA * weight)
    halvings = 1
    while (count := math.ceil(size / 2**halvings)) >= _FEWEST:
        if n_audited >= count:
            return Look(when(count), DELTA * _BEFORE * 0.5**halvings)
        halvings += 1
    return None


def clopper_pearson_limits(n_wrong: float, n: float, delta: float) -> tuple[float, float]:
    """Clopper and Pearson's limits of a share of which ``n_wrong`` of ``n`` draws were seen.

    The upper one solves P(Binomial(n, p) ≤ n_wrong) = δ, the lower one P(Binomial(n, p) ≥ n_wrong)
    = δ; between whole numbers the incomplete beta function continues them.
    """
    from scipy.special import betaincinv

    low = 0.0 if n_wrong == 0 else float(betaincinv(n_wrong, n - n_wrong + 1, delta))
    high = 1.0 if n_wrong == n else float(betaincinv(n_wrong + 1, n - n_wrong, 1.0 - delta))
    return low, high


def ppi_limits(
    wrong: np.ndarray, expected: np.ndarray, expected_all: np.ndarray, delta: float
) -> tuple[float, float, float]:
    """The error, and limits of it that each fail with ``delta``.

    Args:
        wrong: (n,) mistakes, 0 or 1; expected: (n,) how likely the model finds them.
        expected_all: (N,) the same of random items of the pool.
    """
    n = len(wrong)
    share, deviation, _ = ppi_mean(wrong, expected, expected_all)
    plain = float(wrong.mean())
    variance = plain * (1.0 - plain) / n
    if variance == 0.0 or not 0.0 < share < 1.0:
        return plain, *clopper_pearson_limits(plain * n, n, delta)
    # λ was fitted to the same draws, which costs a degree of freedom; at worst it gains nothing.
    worth = n / min(1.0, deviation**2 / variance * n / max(n - 2, 1))
    return share, *clopper_pearson_limits(share * worth, worth, delta)
