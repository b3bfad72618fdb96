"""What the results say, in sentences computed from them."""

import numpy as np

from parbals_bench.datasets.table import dataset_title
from parbals_bench.report.results import Results
from parbals_bench.report.tasks import OURS, SEQUENTIAL

__all__ = ["headlines"]


def headlines(results: Results) -> list[str]:
    """A few sentences, the most important first; only what the results can bear."""
    sentences = [*_places(results), *_saved(results), *_weakness(results)]
    sentences += _one_at_a_time(results)
    sentences += _published(results) if results.metric.key == "accuracy" else []
    seeds = [len(of_seed) for task in results.tasks for of_seed in task.records.values()]
    if seeds and min(seeds) < 5:
        plural = "s" * (min(seeds) > 1)
        sentences.append(
            f"Some results rest on {min(seeds)} seed{plural} only: a picture, not a verdict."
        )
    return sentences


def _places(results: Results) -> list[str]:
    sentences = []
    for kind, board in results.leaderboards.items():
        first = board[0]
        ours = next((place for place in board if place.name == OURS.title), first)
        text = f"{kind}: {first.name} is among the top in {first.n_top} of "
        text += f"{_settings(first.n_settings)} and has the {results.metric.best} mean in "
        text += f"{first.n_best}."
        if ours is not first:
            text += f" {ours.name} is among the top in {ours.n_top} of {ours.n_settings}."
        sentences.append(text)
    return sentences


def _saved(results: Results) -> list[str]:
    shares = results.shares_saved.get(OURS)
    if not shares:
        return []
    median = float(np.median(shares))
    less = f"{median:.0%} fewer labels" if median >= 0 else f"{-median:.0%} more labels"
    return [
        f"To reach what Random reaches, {OURS.title} needs {less} (median of "
        f"{_settings(len(shares))}; from {min(shares):+.0%} to {max(shares):+.0%} saved)."
    ]


def _weakness(results: Results) -> list[str]:
    """Where ParBaLS EPIG is beaten for certain, and by which strategy."""
    losses = []
    for task in results.main_tasks:
        standings = task.standings(results.metric)
        if OURS in standings and not standings[OURS].is_top:
            winner = next(line for line, standing in standings.items() if standing.is_best)
            gap = abs(standings[winner].interval.mean - standings[OURS].interval.mean)
            by = results.metric.difference(gap)
            losses.append((gap, f"{winner.title} on {task.title} ({task.budget.spelt}, by {by})"))
    if not losses:
        return []
    worst = [text for _, text in sorted(losses, reverse=True)[:3]]
    more = f", and in {len(losses) - 3} more settings by others" if len(losses) > 3 else ""
    return [f"{OURS.title} is beaten by {', '.join(worst)}{more}."]


def _one_at_a_time(results: Results) -> list[str]:
    gaps = results.batch_gaps
    if OURS not in gaps:
        return []
    metric = results.metric
    ends = []
    for line in (OURS, SEQUENTIAL):
        if line in gaps:
            gap = metric.scale * float(np.mean([of_seed.mean() for _, of_seed in gaps[line]]))
            ends.append(f"{metric.difference(gap)} {'below' if gap > 0 else 'above'} {line.title}")
    return [
        f"Choosing one label at a time, {SEQUENTIAL.title} ends {' and '.join(ends)} in batches "
        f"with as many labels (mean of {_settings(len(gaps[OURS]))})."
    ]


def _published(results: Results) -> list[str]:
    """By dataset: where the features are not the paper's, no agreement is to be expected."""
    verdicts: dict[str, list[bool]] = {}
    for row in results.agreements:
        if row.agrees is not None:
            verdicts.setdefault(row.dataset, []).append(row.agrees)
    if not verdicts:
        return []
    counts = [f"{dataset_title(x)} {sum(agree)} of {len(agree)}" for x, agree in verdicts.items()]
    tested = [row.p for row in results.agreements if row.p is not None]
    alike = sum(p >= 0.05 for p in tested)
    welch = f"Welch's test gives p ≥ 0.05 for {alike} of {len(tested)} figures. "
    return [
        f"Published figures that agree with ours: {', '.join(counts)}. To agree, our mean must lie "
        f"within the paper's interval widened by ours. {welch if tested else ''}Other features "
        "than the paper's give other figures."
    ]


def _settings(n: int) -> str:
    return f"{n} setting{'' if n == 1 else 's'}"
