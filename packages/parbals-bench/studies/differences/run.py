"""Why do a few of our figures differ from the paper's? One change at a time, at 100 + 10×20.

    studies differences --data ~/data --workers 8     # every experiment, ten seeds
    studies differences --data ~/data --only edges --seeds 3

as-run     the protocol as it is
pool       all pool points are candidates, not 10,000 of them
seeds      seeds 10 to 19 instead of 0 to 9: was it the initial sets?
values     every rating its own bin, instead of deciles that join some
edges      deciles, but a value on an edge counts to the bin below it, as in pandas' qcut
prior      features half as long, which is a prior of scale 0.5 on their weights
seeding    BADGE without gradients: k-means++ on the features themselves

The paper's own sampler in the same protocol is ``paper_sampler.py``.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from parbals.strategies import badge
from parbals.strategies.problem import Problem
from parbals.strategies.table import STRATEGIES
from parbals_bench.datasets.table import load_dataset
from parbals_bench.report.paper import paper_figures
from parbals_bench.report.stats import mean_interval
from parbals_bench.run.single import run_one
from parbals_bench.run.spec import PAPER, Settings

BUDGET = "100+10x20"
SHARED = ("random", "confidence", "coreset", "badge", "bald", "power-bald", "epig")
FOUR = ("random", "confidence", "bald", "badge")
SEEDING = "seeding-on-features"


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
    "as-run": Experiment(SHARED, BOTH),
    "pool": Experiment(FOUR[1:], BOTH, settings=Settings(n_candidates=10**9)),
    "seeds": Experiment(first_seed=10),
    "values": Experiment(features="tabular-values"),
    "edges": Experiment(features="tabular-qcut"),
    "prior": Experiment(scale=0.5),
    "seeding": Experiment((SEEDING,), BOTH),
}


def seeding_on_features(problem: Problem):
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


@cache
def data_of(name, folder, features, scale):
    data = load_dataset(name, folder and folder / name.replace("-", "_"), features=features)
    scaled = {part: scale * getattr(data, part) for part in ("X_pool", "X_target_source", "X_test")}
    return replace(data, **scaled)


def final_accuracy(name, dataset, strategy, seed, folder):
    """Of one run, in %."""
    changed = EXPERIMENTS[name]
    data = data_of(dataset, folder, changed.features, changed.scale)
    record = run_one(
        data, BUDGET, strategy, seed=changed.first_seed + seed, settings=changed.settings
    )
    return 100.0 * record.metrics["accuracy"][-1]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder that holds airline/ and credit_card/")
    parser.add_argument(
        "--only", default=",".join(EXPERIMENTS), help="experiments, separated by commas"
    )
    parser.add_argument(
        "--strategies", default=",".join((*SHARED, SEEDING)), help="strategies, separated by commas"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    cells = [
        (name, dataset, strategy)
        for name in given.only.split(",")
        for dataset, strategy in product(EXPERIMENTS[name].datasets, EXPERIMENTS[name].strategies)
        if strategy in given.strategies.split(",")
    ]
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        runs = [
            [pool.submit(final_accuracy, *cell, seed, given.data) for seed in range(given.seeds)]
            for cell in cells
        ]
        for (name, dataset, strategy), waited in zip(cells, runs, strict=True):
            ours = mean_interval([run.result() for run in waited])
            paper = paper_figures().get(
                (BUDGET, "badge" if strategy == SEEDING else strategy, dataset)
            )
            beside = "" if paper is None else f"   paper {paper[0]:.2f} ± {paper[1]:.2f}"
            print(
                f"{name:8} {dataset:12} {strategy:20} {ours.mean:.2f} ± "
                f"{ours.half_width:.2f}{beside}",
                flush=True,
            )
