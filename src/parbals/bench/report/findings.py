"""What the results say, in numbers and in sentences computed from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parbals.bench.records import RunRecord
from parbals.bench.report.collect import Line, Setting
from parbals.bench.report.measures import MEASURES
from parbals.bench.report.names import KINDS, dataset_name, device_name
from parbals.bench.report.paper import agreements
from parbals.bench.report.stats import LabelsSaved, labels_saved
from parbals.bench.report.tables import ablation_tables, leaderboards, standings_of

__all__ = [
    "Saving",
    "StageTimes",
    "batch_gaps",
    "batched",
    "headlines",
    "overview",
    "savings",
    "stage_times",
]

_OURS = Line("parbals-epig")
_EPIG = Line("epig")


@dataclass(frozen=True)
class Saving:
    """Labels that a strategy saves against Random in one setting."""

    setting: Setting
    line: Line
    found: LabelsSaved

    @property
    def share(self) -> float:
        return self.found.share


@dataclass(frozen=True)
class StageTimes:
    """Seconds of a strategy on one device: means over its runs, and the median over all its
    batches."""

    line: Line
    fit: float
    predict: float
    select: float
    select_once: float  # one batch
    n_runs: int

    @property
    def total(self) -> float:
        return self.fit + self.predict + self.select


def savings(settings: Sequence[Setting], metric: str = "accuracy") -> list[Saving]:
    """For every dataset and budget that Random was run in, and every other strategy there."""
    sign = -1.0 if MEASURES[metric].lower_is_better else 1.0
    found = []
    for setting in settings:
        for line in () if setting.is_one_vs_all else setting.lines():
            random = setting.random_beside(line)
            if random is not None and line.strategy != random.strategy:
                curve, reference = (sign * _mean(setting, x, metric) for x in (line, random))
                found.append(
                    Saving(setting, line, labels_saved(setting.budget.n_labels, curve, reference))
                )
    return found


def overview(found: Sequence[Saving]) -> list[Saving]:
    """What strategies are ranked by: batches, for few strategies are run one label at a time; else
    all there is."""
    return [saving for saving in found if saving.setting.budget.batch > 1] or list(found)


def stage_times(settings: Sequence[Setting]) -> dict[str, list[StageTimes]]:
    """By device, the quickest strategy first; of batches alone, for one label at a time means many
    more fits."""
    records: dict[str, dict[Line, list[RunRecord]]] = {}
    for setting in settings:
        for line, of_seed in setting.records.items() if setting.budget.batch > 1 else ():
            for record in of_seed.values():
                of_device = records.setdefault(device_name(record.versions.get("device")), {})
                of_device.setdefault(line, []).append(record)
    found = {}
    for device, of_line in records.items():
        rows = []
        for line, own in of_line.items():
            sums = [
                [sum(record.seconds[stage]) for stage in ("fit", "predict", "select")]
                for record in own
            ]
            fit, predict, select = np.mean(sums, axis=0).tolist()
            once = float(np.median([value for record in own for value in record.seconds["select"]]))
            rows.append(StageTimes(line, fit, predict, select, once, len(own)))
        found[device] = sorted(rows, key=lambda times: times.select_once)
    return found


def batched(setting: Setting, settings: Sequence[Setting]) -> list[tuple[Setting, Line]]:
    """Beside one label at a time: EPIG and ParBaLS EPIG with as many labels of the same data and
    seeds, in batches."""
    seeds = {seed for of_seed in setting.records.values() for seed in of_seed}
    return [
        (other, line)
        for other in settings
        if other.budget.batch > 1
        and (other.dataset, other.positive) == (setting.dataset, setting.positive)
        and (other.budget.initial, other.budget.total)
        == (setting.budget.initial, setting.budget.total)
        for line in (_EPIG, _OURS)
        if seeds & other.records.get(line, {}).keys()
    ]


def headlines(settings: Sequence[Setting], metric: str = "accuracy") -> list[str]:
    """A few sentences, the most important first; only what the results can bear."""
    said = [*_places(settings, metric), *_saved(settings, metric), *_weakness(settings, metric)]
    said += [*_one_at_a_time(settings, metric), *_universes(settings, metric)]
    said += _published(settings) if metric == "accuracy" else []
    seeds = [len(of_seed) for setting in settings for of_seed in setting.records.values()]
    if seeds and min(seeds) < 5:
        said.append(
            f"Some results rest on {min(seeds)} seed{'s' * (min(seeds) > 1)} only: a picture, no "
            "verdict."
        )
    return said


def _places(settings: Sequence[Setting], metric: str) -> list[str]:
    said = []
    for kind, board in leaderboards(settings, metric).items():
        first = board[0]
        ours = next((place for place in board if place.name == _OURS.name), None)
        text = f"{kind}: {first.name} is among the top in {first.n_top} of {_settings(first.n_settings)}"
        text += f" and has the {MEASURES[metric].best} mean in {first.n_best}."
        if ours is not None and ours is not first:
            text += f" {ours.name} is among the top in {ours.n_top} of {ours.n_settings}."
        said.append(text)
    return said


def _saved(settings: Sequence[Setting], metric: str) -> list[str]:
    shares = [
        saving.share for saving in overview(savings(settings, metric)) if saving.line == _OURS
    ]
    if not shares:
        return []
    return [
        f"To reach what Random reaches, {_OURS.name} needs {_less(float(np.median(shares)))} "
        f"(median of {_settings(len(shares))}; from {min(shares):+.0%} to {max(shares):+.0%} "
        "saved)."
    ]


def _weakness(settings: Sequence[Setting], metric: str) -> list[str]:
    """Where ParBaLS EPIG is beaten for certain, and by whom."""
    lost = []
    measure = MEASURES[metric]
    for setting in settings:
        if not setting.is_one_vs_all and setting.budget.batch > 1 and _OURS in setting.records:
            standings = standings_of(
                setting, tuple(name for names in KINDS.values() for name in names), metric
            )
            winner = next(line for line, standing in standings.items() if standing.is_best)
            gap = abs(standings[winner].interval.mean - standings[_OURS].interval.mean)
            if not standings[_OURS].is_top:
                lost.append(
                    (
                        gap,
                        f"{winner.name} on {setting.name} ({setting.budget.spelt}, by "
                        f"{measure.difference(gap)})",
                    )
                )
    if not lost:
        return []
    worst = [text for _, text in sorted(lost, reverse=True)[:3]]
    more = f", and in {len(lost) - 3} more settings by others" if len(lost) > 3 else ""
    return [f"{_OURS.name} is beaten by {', '.join(worst)}{more}."]


def batch_gaps(
    settings: Sequence[Setting], metric: str = "accuracy"
) -> dict[Line, list[tuple[Setting, np.ndarray]]]:
    """What batches end with less what EPIG ends with one label at a time, with as many labels.

    By line of the batches: settings, each with (seeds,) differences over the seeds that both have;
    then both started from the same labels.
    """
    gaps: dict[Line, list[tuple[Setting, np.ndarray]]] = {}
    for setting in settings:
        if setting.budget.batch == 1 and _EPIG in setting.records:
            for other, line in batched(setting, settings):
                seeds = setting.records[_EPIG].keys() & other.records[line].keys()
                if seeds:
                    gap = other.final(line, metric, seeds) - setting.final(_EPIG, metric, seeds)
                    gaps.setdefault(line, []).append((setting, gap))
    return gaps


def _one_at_a_time(settings: Sequence[Setting], metric: str) -> list[str]:
    gaps = batch_gaps(settings, metric)
    if _OURS not in gaps:
        return []
    measure = MEASURES[metric]
    ends = []
    for line in (_OURS, _EPIG):
        if line in gaps:
            gap = measure.scale * float(np.mean([of_seed.mean() for _, of_seed in gaps[line]]))
            ends.append(f"{measure.difference(gap)} {'below' if gap > 0 else 'above'} {line.name}")
    return [
        f"Choosing one label at a time, EPIG ends {' and '.join(ends)} in batches with as many "
        f"labels (mean of {_settings(len(gaps[_OURS]))})."
    ]


def _published(settings: Sequence[Setting]) -> list[str]:
    """By dataset: where the features are not the paper's, no agreement is to be expected."""
    verdicts: dict[str, list[bool]] = {}
    rows = agreements(settings)
    for row in rows:
        if row.agrees is not None:
            verdicts.setdefault(row.dataset, []).append(row.agrees)
    if not verdicts:
        return []
    counts = [
        f"{dataset_name(name)} {sum(found)} of {len(found)}" for name, found in verdicts.items()
    ]
    tested = [row.p for row in rows if row.p is not None]
    welch = f"Welch's test gives p ≥ 0.05 for {sum(p >= 0.05 for p in tested)} of {len(tested)} figures. "
    return [
        f"Published figures that agree with ours: {', '.join(counts)}. To agree, our mean must lie "
        f"within the paper's interval widened by ours. {welch if tested else ''}Other features "
        "than the paper's give other figures."
    ]


def _universes(settings: Sequence[Setting], metric: str) -> list[str]:
    spreads = []
    for table in ablation_tables(settings, metric):
        if table.title.startswith(f"Variants of {_OURS.name} by"):
            for column in zip(*table.rows.values(), strict=True):
                means = [entry.standing.interval.mean for entry in column if entry is not None]
                spreads.append(max(means) - min(means))
    if not spreads:
        return []
    return [
        f"The variants of {_OURS.name} (its number of universes and the like) lie within "
        f"{MEASURES[metric].difference(max(spreads))} of each other on every dataset."
    ]


def _mean(setting: Setting, line: Line, metric: str) -> np.ndarray:
    return np.asarray(setting.values(line, metric).mean(axis=0))


def _settings(n: int) -> str:
    return f"{n} setting{'' if n == 1 else 's'}"


def _less(share: float) -> str:
    return f"{share:.0%} fewer labels" if share >= 0 else f"{-share:.0%} more labels"
