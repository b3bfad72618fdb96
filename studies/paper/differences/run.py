"""Why do some of our figures differ from the paper's? One change at a time, at 100 + 10×20.

    python studies paper.differences --data ~/data  # run what is missing, write README.md
    python studies paper.differences --tables       # write README.md from the records

again      nothing, but with the sampler of today: the published runs are older
seeds      seeds 10 to 19 instead of 0 to 9: was it the initial sets?
pool       all pool points are candidates, not 10,000 of them
values     every rating its own bin, instead of deciles that join some
edges      deciles, but a value on an edge counts to the bin below it, as in pandas' qcut
prior      features half as long, which is a prior of scale 0.5 on their weights
seeding    BADGE without gradients: k-means++ on the features themselves
sampler    PyMC's short chains in the place of particles; needs PyMC, so only with --only sampler

Each run is a line of record.jsonl; what is not changed is in docs/results/records.tar.xz. The
authors' departures are departures.tar.xz, which `parbals bench run` made of authors.toml, and
nuts.tar.xz, which `studies paper.differences.nuts` made.
"""

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.folders import DOCS
from lib.paired import paired, shown
from lib.records import Record, Todo, study
from paper.differences import paper_sampler
from paper.differences.cells import BUDGET, N_SEEDS, of_seeds, paper_cell, with_interval
from paper.differences.together import together
from paper.differences.whitened import whitened
from parbals.strategies import badge
from parbals.strategies.problem import Problem
from parbals.strategies.table import STRATEGIES
from parbals_bench.datasets.base import Data
from parbals_bench.datasets.table import DATASETS, load_dataset
from parbals_bench.report.stats import holm
from parbals_bench.report.tasks import Line
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.records import RunRecord
from parbals_bench.run.single import run_one
from parbals_bench.run.spec import PAPER, Budget, Settings

FOLDER = Path(__file__).parent
FOUR = ("random", "confidence", "bald", "badge")
SEEDING = "seeding-on-features"
Finals = dict[tuple[str, str, str], dict[int, float]]
"""By what is changed, dataset and strategy: final accuracies in % by seed."""


@dataclass(frozen=True)
class Experiment:
    """What is changed, and which strategies it is tried on."""

    strategies: tuple[str, ...] = FOUR
    datasets: tuple[str, ...] = ("airline",)
    features: str = "auto"
    scale: float = 1.0
    first_seed: int = 0
    settings: Settings = PAPER


BOTH = ("airline", "credit-card")
EXPERIMENTS = {
    "again": Experiment(datasets=BOTH),
    "seeds": Experiment(first_seed=10),
    "pool": Experiment(FOUR[1:], BOTH, settings=Settings(n_candidates=10**9)),
    "values": Experiment(features="tabular-values"),
    "edges": Experiment(features="tabular-qcut"),
    "prior": Experiment(scale=0.5),
    "seeding": Experiment((SEEDING,), BOTH),
    "sampler": Experiment(("bald",)),
}


def seeding_on_features(problem: Problem) -> Any:
    """k-means++ on the features: BADGE when every gradient has the same length and sign."""
    usual = badge.gradient_factors
    badge.gradient_factors = lambda probs, features: (
        np.full_like(probs, 0.5),
        usual(probs, features)[1],
    )
    try:
        return badge.select_badge(problem)
    finally:
        badge.gradient_factors = usual


STRATEGIES[SEEDING] = replace(STRATEGIES["badge"], select=seeding_on_features)


TITLES = {
    "again": "the same again, with the sampler of today",
    "seeds": "ten other initial sets",
    "pool": "the whole pool as candidates",
    "sampler": "the paper's sampler, PyMC 4 × (100 + 100)",
    "prior": "prior scale 0.5",
    "values": "every rating its own bin",
    "edges": "a value on a decile counts to the bin below it",
    "seeding": "BADGE seeded on the features, without gradients",
}


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", FOLDER / "README.md", runs, page),
        seeds=N_SEEDS,
        options={"only": ",".join(name for name in EXPERIMENTS if name != "sampler")},
    )


def runs(options: Namespace) -> Iterator[Todo]:
    for seed, name in product(range(options.seeds), options.only.split(",")):
        changed = EXPERIMENTS[name]
        for dataset, strategy in product(changed.datasets, changed.strategies):
            yield (name, dataset, strategy, seed), partial(one_run, name, dataset, strategy, seed)


@cache
def data_of(name: str, features: str, scale: float) -> Data:
    folder = Path(os.environ.get("PARBALS_DATA", ".")) / name.replace("-", "_")
    data = load_dataset(name, folder, features=features)
    scaled = {
        field: scale * getattr(data, field) for field in ("X_pool", "X_target_source", "X_test")
    }
    return replace(data, **scaled)


def one_run(name: str, dataset: str, strategy: str, seed: int) -> Record:
    """Test accuracy after every round."""
    changed = EXPERIMENTS[name]
    data = data_of(dataset, changed.features, changed.scale)
    if name == "sampler":
        return {"accuracies": paper_sampler.one_run(data, Budget.parse(BUDGET), strategy, seed)}
    record = run_one(
        data, BUDGET, strategy, seed=changed.first_seed + seed, settings=changed.settings
    )
    return {"accuracies": list(record.metrics["accuracy"])}


def page(records: list[Record]) -> Iterator[str]:
    yield HEAD
    published = ResultsFiles(DOCS / "results" / "records.tar.xz").records()
    finals: Finals = {}
    for record in records:
        name, dataset, strategy, seed = record["run"]
        column = "badge" if strategy == SEEDING else strategy
        cell = finals.setdefault((name, dataset, column), {})
        cell[seed] = 100.0 * record["accuracies"][-1]
    significance = _told_apart(finals)
    for dataset in BOTH:
        yield f"\n| {DATASETS[dataset].title} | {' | '.join(Line(s).title for s in FOUR)} |"
        yield "| --- |" + " ---: |" * len(FOUR)
        as_run = of_seeds(published, dataset)
        yield f"| as run | {' | '.join(with_interval(as_run[s].values()) for s in FOUR)} |"
        for name, title in TITLES.items():
            cells = []
            for of_seed in (finals.get((name, dataset, s), {}) for s in FOUR):
                cells.append(with_interval(of_seed[seed] for seed in sorted(of_seed)))
            for i, strategy in enumerate(FOUR):
                cells[i] += significance.get((name, dataset, strategy), "")
            if any(cells):
                yield f"| {title} | {' | '.join(cells)} |"
        yield f"| the paper | {' | '.join(paper_cell(s, dataset) for s in FOUR)} |"
    if (packed := FOLDER / "departures.tar.xz").exists():
        yield from _authors(ResultsFiles(packed).records())


def _told_apart(finals: Finals) -> dict[tuple[str, str, str], str]:
    """What is changed less the same again, paired by seed; bold with Holm's correction."""
    gaps = {}
    for (name, dataset, strategy), of_seed in finals.items():
        again = finals.get(("again", dataset, strategy), {})
        seeds = sorted(of_seed.keys() & again.keys())
        if name not in ("again", "seeds") and len(seeds) > 1:
            gap = np.array([of_seed[seed] - again[seed] for seed in seeds])
            gaps[name, dataset, strategy] = gap
    texts: dict[tuple[str, str, str], str] = {}
    for name in TITLES:
        own_gaps = {key: gap for key, gap in gaps.items() if key[0] == name}
        doubts = holm({key: paired(gap)[2] for key, gap in own_gaps.items()})
        texts |= {key: f"; {shown(gap, doubts[key])}" for key, gap in own_gaps.items()}
    return texts


def _authors(records: list[RunRecord]) -> Iterator[str]:
    """One departure at a time, then all of them as the suite "authors" has them."""
    yield "\n## The authors' departures, one at a time\n"
    yield "Theirs less ours: paired by seed ± standard error, bold where p < 0.05 with Holm's"
    yield "correction for all rows.\n"
    yield "| | | ours | theirs | theirs less ours | the paper |"
    yield "| --- | --- |" + " ---: |" * 4
    pairs = {(r.run.strategy, r.run.settings.departures) for r in records if _of_one(r)}
    changes = sorted(pair for pair in pairs if pair[1] not in ("", "whitened"))
    sides: dict[tuple[str, str, str], list[dict[int, float]]] = {}
    for (strategy, departure), dataset in product(changes, BOTH):
        pair = []
        for departures in ("", departure):
            of_one = (r for r in records if _of_one(r) and r.run.settings.departures == departures)
            pair.append(of_seeds(of_one, dataset).get(strategy, {}))
        seeds = sorted(pair[0].keys() & pair[1].keys())
        if len(seeds) > 1:
            shared = [{seed: side[seed] for seed in seeds} for side in pair]
            sides[strategy, departure, dataset] = shared
    gaps = {
        name: np.array([theirs[seed] - ours[seed] for seed in ours])
        for name, (ours, theirs) in sides.items()
    }
    doubts = holm({name: paired(gap)[2] for name, gap in gaps.items()})
    for (strategy, departure, dataset), pair in sides.items():
        name = strategy, departure, dataset
        difference = shown(gaps[name], doubts[name])
        cells = (*(with_interval(side.values()) for side in pair), difference)
        title = f"{Line(strategy).title}, `{departure}` | {DATASETS[dataset].title}"
        yield f"| {title} | {' | '.join(cells)} | {paper_cell(strategy, dataset)} |"
    yield from whitened(r for r in records if r.run.settings.departures == "whitened")
    by_bench = [r for r in records if r.run.settings.inference == "nuts"]
    yield from together(by_bench, ResultsFiles(FOLDER / "nuts.tar.xz").records())


def _of_one(record: RunRecord) -> bool:
    return record.run.settings.inference == "ep"


HEAD = """# Why do some of our figures differ from the paper's?

Written by `python studies paper.differences`; do not edit.

The paper's protocol with one thing changed at a time: the initial sets, the candidates, the
sampler, the prior, the bins, BADGE's seeding. Final test accuracy in %, 100 + 10×20, mean of ten
seeds, unless a cell says otherwise, ± half of its 95 % interval; then what is changed less the same
again, paired by seed ± standard error, bold where p < 0.05 with Holm's correction for the row in
both tables.
[Beside the paper](../../../docs/explanation/results-paper.md) says what to make of it. The paper's
sampler needs PyMC: `python studies paper.differences --data ~/data --only sampler`."""
