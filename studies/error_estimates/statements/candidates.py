"""Limits of a share from random labels and predictions: what was compared with the one in use.

All functions take sessions at once. PPI++ (Angelopoulos, Duchi and Zrnic 2023) estimates
λ mean(f) + mean(y - λ f), and counts for as many plain draws as its variance is smaller. The
variance a/(n (n + a)) stands for mistakes that no label shows.
"""

import numpy as np

__all__ = ["CANDIDATES", "candidate_limits"]

CANDIDATES = ("labels alone", "PPI++", "PPI++, a = 1", "PPI++, a = 2", "two strata", "three strata")


def candidate_limits(
    values: np.ndarray, predictions: np.ndarray, pool: np.ndarray, delta: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Candidate → lower and upper limits (sessions,).

    Args:
        values: (sessions, n) labels, 0 or 1.
        predictions: (sessions, n) of the same items.
        pool: (N,) predictions of all items.
        delta: probability with which each limit may fail.
    """
    n = values.shape[1]
    plain = _clopper_pearson(values.sum(axis=1), np.full(len(values), n), delta)
    cuts = _thresholds(pool)
    limits = {
        "labels alone": plain,
        "two strata": _strata(values, predictions, pool, delta, cuts[:1], plain),
        "three strata": _strata(values, predictions, pool, delta, np.sort(cuts), plain),
    }
    for name, added in (("PPI++", 0.0), ("PPI++, a = 1", 1.0), ("PPI++, a = 2", 2.0)):
        limits[name] = _ppi(values, predictions, pool, delta, added)
    return limits


def _clopper_pearson(
    counts: np.ndarray, n: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import betaincinv

    tiny = 1e-12
    low = betaincinv(np.maximum(counts, tiny), n - counts + 1.0, delta)
    high = betaincinv(counts + 1.0, np.maximum(n - counts, tiny), 1.0 - delta)
    return np.where(counts <= 0.0, 0.0, low), np.where(counts >= n, 1.0, high)


def _ppi(
    values: np.ndarray, predictions: np.ndarray, pool: np.ndarray, delta: float, added: float
) -> tuple[np.ndarray, np.ndarray]:
    n = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    covariance = (centred * (predictions - predictions.mean(axis=1, keepdims=True))).mean(axis=1)
    weight = np.clip(covariance / ((1.0 + n / len(pool)) * pool.var()), 0.0, 1.0)
    residuals = values - weight[:, None] * predictions
    mean = residuals.mean(axis=1) + weight * pool.mean()
    variance = residuals.var(axis=1) / n + weight**2 * pool.var() / len(pool)
    plain_mean = values.mean(axis=1)
    plain_variance = plain_mean * (1.0 - plain_mean) / n
    is_usable = (plain_variance > 0.0) & (mean > 0.0) & (mean < 1.0)
    safe_variance = np.where(is_usable, plain_variance, 1.0)
    unseen = weight**2 * added / (n * (n + added))
    ratio = (variance * n / (n - 2) + unseen) / safe_variance
    n_effective = n / np.where(is_usable, np.minimum(ratio, 1.0), 1.0)
    mean = np.where(is_usable, mean, plain_mean)
    return _clopper_pearson(mean * n_effective, n_effective, delta)


def _strata(
    values: np.ndarray,
    predictions: np.ndarray,
    pool: np.ndarray,
    delta: float,
    cuts: np.ndarray,
    plain: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ndtri

    strata = np.searchsorted(cuts, predictions)
    pool_strata = np.searchsorted(cuts, pool)
    mean, below, above, second_moment = np.zeros((4, len(values)))
    is_empty = np.zeros(len(values), bool)
    for stratum in range(len(cuts) + 1):
        is_member = strata == stratum
        share = (pool_strata == stratum).mean()
        n = is_member.sum(axis=1)
        is_empty |= (n == 0) & (share > 0.0)
        counts = (values * is_member).sum(axis=1)
        low, high = _clopper_pearson(counts, np.maximum(n, 1), delta)
        stratum_mean = counts / np.maximum(n, 1)
        mean += share * stratum_mean
        below += (share * (stratum_mean - low)) ** 2
        above += (share * (high - stratum_mean)) ** 2
        second_moment += share * stratum_mean**2
    between = np.maximum(second_moment - mean**2, 0.0) * ndtri(delta) ** 2 / len(pool)
    low = np.maximum(mean - np.sqrt(below + between), 0.0)
    high = np.minimum(mean + np.sqrt(above + between), 1.0)
    return np.where(is_empty, plain[0], low), np.where(is_empty, plain[1], high)


def _thresholds(pool: np.ndarray) -> np.ndarray:
    """The best threshold, and the best one in the half that varies more."""
    first = _best_threshold(pool)
    halves = (pool[pool <= first], pool[pool > first])
    wider = max(halves, key=lambda half: half.var() * len(half))
    return np.array([first, _best_threshold(wider)])


def _best_threshold(predictions: np.ndarray) -> float:
    ordered = np.sort(predictions)
    n_low = np.arange(1, len(ordered))
    sums = ordered.cumsum()
    difference = (sums[-1] - sums[:-1]) / (len(ordered) - n_low) - sums[:-1] / n_low
    i = int((n_low * (len(ordered) - n_low) * difference**2).argmax())
    return float(0.5 * (ordered[i] + ordered[i + 1]))
