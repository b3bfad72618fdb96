"""Whitened components in the place of ours: do an encoder's figures then agree with the paper's?"""

from collections.abc import Iterable, Iterator

import numpy as np
from lib.folders import DOCS
from lib.paired import paired, shown
from paper.differences.cells import (
    N_SEEDS,
    Finals,
    of_seeds,
    paper_cell,
    paper_interval,
    with_interval,
)
from parbals_bench.datasets.table import DATASETS
from parbals_bench.report.stats import mean_interval, welch
from parbals_bench.report.tasks import Line, rank
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.records import RunRecord
from scipy.stats import spearmanr

__all__ = ["whitened"]

CLASSES = ("ag-news:World", "cifar10:airplane")
PARBALS = "parbals-epig"
RIVALS = ("confidence", "epig")


def whitened(records: Iterable[RunRecord]) -> Iterator[str]:
    """The section of the page; ``records`` are those with whitened components."""
    records = list(records)
    published = (ResultsFiles(DOCS / "results" / f"{x}.tar.xz") for x in ("one-vs-all", "learnt"))
    scale_1, learnt = (file.records() for file in published)
    learnt = [r for r in learnt if _is_default(r)]
    yield "\n## Whitened components\n"
    yield "The first class of each set against the others; the paper's encoders are others."
    yield "Final test accuracy in %, ten seeds, ± half of the 95 % interval; differences ± standard"
    yield "error. ρ is Spearman's rank correlation of the strategies' means with the paper's."
    changes: list[str] = []
    for reference in CLASSES:
        name, _, positive = reference.partition(":")
        sides = [
            of_seeds(scale_1, reference),
            of_seeds((r for r in records if r.run.settings.inference == "ep"), reference),
            of_seeds(learnt, reference),
            of_seeds((r for r in records if _is_default(r)), reference),
        ]
        title = f"{DATASETS[name].title}, {positive}"
        yield f"\n| {title} | ours | `whitened` | the paper | learnt prior | learnt, `whitened` |"
        yield "| --- |" + " ---: |" * 5
        for strategy in sorted(sides[0], key=lambda strategy: rank(Line(strategy))):
            yield _row(strategy, name, sides)
        for rival in RIVALS:
            yield _gap_row(rival, name, sides)
        agreement = [_agreement(name, side) for side in sides[:2]]
        yield f"\nBeside the paper: {agreement[0]}; whitened: {agreement[1]}."
        changes += [f"{title}, less {_title(x)}, by {_change(x, *sides[:2])}" for x in RIVALS]
    yield f"\nWhitening changes the differences of ParBaLS EPIG: {'; '.join(changes)} points."


def _is_default(record: RunRecord) -> bool:
    """With the learnt prior and the product's other defaults."""
    settings = record.run.settings
    return (settings.inference, settings.prior_scale, settings.loss) == ("auto", "auto", "log")


def _title(strategy: str) -> str:
    return Line(strategy).title


def _row(strategy: str, dataset: str, sides: list[Finals]) -> str:
    cells = [with_interval(side.get(strategy, {}).values()) for side in sides]
    cells.insert(2, paper_cell(strategy, dataset))
    return f"| {_title(strategy)} | {' | '.join(cells)} |"


def _gap_row(rival: str, dataset: str, sides: list[Finals]) -> str:
    """ParBaLS EPIG less a rival."""
    cells = [_difference(_gaps(side, rival)) for side in sides]
    ours, theirs = (paper_interval(strategy, dataset) for strategy in (PARBALS, rival))
    assert ours is not None
    assert theirs is not None
    cells.insert(2, f"{ours.mean - theirs.mean:+.2f}")
    return f"| ParBaLS EPIG less {_title(rival)} | {' | '.join(cells)} |"


def _agreement(dataset: str, finals: Finals) -> str:
    """By both rules, and by the order of the strategies."""
    pairs = [
        (mean_interval(list(by_seed.values())), theirs)
        for strategy, by_seed in finals.items()
        if (theirs := paper_interval(strategy, dataset)) is not None
    ]
    overlap = [abs(a.mean - b.mean) <= a.half_width + b.half_width for a, b in pairs]
    n_same = sum(welch(*pair) >= 0.05 for pair in pairs)
    rho = spearmanr([a.mean for a, _ in pairs], [b.mean for _, b in pairs]).statistic
    return (
        f"intervals overlap in {sum(overlap)} of {len(pairs)} cells, p ≥ 0.05 in {n_same}, "
        f"ρ = {rho:.2f}"
    )


def _gaps(finals: Finals, rival: str) -> dict[int, float]:
    ours = finals.get(PARBALS, {})
    theirs = finals.get(rival, {})
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def _change(rival: str, before: Finals, after: Finals) -> str:
    gaps = [_gaps(side, rival) for side in (before, after)]
    seeds = sorted(gaps[0].keys() & gaps[1].keys())
    return _difference({seed: gaps[1][seed] - gaps[0][seed] for seed in seeds})


def _difference(gaps: dict[int, float]) -> str:
    """Mean ± standard error over seeds; bold where p < 0.05."""
    if len(gaps) < 2:
        return ""
    values = np.array(list(gaps.values()))
    count = "" if len(gaps) == N_SEEDS else f" ({len(gaps)} seeds)"
    return f"{shown(values, paired(values)[2])}{count}"
