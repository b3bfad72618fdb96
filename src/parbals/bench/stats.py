"""The paper's statistics: Student intervals, Welch's test against the best, the leaderboard, labels saved."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import stdtr, stdtrit

__all__ = [
    "Interval",
    "LabelsSaved",
    "Place",
    "Standing",
    "compare",
    "labels_saved",
    "leaderboard",
    "mean_interval",
    "welch_p",
]

_LEVEL = 0.05
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` seeds ± half the width of its 95 % Student-t interval (NaN for a single seed)."""

    mean: float
    half_width: float
    n: int


@dataclass(frozen=True)
class Standing:
    """How one algorithm does in one setting.

    ``is_best``: it has the best mean. ``is_top``: Welch's test against the best mean gives p ≥ 0.05.
    """

    interval: Interval
    p: float
    is_best: bool
    is_top: bool


@dataclass(frozen=True)
class Place:
    """A line of the leaderboard: in how many of its settings an algorithm was best, and among the top."""

    name: str
    n_best: int
    n_top: int
    n_settings: int


@dataclass(frozen=True)
class LabelsSaved:
    """Labels that one curve needs fewer than another to reach the same value.

    The value is the highest that both mean curves reach; ``needed`` and ``reference`` are where each first does.
    """

    value: float
    needed: float
    reference: float

    @property
    def saved(self) -> float:
        return self.reference - self.needed


def mean_interval(values: Sequence[float] | np.ndarray, level: float = 1.0 - _LEVEL) -> Interval:
    """Mean and half-width t · s / √n, where t is Student's quantile with n - 1 degrees of freedom."""
    array = np.asarray(values, np.float64)
    n = len(array)
    if n < 2:
        return Interval(float(array.mean()), float("nan"), n)
    t = float(stdtrit(n - 1, 0.5 + level / 2.0))
    return Interval(float(array.mean()), float(t * array.std(ddof=1) / np.sqrt(n)), n)


def welch_p(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> float:
    """Two-sided p of Welch's t-test; NaN if a sample has fewer than two values.

    Samples without any spread differ for certain (p = 0) or not at all (p = 1).
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if min(len(first), len(second)) < 2:
        return float("nan")
    variance_a, variance_b = first.var(ddof=1) / len(first), second.var(ddof=1) / len(second)
    difference = float(first.mean() - second.mean())
    total = variance_a + variance_b
    # Rounding leaves equal numbers with a variance of about 1e-32, which is no spread.
    if total <= 1e-24 * max(1.0, abs(float(first.mean()))) ** 2:
        return 1.0 if abs(difference) <= 1e-12 * max(1.0, abs(float(first.mean()))) else 0.0
    freedom = total**2 / (variance_a**2 / (len(first) - 1) + variance_b**2 / (len(second) - 1))
    return float(2.0 * stdtr(freedom, -abs(difference) / np.sqrt(total)))


def compare(
    values: Mapping[Name, Sequence[float] | np.ndarray], *, lower_is_better: bool = False
) -> dict[Name, Standing]:
    """The standing of every algorithm in one setting, from its final values over seeds.

    With a single seed nothing can be tested: the best alone is among the top.
    """
    if not values:
        return {}
    intervals = {name: mean_interval(numbers) for name, numbers in values.items()}
    best = (min if lower_is_better else max)(intervals, key=lambda name: intervals[name].mean)
    standings = {}
    for name, interval in intervals.items():
        is_best = interval.mean == intervals[best].mean
        p = 1.0 if is_best else welch_p(values[name], values[best])
        standings[name] = Standing(interval, p, is_best, bool(p >= _LEVEL))
    return standings


def leaderboard(settings: Sequence[Mapping[str, Standing]]) -> list[Place]:
    """Counts over settings (datasets × budgets), the most often among the top first."""
    names = dict.fromkeys(name for standings in settings for name in standings)
    places = []
    for name in names:
        own = [standings[name] for standings in settings if name in standings]
        places.append(Place(name, sum(s.is_best for s in own), sum(s.is_top for s in own), len(own)))
    return sorted(places, key=lambda place: (-place.n_top, -place.n_best))


def labels_saved(
    n_labels: Sequence[float], curve: Sequence[float] | np.ndarray, reference: Sequence[float] | np.ndarray
) -> LabelsSaved:
    """How many labels ``curve`` saves against ``reference`` (Random) at equal value, both mean curves over seeds.

    Between two rounds the curves are straight lines. A curve that never gets as far as the reference is asked how
    many labels the reference needs for what it does reach: the answer is then negative.
    """
    at = np.asarray(n_labels, np.float64)
    ours, theirs = np.asarray(curve, np.float64), np.asarray(reference, np.float64)
    value = float(min(ours.max(), theirs.max()))
    return LabelsSaved(value, _first_reach(at, ours, value), _first_reach(at, theirs, value))


def _first_reach(at: np.ndarray, curve: np.ndarray, value: float) -> float:
    step = int(np.argmax(curve >= value))
    if step == 0:
        return float(at[0])
    low, high = curve[step - 1], curve[step]
    return float(at[step - 1] + (value - low) / (high - low) * (at[step] - at[step - 1]))
