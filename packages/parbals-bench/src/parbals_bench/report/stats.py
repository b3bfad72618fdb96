"""The paper's statistics: Student intervals, Welch's test against the best, labels saved."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from scipy import stats

__all__ = ["Interval", "LabelsSaved", "Place", "Standing", "compare", "half_width", "holm"]
__all__ += ["labels_saved", "leaderboard", "mean_interval", "welch"]

_LEVEL = 0.05
Name = TypeVar("Name", bound=Hashable)
Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` seeds ± half its 95 % Student-t interval (NaN for a single seed)."""

    mean: float
    half_width: float
    n: int

    @property
    def deviation(self) -> float:
        """The standard deviation s behind the half-width t · s / √n."""
        return self.half_width / _quantile(self.n) * self.n**0.5


@dataclass(frozen=True)
class Standing:
    """How one algorithm does among others on one dataset with one budget.

    ``is_best``: it has the best mean. ``is_top``: Welch's test against the best gives p ≥ 0.05.
    ``is_told_apart``: p < 0.05 also after Holm's correction for all the tests against that best.
    """

    interval: Interval
    p: float
    is_best: bool
    is_top: bool
    is_told_apart: bool


@dataclass(frozen=True)
class Place:
    """A line of the leaderboard: how often an algorithm was best, among the top, told apart."""

    name: str
    n_best: int
    n_top: int
    n_told_apart: int
    n_settings: int


@dataclass(frozen=True)
class LabelsSaved:
    """Labels that one curve needs fewer than another to reach the same value.

    The value is the highest that both mean curves reach; ``needed`` and ``reference`` are where
    each first does. ``reached`` is false for a curve that never gets beyond the reference's start:
    there is no such value, and ``needed`` is all labels, ``reference`` those of the start.
    """

    value: float
    needed: float
    reference: float
    reached: bool = True

    @property
    def saved(self) -> float:
        return self.reference - self.needed

    @property
    def share(self) -> float:
        """Of the reference's labels; not reached counts as the worst possible, -100 % or less."""
        share = self.saved / self.reference
        return share if self.reached else min(share, -1.0)


def mean_interval(values: Numbers) -> Interval:
    """The mean of (n,) numbers with the half-width of its 95 % interval."""
    array = np.asarray(values, np.float64)
    return Interval(float(array.mean()), float(half_width(array)), len(array))


def half_width(values: np.ndarray) -> np.ndarray:
    """t · s / √n over the first axis, t Student's 97.5 % quantile with n - 1 degrees of freedom."""
    n = len(values)
    if n < 2:
        return np.full(np.shape(values)[1:], np.nan)
    return np.asarray(_quantile(n) * np.std(values, axis=0, ddof=1) / np.sqrt(n))


def welch(a: Interval, b: Interval) -> float:
    """Two-sided p of Welch's t-test, from what a paper publishes; NaN if one has a single seed.

    Samples without any spread differ for certain (p = 0) or not at all (p = 1).
    """
    if min(a.n, b.n) < 2:
        return float("nan")
    size = max(1.0, abs(a.mean))
    # Rounding leaves equal numbers with a deviation of about 1e-16, which is no spread.
    if max(a.deviation, b.deviation) <= 1e-12 * size:
        return 1.0 if abs(a.mean - b.mean) <= 1e-12 * size else 0.0
    test = stats.ttest_ind_from_stats(
        a.mean, a.deviation, a.n, b.mean, b.deviation, b.n, equal_var=False
    )
    return float(test.pvalue)


@cache
def _quantile(n: int) -> float:
    return float(stats.t.ppf(1.0 - _LEVEL / 2.0, n - 1))


def compare(
    values: Mapping[Name, Numbers], *, lower_is_better: bool = False
) -> dict[Name, Standing]:
    """The standing of every algorithm among the others, from its final values over seeds.

    With a single seed nothing can be tested: the best alone is among the top.
    """
    if not values:
        return {}
    intervals = {name: mean_interval(numbers) for name, numbers in values.items()}
    best = (min if lower_is_better else max)(intervals.values(), key=lambda x: x.mean)
    behind = {name: welch(x, best) for name, x in intervals.items() if x.mean != best.mean}
    corrected = holm({name: p for name, p in behind.items() if not np.isnan(p)})  # of single seeds
    standings = {}
    for name, interval in intervals.items():
        p = behind.get(name, 1.0)
        told_apart = corrected.get(name, 1.0) < _LEVEL
        standings[name] = Standing(interval, p, name not in behind, p >= _LEVEL, told_apart)
    return standings


def holm(ps: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's corrected p of every test: max over smaller ones of (tests that are left) · p."""
    corrected, largest = {}, 0.0
    for place, (name, p) in enumerate(sorted(ps.items(), key=lambda pair: pair[1])):
        largest = max(largest, min(1.0, (len(ps) - place) * p))
        corrected[name] = largest
    return corrected


def leaderboard(comparisons: Sequence[Mapping[str, Standing]]) -> list[Place]:
    """Counts over comparisons, the most often among the top first."""
    names = dict.fromkeys(name for standings in comparisons for name in standings)
    places = []
    for name in names:
        own = [standings[name] for standings in comparisons if name in standings]
        n_best, n_top = sum(s.is_best for s in own), sum(s.is_top for s in own)
        n_told_apart = sum(s.is_told_apart for s in own)
        places.append(Place(name, n_best, n_top, n_told_apart, len(own)))
    return sorted(places, key=lambda place: (-place.n_top, -place.n_best))


def labels_saved(n_labels: Numbers, curve: Numbers, reference: Numbers) -> LabelsSaved:
    """How many labels ``curve`` saves against ``reference`` at equal value, both means over seeds.

    Between two rounds the curves are straight lines. A curve that never gets as far as the
    reference is asked how many labels the reference needs for what it does reach: the answer is
    then negative. One that never gets beyond where the reference starts, though the reference does,
    reaches nothing that can be compared.
    """
    at = np.asarray(n_labels, np.float64)
    ours, theirs = np.asarray(curve, np.float64), np.asarray(reference, np.float64)
    value = float(min(ours.max(), theirs.max()))
    if value < theirs.max() and value <= theirs[0]:
        return LabelsSaved(value, float(at[-1]), float(at[0]), reached=False)
    return LabelsSaved(value, _first_reach(at, ours, value), _first_reach(at, theirs, value))


def _first_reach(at: np.ndarray, curve: np.ndarray, value: float) -> float:
    step = int(np.argmax(curve >= value))
    if step == 0:
        return float(at[0])
    low, high = curve[step - 1], curve[step]
    return float(at[step - 1] + (value - low) / (high - low) * (at[step] - at[step - 1]))
