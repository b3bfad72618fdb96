"""Limits of a share from random labels: at one look, at every look, and with predictions.

*At one look.* Whether label i is of interest, y_i (0 or 1), is an independent draw with the same
probability p. The Clopper–Pearson limits of p, given Σ y_i, each fail with a probability of at most
δ, exactly.

*At every look.* Somebody who reads a limit after every label has many chances to see it fail. A
confidence sequence fails at any time with a probability of at most δ (Robbins 1970): for every p

    M_n(p) = ∫_{q < p} q^k (1 - q)^(n-k) dB(q) / (p^k (1 - p)^(n-k)),    k = Σ y_i,

is a likelihood ratio, with a mean of at most 1 wherever the share is p or higher. By Ville's
inequality it exceeds 1/δ at some n with a probability of at most δ, so the upper limit is the
largest p with M_n(p) ≤ 1/δ. B is Jeffreys' prior, restricted to q < p. At 20 to 320 labels these
limits are as wide as those of Clopper and Pearson at 20, 40, 80, … labels that share δ as 1/2, 1/6,
1/12, …, and they need not wait for the next of these looks.

*With predictions.* Predictions f of all items divide these into two strata, at the threshold that
explains most of the variance of f (Otsu 1979). The strata have the shares π_s of all items, and
among the random labels in each of them the share of interest is θ_s. Then Σ_s π_s θ_s is the
post-stratified estimate: unbiased whatever the predictions are, and the more they explain, the
smaller is its variance. Its limits combine those of both strata by MOVER (Zou and Donner 2008): the
squared distances of the ends from the estimate are Σ_s π_s² (u_s - θ_s)² + z_δ² V, where V is the
variance between the strata over the number of items, because these are a sample themselves.

Where no mistake of a confident model is among the labels, u_s - θ_s remains about 3/n_s: as much
as unseen mistakes allow. A limit from the variance of y - λ f (PPI++) does not have that, and it
failed in up to half of the made sessions; the study ``error_estimates.statements`` compares both.
With fewer than two strata among the labels, the limits are those without predictions.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

__all__ = [
    "Limits",
    "clopper_pearson_limits",
    "sequence_limits",
    "stratified_limits",
]

Limits = Callable[[float, int, float], tuple[float, float]]
"""Lower and upper limit of a share, given a count, the number of draws, and δ."""

_PRIOR = 0.5
"""Both parameters of Jeffreys' prior of a share."""
_TOLERANCE = 1e-7


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


def sequence_limits(n_wrong: float, n: int, delta: float) -> tuple[float, float]:
    """Compute limits of a share that may be read after every draw: a confidence sequence.

    >>> low, high = sequence_limits(0, 100, 0.05)
    >>> low, round(high, 3)
    (0.0, 0.037)

    Args:
        n_wrong: number of draws of interest so far.
        n: number of draws so far.
        delta: probability with which each limit may fail, now or at any other number of draws.
    """
    return 1.0 - _sequence_upper(n - n_wrong, n, delta), _sequence_upper(n_wrong, n, delta)


@lru_cache(maxsize=4_096)
def _sequence_upper(n_wrong: float, n: int, delta: float) -> float:
    """The largest share p with M_n(p) ≤ 1/δ, by bisection: M_n increases above n_wrong/n."""
    from scipy.special import betainc, betaln

    if n_wrong == n:
        return 1.0
    n_right = n - n_wrong
    a = n_wrong + _PRIOR
    b = n_right + _PRIOR

    def is_excluded(share: float) -> bool:
        """Whether M_n at this share is above 1/δ."""
        log_mixture = betaln(a, b) + math.log(betainc(a, b, share))
        log_prior = betaln(_PRIOR, _PRIOR) + math.log(betainc(_PRIOR, _PRIOR, share))
        log_likelihood = n_wrong * math.log(share) + n_right * math.log1p(-share)
        return bool(log_mixture - log_prior - log_likelihood > -math.log(delta))

    low = max(n_wrong / n, _TOLERANCE)
    high = 1.0 - _TOLERANCE
    if not is_excluded(high):
        return 1.0
    while high - low > _TOLERANCE:
        middle = 0.5 * (low + high)
        if is_excluded(middle):
            high = middle
        else:
            low = middle
    return high


def stratified_limits(
    values: np.ndarray,
    predictions: np.ndarray,
    other_predictions: np.ndarray,
    delta: float,
    limits: Limits = clopper_pearson_limits,
) -> tuple[float, float, float]:
    """Estimate a share from random labels and predictions of all items, with its two limits.

    A model that is always right, and 60 random labels of a class that is a fifth of the items:

    >>> values = np.repeat([1.0, 0.0], [12, 48])
    >>> others = np.repeat([1.0, 0.0], [200, 800])
    >>> [round(value, 3) for value in stratified_limits(values, values, others, 0.05)]
    [0.2, 0.151, 0.252]
    >>> [round(value, 3) for value in clopper_pearson_limits(12, 60, 0.05)]
    [0.12, 0.304]

    Args:
        values: (n,) known values from 0 to 1, of random items.
        predictions: (n,) predictions of the same items.
        other_predictions: (N,) predictions of the items without a value; they are random as well.
        delta: probability with which each limit may fail.
        limits: of the share in a stratum.
    """
    from scipy.special import ndtri

    n = len(values)
    all_predictions = np.concatenate([predictions, other_predictions])
    threshold = _threshold(all_predictions)
    is_high = predictions > threshold
    n_high = int(is_high.sum())
    if n_high in (0, n):
        return float(values.mean()), *limits(float(values.sum()), n, delta)
    share_high = float((all_predictions > threshold).mean())
    strata = ((is_high, share_high), (~is_high, 1.0 - share_high))
    mean = 0.0
    squared_below = 0.0
    squared_above = 0.0
    means = []
    for is_member, stratum_share in strata:
        n_labels = int(is_member.sum())
        total = float(values[is_member].sum())
        low, high = limits(total, n_labels, delta)
        stratum_mean = total / n_labels
        means.append(stratum_mean)
        mean += stratum_share * stratum_mean
        squared_below += (stratum_share * (stratum_mean - low)) ** 2
        squared_above += (stratum_share * (high - stratum_mean)) ** 2
    between = share_high * (1.0 - share_high) * (means[0] - means[1]) ** 2 / len(all_predictions)
    squared_between = float(ndtri(delta)) ** 2 * between
    low = mean - math.sqrt(squared_below + squared_between)
    high = mean + math.sqrt(squared_above + squared_between)
    return mean, max(low, 0.0), min(high, 1.0)


def _threshold(predictions: np.ndarray) -> float:
    """The threshold between two groups that explains most of the variance of predictions (N,).

    >>> _threshold(np.array([0.1, 0.2, 0.1, 0.8]))
    0.5
    """
    ordered = np.sort(predictions.astype(np.float64))
    n_low = np.arange(1, len(ordered))
    is_gap = ordered[1:] > ordered[:-1]
    if not is_gap.any():
        return math.inf
    sums = ordered.cumsum()
    n_high = len(ordered) - n_low
    difference = (sums[-1] - sums[:-1]) / n_high - sums[:-1] / n_low
    between = np.where(is_gap, n_low * n_high * difference**2, -1.0)
    i = int(between.argmax())
    return float(0.5 * (ordered[i] + ordered[i + 1]))
