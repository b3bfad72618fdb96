"""The authors' nine departures together, by NUTS, beside the paper's figures.

departures.tar.xz has runs of `parbals bench run`, one by one; nuts.tar.xz has those of
`studies paper.differences.nuts`, ten seeds in step, which count where there are both.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from lib.paired import paired, shown
from paper.differences.cells import BUDGET as PAPER_BUDGET
from paper.differences.cells import N_SEEDS, paper_cell, paper_interval, with_interval
from parbals_bench.datasets.table import DATASETS
from parbals_bench.report.paper import paper_figures
from parbals_bench.report.stats import mean_interval, welch
from parbals_bench.report.tasks import Line, rank
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import Budget

__all__ = ["together"]

BUDGET = "100+9x20"
TABLES = ("airline", "credit-card")
PARBALS = "parbals-epig"
Finals = dict[tuple[str, str], dict[int, float]]
"""By dataset and strategy: final accuracies in % by seed."""


def together(by_bench: Iterable[RunRecord], in_step: Iterable[RunRecord]) -> Iterator[str]:
    """The section of the page; ``in_step`` replaces whole cells of ``by_bench``."""
    finals = _finals(by_bench) | _finals(in_step)
    names = sorted({strategy for _, strategy in finals}, key=lambda name: rank(Line(name)))
    yield f"\n## All of them together, NUTS, {Budget.parse(BUDGET).spelt}\n"
    yield f"Final test accuracy in %, {N_SEEDS} seeds unless a cell says otherwise, ± half of the"
    yield "95 % interval; *p* is that of Welch's test against the paper, which has 100 + 10×20.\n"
    titles = " | ".join(f"{DATASETS[name].title} | the paper | p" for name in TABLES)
    yield f"| | {titles} |"
    yield "| --- |" + " ---: |" * 6
    n_compared = n_overlap = n_same = 0
    for strategy in names:
        cells = []
        for dataset in TABLES:
            theirs = paper_interval(strategy, dataset)
            assert theirs is not None
            values = list(finals.get((dataset, strategy), {}).values())
            p = float("nan")
            if len(values) > 1:
                ours = mean_interval(values)
                p = welch(ours, theirs)
                n_compared += 1
                n_overlap += abs(ours.mean - theirs.mean) <= ours.half_width + theirs.half_width
                n_same += p >= 0.05
            shown_p = "" if np.isnan(p) else f"{p:.2f}"
            cells += [with_interval(values), paper_cell(strategy, dataset), shown_p]
        yield f"| {Line(strategy).title} | {' | '.join(cells)} |"
    yield f"\nIntervals overlap in {n_overlap} of {n_compared} cells; p ≥ 0.05 in {n_same}."
    yield from _gaps(finals, names)


def _gaps(finals: Finals, names: list[str]) -> Iterator[str]:
    """ParBaLS EPIG less each strategy that has the same seeds."""
    titles = " | ".join(f"{DATASETS[name].title} | the paper" for name in TABLES)
    yield f"\n| ParBaLS EPIG less, paired | {titles} |"
    yield "| --- |" + " ---: |" * 4
    for strategy in names:
        cells = []
        for dataset in TABLES:
            ours = finals.get((dataset, PARBALS), {})
            theirs = finals.get((dataset, strategy), {})
            seeds = sorted(ours.keys() & theirs.keys())
            gaps = np.array([ours[seed] - theirs[seed] for seed in seeds])
            is_whole = len(gaps) == N_SEEDS and strategy != PARBALS
            figures = [paper_figures()[PAPER_BUDGET, s, dataset][0] for s in (PARBALS, strategy)]
            cells.append(shown(gaps, paired(gaps)[2]) if is_whole else "")
            cells.append(f"{figures[0] - figures[1]:+.2f}" if is_whole else "")
        if any(cells):
            yield f"| {Line(strategy).title} | {' | '.join(cells)} |"


def _finals(records: Iterable[RunRecord]) -> Finals:
    finals: Finals = {}
    for record in sorted(records, key=lambda record: record.run.seed):
        run = record.run
        if str(run.budget) == BUDGET:
            cell = finals.setdefault((run.reference, run.strategy), {})
            cell[run.seed] = 100.0 * record.metrics["accuracy"][-1]
    return finals
