"""The paper's statistics: Student intervals, Welch's test against the best, labels saved."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from scipy import stats

__all__ = [
    "SIGNIFICANCE_LEVEL",
    "Interval",
    "LabelsSaved",
    "LeaderboardRow",
    "Standing",
    "compare",
    "half_width",
    "holm",
    "labels_saved",
    "leaderboard",
    "mean_interval",
    "welch",
]

SIGNIFICANCE_LEVEL = 0.05
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
    """How one algorithm compares with others on one dataset with one budget.

    ``is_best``: it has the best mean. ``is_top``: Welch's test against the best gives p ≥ 0.05.
    ``is_significantly_worse``: p < 0.05 after Holm's correction for all tests against the best.
    """

    interval: Interval
    p: float
    is_best: bool
    is_top: bool
    is_significantly_worse: bool


@dataclass(frozen=True)
class LeaderboardRow:
    """How often an algorithm was best, among the top, and significantly worse than the best."""

    name: str
    n_best: int
    n_top: int
    n_significantly_worse: int
    n_settings: int


@dataclass(frozen=True)
class LabelsSaved:
    """How many fewer labels one curve needs than another to reach an equal value.

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
        """Share of the reference's labels; a value not reached counts as -100 % or less."""
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
    """Two-sided p of Welch's t-test, from published means and intervals; NaN for a single seed.

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
    return float(stats.t.ppf(1.0 - SIGNIFICANCE_LEVEL / 2.0, n - 1))


def compare(
    values: Mapping[Name, Numbers], *, lower_is_better: bool = False
) -> dict[Name, Standing]:
    """Compare every algorithm with the best, by their final values over seeds.

    With a single seed nothing can be tested: only the best is among the top.

    >>> standings = compare({"a": [0.9, 0.91, 0.92], "b": [0.5, 0.52, 0.51]})
    >>> standings["a"].is_best, standings["b"].is_significantly_worse
    (True, True)
    """
    if not values:
        return {}
    intervals = {name: mean_interval(numbers) for name, numbers in values.items()}
    best = (min if lower_is_better else max)(intervals.values(), key=lambda x: x.mean)
    p_values = {name: welch(x, best) for name, x in intervals.items() if x.mean != best.mean}
    # A single seed has no p.
    corrected = holm({name: p for name, p in p_values.items() if not np.isnan(p)})
    standings = {}
    for name, interval in intervals.items():
        p = p_values.get(name, 1.0)
        standings[name] = Standing(
            interval=interval,
            p=p,
            is_best=name not in p_values,
            is_top=p >= SIGNIFICANCE_LEVEL,
            is_significantly_worse=corrected.get(name, 1.0) < SIGNIFICANCE_LEVEL,
        )
    return standings


def holm(ps: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's corrected p of every test: running maximum of (number of remaining tests) · p.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    corrected = {}
    largest = 0.0
    for index, (name, p) in enumerate(sorted(ps.items(), key=lambda pair: pair[1])):
        n_remaining = len(ps) - index
        largest = max(largest, min(1.0, n_remaining * p))
        corrected[name] = largest
    return corrected


def leaderboard(comparisons: Sequence[Mapping[str, Standing]]) -> list[LeaderboardRow]:
    """Counts over comparisons; those most often among the top come first."""
    names = dict.fromkeys(name for standings in comparisons for name in standings)
    rows = []
    for name in names:
        standings_of_name = [standings[name] for standings in comparisons if name in standings]
        row = LeaderboardRow(
            name=name,
            n_best=sum(standing.is_best for standing in standings_of_name),
            n_top=sum(standing.is_top for standing in standings_of_name),
            n_significantly_worse=sum(
                standing.is_significantly_worse for standing in standings_of_name
            ),
            n_settings=len(standings_of_name),
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (-row.n_top, -row.n_best))


def labels_saved(n_labels: Numbers, curve: Numbers, reference: Numbers) -> LabelsSaved:
    """How many labels ``curve`` saves against ``reference`` at equal value, both means over seeds.

    Between two rounds the curves are straight lines. If the curve stays below the reference's best
    value, the labels that the reference needs for the curve's best value are compared, and the
    saving may be negative. If it never exceeds the reference's start, though the reference does, no
    value can be compared.

    >>> labels_saved([10, 20, 30], [0.5, 0.9, 0.9], [0.5, 0.7, 0.9]).saved
    10.0
    """
    n_labels = np.asarray(n_labels, np.float64)
    curve = np.asarray(curve, np.float64)
    reference = np.asarray(reference, np.float64)
    value = float(min(curve.max(), reference.max()))
    if value < reference.max() and value <= reference[0]:
        return LabelsSaved(value, float(n_labels[-1]), float(n_labels[0]), reached=False)
    needed = _labels_to_reach(value, n_labels, curve)
    return LabelsSaved(value, needed, _labels_to_reach(value, n_labels, reference))


def _labels_to_reach(value: float, n_labels: np.ndarray, curve: np.ndarray) -> float:
    """Labels at which a curve first reaches a value, interpolated between rounds."""
    step = int(np.argmax(curve >= value))
    if step == 0:
        return float(n_labels[0])
    low = curve[step - 1]
    high = curve[step]
    share = (value - low) / (high - low)
    return float(n_labels[step - 1] + share * (n_labels[step] - n_labels[step - 1]))
