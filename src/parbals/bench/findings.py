"""What the results say, in numbers and in sentences computed from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parbals.bench.collect import Line, Setting
from parbals.bench.stats import LabelsSaved, labels_saved
from parbals.bench.tables import Entry, leaderboards, main_tables

__all__ = ["Saving", "StageTimes", "headlines", "savings", "stage_times"]

_OURS = "parbals-epig"
_REFERENCE = Line("random")


@dataclass(frozen=True)
class Saving:
    """Labels that a strategy saves against Random in one setting."""

    setting: Setting
    line: Line
    found: LabelsSaved


@dataclass(frozen=True)
class StageTimes:
    """Mean seconds of one run of a strategy, over everything it was run on."""

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
    """For every setting that Random was run in, and every other strategy there."""
    return [
        Saving(setting, line, labels_saved(setting.budget.n_labels, *(_mean(setting, x, metric) for x in pair)))
        for setting in settings
        if _REFERENCE in setting.records
        for line in setting.lines()
        if line != _REFERENCE
        for pair in [(line, _REFERENCE)]
    ]


def stage_times(settings: Sequence[Setting]) -> list[StageTimes]:
    """The quickest strategy first."""
    seconds: dict[Line, list[tuple[float, float, float, float]]] = {}
    for setting in settings:
        for line, of_seed in setting.records.items():
            for record in of_seed.values():
                fit, predict, select = (sum(record.seconds[stage]) for stage in ("fit", "predict", "select"))
                once = float(np.median(record.seconds["select"]))
                seconds.setdefault(line, []).append((fit, predict, select, once))
    found = []
    for line, rows in seconds.items():
        fit, predict, select, once = np.mean(rows, axis=0).tolist()
        found.append(StageTimes(line, fit, predict, select, once, len(rows)))
    return sorted(found, key=lambda times: times.select_once)


def headlines(settings: Sequence[Setting], metric: str = "accuracy") -> list[str]:
    """A few sentences, the most important first; only what the results can bear."""
    sentences = []
    for kind, board in leaderboards(settings, metric).items():
        first = board[0]
        ours = next((place for place in board if place.name == Line(_OURS).name), None)
        said = f"{kind}: {first.name} is among the top in {first.n_top} of {_settings(first.n_settings)}"
        said += f" and has the highest mean in {first.n_best}."
        if ours is not None and ours is not first:
            said += f" {ours.name} is among the top in {ours.n_top} of {ours.n_settings}."
        sentences.append(said)
    ours_saved = [s for s in savings(settings, metric) if s.line.strategy == _OURS]
    if ours_saved:
        shares = [s.found.saved / s.found.reference for s in ours_saved]
        sentences.append(
            f"To reach what Random reaches, {Line(_OURS).name} needs {_less(float(np.median(shares)))} "
            f"(median of {_settings(len(shares))}; from {min(shares):+.0%} to {max(shares):+.0%} saved)."
        )
    entries = [entry for table in main_tables(settings, metric) for row in table.rows.values() for entry in row]
    compared = _distinct([entry for entry in entries if entry is not None and entry.paper is not None])
    if compared:
        agreeing = sum(bool(entry.agrees) for entry in compared)
        sentences.append(
            f"Of {len(compared)} published figures, {agreeing} agree with ours: our mean lies within the paper's "
            "interval widened by ours."
        )
    seeds = [len(of_seed) for setting in settings for of_seed in setting.records.values()]
    if seeds and min(seeds) < 5:
        sentences.append(f"Some results rest on {min(seeds)} seed{'s' * (min(seeds) > 1)} only: a picture, no verdict.")
    return sentences


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Random and ParBaLS stand in both kinds of table; each figure counts once."""
    return list({(entry.paper, entry.standing.interval): entry for entry in entries}.values())


def _mean(setting: Setting, line: Line, metric: str) -> np.ndarray:
    return np.asarray(setting.values(line, metric).mean(axis=0))


def _settings(n: int) -> str:
    return f"{n} setting{'' if n == 1 else 's'}"


def _less(share: float) -> str:
    return f"{share:.0%} fewer labels" if share >= 0 else f"{-share:.0%} more labels"
