"""The paper's statistics: Student intervals, Welch's test against the best, the leaderboard, labels
saved."""

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
    "welch_p_of",
]

_LEVEL = 0.05
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` seeds ± half the width of its 95 % Student-t interval (NaN for a single
    seed)."""

    mean: float
    half_width: float
    n: int


@dataclass(frozen=True)
class Standing:
    """How one algorithm does in one setting.

    ``is_best``: it has the best mean. ``is_top``: Welch's test against the best mean gives p ≥
    0.05.
    """

    interval: Interval
    p: float
    is_best: bool
    is_top: bool


@dataclass(frozen=True)
class Place:
    """A line of the leaderboard: in how many of its settings an algorithm was best, and among the
    top."""

    name: str
    n_best: int
    n_top: int
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
        """Of the reference's labels.

        Not reached counts as the worst possible: all labels for none, at least -100 %.
        """
        share = self.saved / self.reference
        return share if self.reached else min(share, -1.0)


def mean_interval(values: Sequence[float] | np.ndarray, level: float = 1.0 - _LEVEL) -> Interval:
    """Mean and half-width t · s / √n, where t is Student's quantile with n - 1 degrees of freedom."""
    array = np.asarray(values, np.float64)
    n = len(array)
    if n < 2:
        return Interval(float(array.mean()), float("nan"), n)
    return Interval(
        float(array.mean()), float(_quantile(n, level) * array.std(ddof=1) / np.sqrt(n)), n
    )


def welch_p(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> float:
    """Two-sided p of Welch's t-test; NaN if a sample has fewer than two values.

    Samples without any spread differ for certain (p = 0) or not at all (p = 1).
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if min(len(first), len(second)) < 2:
        return float("nan")
    squares = [float(x.var(ddof=1)) / len(x) for x in (first, second)]
    return _welch(
        (float(first.mean()), squares[0], len(first)),
        (float(second.mean()), squares[1], len(second)),
    )


def welch_p_of(a: Interval, b: Interval) -> float:
    """The same from two means with 95 % Student-t half-widths h: the standard error is h / t, t of
    n - 1 degrees."""
    if min(a.n, b.n) < 2:
        return float("nan")
    first, second = ((x.mean, (x.half_width / _quantile(x.n)) ** 2, x.n) for x in (a, b))
    return _welch(first, second)


def _welch(a: tuple[float, float, int], b: tuple[float, float, int]) -> float:
    """From means, squared standard errors and numbers of values."""
    (mean, square_a, n_a), (other, square_b, n_b) = a, b
    difference, total, size = mean - other, square_a + square_b, max(1.0, abs(mean))
    # Rounding leaves equal numbers with a variance of about 1e-32, which is no spread.
    if total <= 1e-24 * size**2:
        return 1.0 if abs(difference) <= 1e-12 * size else 0.0
    freedom = total**2 / (square_a**2 / (n_a - 1) + square_b**2 / (n_b - 1))
    return float(2.0 * stdtr(freedom, -abs(difference) / np.sqrt(total)))


def _quantile(n: int, level: float = 1.0 - _LEVEL) -> float:
    return float(stdtrit(n - 1, 0.5 + level / 2.0))


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
        places.append(
            Place(name, sum(s.is_best for s in own), sum(s.is_top for s in own), len(own))
        )
    return sorted(places, key=lambda place: (-place.n_top, -place.n_best))


def labels_saved(
    n_labels: Sequence[float],
    curve: Sequence[float] | np.ndarray,
    reference: Sequence[float] | np.ndarray,
) -> LabelsSaved:
    """How many labels ``curve`` saves against ``reference`` (Random) at equal value, both mean
    curves over seeds.

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
