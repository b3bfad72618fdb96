"""The page of the study: accuracies, paired differences and sizes of the target."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from lib.paired import paired
from parbals_bench.report.stats import holm
from scipy import stats
from targets.shifts import POOL_SHARE, PRIOR_SHIFTS, SHIFTS

__all__ = [
    "MAIN_TARGET_ROWS",
    "ONE_KIND",
    "OURS",
    "TARGET_SIZES",
    "TITLES",
    "WEIGHTED",
    "WITHOUT",
    "Arm",
    "common_runs",
    "page",
]

Arm = tuple[str, int]
"""A strategy, and the number of target rows that it knows."""
Runs = Mapping[Arm, np.ndarray]
"""Accuracies in % of each arm, (seeds, batches + 1)."""
MAIN_TARGET_ROWS = 200
TARGET_SIZES = (MAIN_TARGET_ROWS, 50, 1_000)
"""The main comparison is with the first."""
OURS: Arm = ("parbals-epig", MAIN_TARGET_ROWS)
WITHOUT: Arm = ("parbals-epig", 0)
WEIGHTED: Arm = ("weighted-margin", MAIN_TARGET_ROWS)
TITLES: dict[Arm, str] = {
    OURS: "ParBaLS, target",
    ("epig", MAIN_TARGET_ROWS): "EPIG, target",
    WEIGHTED: "weighted Margin",
    WITHOUT: "ParBaLS",
    ("margin", 0): "Margin",
    ("badge", 0): "BADGE",
    ("confidence", 0): "Confidence",
    ("random", 0): "Random",
}
ONE_KIND: dict[Arm, str] = {
    ("only-target", 0): "of the target's kind",
    ("only-others", 0): "of others",
}
"""Labels of one kind of pool rows alone."""
BASELINES = [arm for arm in TITLES if arm != OURS]
_CONFIDENCE = 0.95


def page(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the page; a shift's means are over the seeds that all arms have."""
    runs = {name: common_runs(records, name, TITLES) for name in SHIFTS}
    runs = {name: arms for name, arms in runs.items() if arms}
    yield "# What if the model is for other data than the pool?"
    yield ""
    yield "Written by `python studies targets`; do not edit."
    yield ""
    if not runs:
        return
    yield (
        "**Choosing for the target gains much on most targets that are a twentieth of the pool.** "
        "Which strategy knows the target matters little: Margin weighted by the odds of a "
        "classifier that tells target from pool gains as much as ParBaLS, on two targets more, on "
        "two less. The target gains nothing over plain Margin for passengers of 60 and older and "
        "for long messages."
    )
    yield ""
    yield from _summary(runs)
    yield ""
    yield (
        f"Pools of at most 2,000 rows, {100 * POOL_SHARE:.0f} % of them of the target's kind. All "
        "strategies have the same 50 random labels and choose eight batches of 20, with the "
        "defaults of `ActiveLearner`; accuracy is measured on other rows of the target. *Target*: "
        "the strategy knows 200 unlabelled rows of the target; ParBaLS without target has 200 rows "
        "of the pool in their place, drawn for each batch. *Weighted Margin* knows "
        "them, too: (1 - margin) times the odds of a logistic regression that tells target rows "
        "from pool rows. Two targets differ from their pools in class shares alone: "
        f"{' and '.join(SHIFTS[name].title for name in PRIOR_SHIFTS)}."
    )
    yield ""
    yield "![Accuracy on each target against the number of labels](curves.png)"
    for title, summary in (("Mean over the curve", _curve_mean), ("After 210 labels", _final)):
        yield ""
        yield f"## {title}"
        yield ""
        yield "Accuracy on the target in %, mean of the seeds; the highest of a row is bold."
        yield ""
        yield from _accuracies(runs, summary)
        yield ""
        yield (
            "ParBaLS with target minus the others: paired differences in points ± half of the 95 % "
            "interval, bold where it excludes 0. The last row has the mean of the targets, and its "
            "interval over targets."
        )
        yield ""
        yield from _differences(runs, summary)
    yield ""
    yield "## How many target rows are needed?"
    yield ""
    yield (
        "Mean over the curve in %, by the number of unlabelled target rows that the strategy knows "
        "(fewer than 1,000 where the data have fewer: 249 slanted digits, 620 news of AP and 467 "
        "long messages)."
    )
    yield ""
    yield from _sizes(records)
    yield ""
    yield "## Which rows are labelled?"
    yield ""
    yield "How many of the 210 labelled rows are of the target's kind, mean of the seeds."
    yield ""
    yield from _rows_of_target(records, runs)
    yield ""
    yield "## Why is nothing gained on some targets?"
    yield ""
    yield (
        "**Either labels of other rows say nearly as much about the target, or a strategy that "
        "looks for uncertain rows finds the target's by itself.** The table has the accuracy on "
        "the target in % with labels of all pool rows of the target's kind and no others, and of "
        "as many random other rows. Passengers of 60 and older are the first case: the two differ "
        "least. Long messages are the second: they differ much, but Margin labels nearly as many "
        "long messages as ParBaLS with target does, as the table above shows."
    )
    yield ""
    yield from _worth_of_a_label(records)


def common_runs(
    records: Sequence[Mapping[str, Any]], name: str, arms: Iterable[Arm]
) -> dict[Arm, np.ndarray]:
    """Learning curves of a shift in %, (seeds, batches + 1) each, of seeds that no arm lacks."""
    arms = list(arms)
    by_arm: dict[Arm, dict[int, list[float]]] = {}
    for record in records:
        shift, strategy, n_target, seed = record["run"]
        if shift == name:
            by_arm.setdefault((strategy, n_target), {})[seed] = record["accuracy"]
    seeds = sorted(set.intersection(*(set(by_arm.get(arm, ())) for arm in arms)))
    if len(seeds) < 2:
        return {}
    return {arm: 100.0 * np.array([by_arm[arm][seed] for seed in seeds]) for arm in arms}


def _curve_mean(curves: np.ndarray) -> np.ndarray:
    return np.asarray(curves.mean(axis=1))


def _final(curves: np.ndarray) -> np.ndarray:
    return np.asarray(curves[:, -1])


def _title(name: str) -> str:
    """What the model is for, without its data."""
    return SHIFTS[name].title.partition(";")[0]


def _differences_of(arms: Runs, baseline: Arm, summary: Any) -> np.ndarray:
    return np.asarray(summary(arms[OURS]) - summary(arms[baseline]))


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Mean, and half of its Student-t interval."""
    half_width = stats.t.ppf((1 + _CONFIDENCE) / 2, len(values) - 1) * stats.sem(values)
    return float(values.mean()), float(half_width)


def _summary(runs: Mapping[str, Runs]) -> Iterator[str]:
    """A row for each rival: the mean gain, and on how many targets a test is sure of it."""
    titles = ("points, mean over the curve", "ahead", "not sure", "behind")
    yield f"| ParBaLS with target against | {' | '.join(titles)} |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for baseline in BASELINES:
        differences = {
            name: _differences_of(arms, baseline, _curve_mean) for name, arms in runs.items()
        }
        gains = {name: float(values.mean()) for name, values in differences.items()}
        corrected = holm({name: paired(values)[2] for name, values in differences.items()})
        sure_gains = [gains[name] for name, p in corrected.items() if p < 0.05]
        n_ahead = sum(gain > 0.0 for gain in sure_gains)
        n_behind = len(sure_gains) - n_ahead
        n_unsure = len(runs) - len(sure_gains)
        mean, half_width = _interval(np.array(list(gains.values())))
        cells = f"{mean:+.1f} ± {half_width:.1f} | {n_ahead} | {n_unsure} | {n_behind}"
        yield f"| {TITLES[baseline]} | {cells} |"
    n_seeds = sorted({len(arms[OURS]) for arms in runs.values()})
    seeds = " or ".join(str(count) for count in n_seeds)
    yield ""
    yield (
        f"{len(runs)} targets, {seeds} seeds each; ± is half of the 95 % interval over targets. "
        "*Ahead* and *behind* count targets with p < 0.05 in a paired t-test, after Holm's "
        "correction for all targets."
    )


def _accuracies(runs: Mapping[str, Runs], summary: Any) -> Iterator[str]:
    yield "| the model is for | seeds | " + " | ".join(TITLES.values()) + " |"
    yield "| --- | ---: |" + " ---: |" * len(TITLES)
    rows = []
    for name, arms in runs.items():
        means = [float(summary(arms[arm]).mean()) for arm in TITLES]
        rows.append(means)
        yield f"| {SHIFTS[name].title} | {len(arms[OURS])} | {_cells(means)} |"
    yield f"| **mean** | | {_cells(np.mean(rows, axis=0).tolist())} |"


def _cells(means: Sequence[float]) -> str:
    texts = [f"{mean:.1f}" for mean in means]
    highest = f"{max(means):.1f}"
    return " | ".join(f"**{text}**" if text == highest else text for text in texts)


def _differences(runs: Mapping[str, Runs], summary: Any) -> Iterator[str]:
    yield "| the model is for | " + " | ".join(TITLES[arm] for arm in BASELINES) + " |"
    yield "| --- |" + " ---: |" * len(BASELINES)
    means: dict[Arm, list[float]] = {arm: [] for arm in BASELINES}
    for name, arms in runs.items():
        cells = []
        for baseline in BASELINES:
            differences = _differences_of(arms, baseline, summary)
            means[baseline].append(float(differences.mean()))
            cells.append(_difference_cell(differences))
        yield f"| {_title(name)} | {' | '.join(cells)} |"
    cells = [_difference_cell(np.array(means[baseline])) for baseline in BASELINES]
    yield f"| **mean** | {' | '.join(cells)} |"


def _difference_cell(differences: np.ndarray) -> str:
    mean, half_width = _interval(differences)
    mark = "**" if abs(mean) > half_width else ""
    return f"{mark}{mean:+.1f} ± {half_width:.1f}{mark}"


def _sizes(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    sizes = sorted(TARGET_SIZES)
    titles = {WITHOUT: "ParBaLS, none"}
    titles |= {("parbals-epig", size): f"ParBaLS, {size:,}" for size in sizes}
    titles |= {("epig", size): f"EPIG, {size:,}" for size in sizes}
    yield "| the model is for | seeds | " + " | ".join(titles.values()) + " |"
    yield "| --- | ---: |" + " ---: |" * len(titles)
    rows = []
    for name in SHIFTS:
        runs = common_runs(records, name, titles)
        if runs:
            means = [float(_curve_mean(runs[arm]).mean()) for arm in titles]
            rows.append(means)
            yield f"| {_title(name)} | {len(runs[WITHOUT])} | {_cells(means)} |"
    if rows:
        yield f"| **mean** | | {_cells(np.mean(rows, axis=0).tolist())} |"


def _rows_of_target(
    records: Sequence[Mapping[str, Any]], runs: Mapping[str, Runs]
) -> Iterator[str]:
    yield "| the model is for | " + " | ".join(TITLES.values()) + " |"
    yield "| --- |" + " ---: |" * len(TITLES)
    for name in runs:
        cells = []
        for arm in TITLES:
            counts = [
                record["of_target"]
                for record in records
                if tuple(record["run"][:3]) == (name, *arm)
            ]
            cells.append(f"{np.mean(counts):.0f}")
        yield f"| {_title(name)} | {' | '.join(cells)} |"


def _worth_of_a_label(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What labels of one kind of rows are worth, the targets by how much, and what was gained."""
    arms = [*ONE_KIND, OURS, ("margin", 0)]
    rows = []
    for name in SHIFTS:
        curves = common_runs(records, name, [*ONE_KIND])
        runs = common_runs(records, name, arms[2:])
        if curves and runs:
            of_target = curves["only-target", 0][:, 0]
            of_others = curves["only-others", 0][:, 0]
            gain = _differences_of(runs, ("margin", 0), _curve_mean)
            rows.append((of_target - of_others, of_target, of_others, gain, name))
    yield "| the model is for | labels of its kind | of others | difference | gain over Margin |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for difference, of_target, of_others, gain, name in sorted(rows, key=lambda row: row[0].mean()):
        yield (
            f"| {_title(name)} | {of_target.mean():.1f} | {of_others.mean():.1f} "
            f"| {_difference_cell(difference)} | {_difference_cell(gain)} |"
        )
