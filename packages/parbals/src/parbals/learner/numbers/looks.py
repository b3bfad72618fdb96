"""Intervals that hold however often one looks.

A session has infinitely many possible *looks*, k ∈ ℤ: look k is taken when there are
n_k = ⌈200 · 2^(k/3)⌉ labels (not counting those from before the audit began), and what it says
stands until the next one. At a look the model of the first n_k labels meets the audit's items among
them, whose labels had no part in that model. Given the model, each of the n losses is then a
Bernoulli(p) draw of its own, p the model's error rate on items like these, and Clopper and
Pearson's exact limits L, U have

    P(p < L) ≤ δ,   P(p > U) ≤ δ.

With δ_k = δ w_k and Σ_k w_k = 1 the union bound gives, for all looks together,

    P(p_k < L_k at some look) ≤ δ,   P(p_k > U_k at some look) ≤ δ,

so both ends hold at a time chosen by what was seen, such as the first look with a small U: with
δ = 5 % the interval has 90 % and its upper end alone 95 %. The weights w_k = (1 + (k/4)²)⁻¹ / W,
W = 4π coth 4π, are flat where sessions end: within a factor of two at 80 to 500 labels.
"""

import math
from dataclasses import dataclass

__all__ = ["Look", "error_limits", "latest_look"]

_CENTRE, _PER_DOUBLING, _SPREAD = 200, 3, 4.0
_TOTAL = _SPREAD * math.pi / math.tanh(_SPREAD * math.pi)
_DELTA = 0.05


@dataclass(frozen=True)
class Look:
    """A look at the first ``n_labels`` labels, each of whose limits may fail with ``delta``."""

    n_labels: int
    delta: float


def latest_look(n_labels: int) -> Look | None:
    """The last look that ``n_labels`` labels allow; None before the first label."""
    if n_labels < 1:
        return None
    # 400 labels are twice 200 whatever the logarithm's last digit.
    k = math.floor(_PER_DOUBLING * math.log2(n_labels / _CENTRE) + 1e-9)
    weight = 1.0 / (_TOTAL * (1.0 + (k / _SPREAD) ** 2))
    return Look(math.ceil(_CENTRE * 2.0 ** (k / _PER_DOUBLING) - 1e-6), _DELTA * weight)


def error_limits(n_wrong: int, n: int, delta: float) -> tuple[float, float]:
    """Clopper and Pearson's limits of a share of which ``n_wrong`` of ``n`` draws were seen.

    The upper one solves P(Binomial(n, p) ≤ n_wrong) = δ, the lower one P(Binomial(n, p) ≥ n_wrong)
    = δ.
    """
    from scipy.special import betaincinv

    low = 0.0 if n_wrong == 0 else float(betaincinv(n_wrong, n - n_wrong + 1, delta))
    high = 1.0 if n_wrong == n else float(betaincinv(n_wrong + 1, n - n_wrong, 1.0 - delta))
    return low, high
