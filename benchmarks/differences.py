"""Why do a few of our figures differ from the paper's? One change at a time, on the tabular sets at 100 + 10×20.

    python benchmarks/differences.py --data ~/data                  # every experiment, ten seeds
    python benchmarks/differences.py --data ~/data --only edges --seeds 3

as-run     the protocol as it is
pool       all pool points are candidates, not 10,000 of them
seeds      seeds 10 to 29 instead of 0 to 9: was it the initial sets?
values     every rating its own bin, instead of deciles that join some
edges      deciles, but a value on an edge counts to the bin above it, as in scikit-learn's KBinsDiscretizer
seeding    BADGE without gradients: k-means++ on the features themselves

The paper's own sampler in the same protocol is ``paper_sampler.py``.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from parbals.batches.problem import Problem
from parbals.bench.commands import load_data
from parbals.bench.paper import paper_figures
from parbals.bench.protocol import run_one
from parbals.bench.stats import mean_interval
from parbals.datasets import airline
from parbals.datasets.base import Data, halves
from parbals.strategies import badge
from parbals.strategies.table import STRATEGIES

BUDGET = "100+10x20"
SHARED = ("random", "confidence", "coreset", "badge", "bald", "power-bald", "epig")


def upper_edges(folder):
    """Airline with scikit-learn's binning: as ours but for values on an edge, which here belong to the upper bin."""
    X_pool, y_pool, _ = airline._read(folder, "train")
    X_rest, y_rest, _ = airline._read(folder, "test")
    first = len(airline._CATEGORICAL)
    mean = np.nanmean(X_pool[:, first:].astype(float), axis=0)

    def numbers(table):
        given = table[:, first:].astype(float)
        return np.where(np.isnan(given), mean, given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deciles that coincide are joined, as they should be
        bins = KBinsDiscretizer(
            10, encode="onehot-dense", strategy="quantile", subsample=None, quantile_method="linear"
        ).fit(numbers(X_pool))
    slots = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(X_pool[:, :first].astype(str))

    def features(table):
        return np.hstack([bins.transform(numbers(table)), slots.transform(table[:, :first].astype(str))])

    pool, rest = (features(table).astype(np.float32) for table in (X_pool, X_rest))
    to_target, to_test = halves(len(y_rest), "airline")
    return Data("airline", pool, y_pool, rest[to_target], rest[to_test], y_rest[to_test], airline.CLASSES)


def seeding_on_features(problem: Problem):
    """k-means++ on the features: BADGE when every gradient has the same length and sign."""
    usual = badge.gradient_factors
    badge.gradient_factors = lambda probs, features: (np.full_like(probs, 0.5), usual(probs, features)[1])
    try:
        return badge.select_badge(problem)
    finally:
        badge.gradient_factors = usual


def experiments(folder):
    """Name → (dataset, strategies, keyword arguments of a run, first seed, how many times the seeds)."""
    datasets = {name: load_data(name, folder=folder) for name in ("airline", "credit-card")}
    place = None if folder is None else folder / "airline"
    for name, data in datasets.items():
        yield "as-run", name, lambda data=data: data, SHARED, {}, (0, 1)
        yield "pool", name, lambda data=data: data, ("confidence", "badge", "bald"), {"n_candidates": 10**9}, (0, 1)
        yield "seeding", name, lambda data=data: data, ("seeding-on-features",), {}, (0, 1)
    yield "seeds", "airline", lambda: datasets["airline"], ("random", "confidence", "badge", "bald"), {}, (10, 2)
    four = ("random", "confidence", "badge", "bald")
    yield "values", "airline", lambda: airline.load(place, features="tabular-values"), four, {}, (0, 1)
    yield "edges", "airline", lambda: upper_edges(airline.data_folder(place, "airline")), four, {}, (0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds airline/ and credit_card/")
    parser.add_argument("--only", default="", help="experiments, separated by commas")
    parser.add_argument("--strategies", default="", help="strategies, separated by commas")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    only, wanted = (set(filter(None, text.split(","))) for text in (given.only, given.strategies))
    STRATEGIES["seeding-on-features"] = replace(STRATEGIES["badge"], select=seeding_on_features)
    for name, dataset, load, strategies, settings, (first, times) in experiments(given.data):
        if only and name not in only:
            continue
        data = load()
        for strategy in strategies:
            if wanted and strategy not in wanted:
                continue
            finals = [
                100.0 * run_one(data, BUDGET, strategy, seed=seed, **settings).metrics["accuracy"][-1]
                for seed in range(first, first + times * given.seeds)
            ]
            ours = mean_interval(finals)
            paper = paper_figures().get((BUDGET, "badge" if "seeding" in strategy else strategy, dataset))
            beside = "" if paper is None else f"   paper {paper[0]:.2f} ± {paper[1]:.2f}"
            print(f"{name:8} {dataset:12} {strategy:20} {ours.mean:.2f} ± {ours.half_width:.2f}{beside}", flush=True)


if __name__ == "__main__":
    main()
