"""Which strategy chooses large batches well, where the pool has near-duplicates?

    python studies strategies.large_batches --data ~/data --workers 16  # run what is missing
    python studies strategies.large_batches --tables                    # write README.md

100 random labels, then one batch of 100, 200 or 500 from a pool of 3,000 rows, of which a share are
copies of a tenth of the others: equal (*repeated*), or with noise of a tenth of every column's
standard deviation (*jittered*). Strategies of a seed share pool, test rows and first labels.
Margin, BADGE and ParBaLS EPIG choose one item after the other, so their batches of 100 and 200 are
the beginning of the batch of 500; Random, k-means and Cluster-Margin choose each batch anew.

Cluster-Margin (Citovsky et al. 2021) is this study's, not the library's: the pool is clustered once
by average linkage; of the 10 B items of smallest margin, at most half of the pool, it draws one
from each cluster in turn, small clusters first.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from lib.paired import paired, shown
from lib.records import Record, Todo, study
from lib.rows import load

FOLDER = Path(__file__).parent
SETS = ("airline", "airline-class:*", "ag-news:*", "credit-card", "sms-spam", "cifar10:*")
COPIES = {
    "none": (0.0, 0.0),
    "5 % jittered": (0.05, 0.1),
    "50 % jittered": (0.5, 0.1),
    "50 % repeated": (0.5, 0.0),
}
"""Share of copies in the pool, and their noise in standard deviations."""
STRATEGIES = ("random", "kmeans", "margin", "cluster-margin", "badge", "parbals-epig")
TITLES = {
    "random": "Random",
    "kmeans": "k-means",
    "margin": "Margin",
    "cluster-margin": "Cluster-Margin",
    "badge": "BADGE",
    "parbals-epig": "ParBaLS EPIG",
}
RIVALS = STRATEGIES[:-1]
NESTED = ("margin", "badge", "parbals-epig")
BATCHES = (100, 200, 500)
N_INITIAL = 100
N_POOL = 3_000
N_TEST = 1_500
COPIED_SHARE = 0.1
N_CLUSTERS = 500
"""Cluster-Margin's: as many as the largest batch has items."""
MARGIN_FACTOR = 10
"""Cluster-Margin draws a batch from so many times as many items of smallest margin."""
N_SEEDS = 10


def main() -> int:
    files = FOLDER / "record.jsonl", FOLDER / "README.md"
    options = {"sets": ",".join(SETS), "strategies": ",".join(STRATEGIES)}
    return study(__doc__ or "", *files, runs, page, seeds=N_SEEDS, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    strategies = options.strategies.split(",")
    for seed, name, copies in product(range(options.seeds), options.sets.split(","), COPIES):
        for strategy in strategies:
            run = (name, copies, strategy, seed)
            yield run, partial(measured, *run)


def measured(name: str, copies: str, strategy: str, seed: int) -> Record:
    """Test error and log loss after 100 random labels and one batch of each size."""
    from parbals import ActiveLearner

    X, y, n_classes = load(name)
    share, noise = COPIES[copies]
    generator = np.random.default_rng([seed, 48])
    order = generator.permutation(len(X))
    test = order[:N_TEST]
    sources = _pool(order[N_TEST:], share, generator)
    rows = X[sources]
    is_copy = np.arange(len(sources)) >= round(len(sources) * (1.0 - share))
    deviation = X[order[N_TEST:]].std(axis=0)
    jitter = noise * deviation * generator.standard_normal(rows.shape)
    rows = np.where(is_copy[:, None], rows + jitter, rows).astype(np.float32)
    initial = generator.permutation(len(rows))[:N_INITIAL]
    labels = y[sources]

    def learner() -> ActiveLearner:
        name = "margin" if strategy == "cluster-margin" else strategy
        result = ActiveLearner(rows, list(range(n_classes)), strategy=name, random_state=seed)
        result.tell(initial, labels[initial].tolist())
        return result

    record: Record = {}
    clusters = _clusters(rows) if strategy == "cluster-margin" else None
    longest = learner().ask(max(BATCHES)) if strategy in NESTED else None
    for size in BATCHES:
        trained = learner()
        if clusters is not None:
            batch = _cluster_margin(trained.predict_proba(rows), clusters, initial, size, generator)
        elif longest is not None:
            batch = longest[:size]
        else:
            batch = trained.ask(size)
        trained.tell(batch, labels[batch].tolist())
        probs = trained.predict_proba(X[test])
        true_probs = np.maximum(probs[np.arange(len(test)), y[test]], 1e-12)
        record[str(size)] = {
            "error": round(float((probs.argmax(axis=1) != y[test]).mean()), 6),
            "log_loss": round(float(-np.log(true_probs).mean()), 6),
            "distinct": len(np.unique(sources[batch])),
        }
    return record


def _pool(free: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Positions (N,) of the pool's rows: distinct ones, then copies of a tenth of them."""
    n_pool = min(N_POOL, len(free))
    n_distinct = round(n_pool * (1.0 - share))
    distinct = free[:n_distinct]
    copied = distinct[: max(1, round(COPIED_SHARE * n_distinct))]
    return np.concatenate([distinct, generator.choice(copied, n_pool - n_distinct)])


def _clusters(rows: np.ndarray) -> np.ndarray:
    """Each row's cluster (N,), by average linkage of Euclidean distances."""
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(rows.astype(np.float64), "average")
    numbers: np.ndarray = fcluster(tree, N_CLUSTERS, "maxclust")
    return numbers


def _cluster_margin(
    probs: np.ndarray,
    clusters: np.ndarray,
    labelled: np.ndarray,
    size: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Positions (B,): the items of smallest margin, one of each of their clusters in turn."""
    second, first = np.sort(probs, axis=1)[:, -2:].T
    margins = first - second
    margins[labelled] = np.inf
    n_close = min(MARGIN_FACTOR * size, (len(probs) - len(labelled)) // 2)
    close = generator.permutation(np.argsort(margins, kind="stable")[:n_close])
    numbers, of_close, sizes = np.unique(clusters[close], return_inverse=True, return_counts=True)
    turn = np.empty(n_close, int)
    for cluster in range(len(numbers)):
        members = np.flatnonzero(of_close == cluster)
        turn[members] = np.arange(len(members))
    order = np.lexsort((of_close, sizes[of_close], turn))
    return close[order[:size]]


Runs = dict[tuple[str, str, str, int], Record]


def page(records: list[Record]) -> Iterator[str]:
    by_run: Runs = {tuple(record["run"]): record for record in records}
    yield "# Which strategy chooses large batches well, where the pool has near-duplicates?"
    yield from ("", "Written by `python studies strategies.large_batches`; do not edit.", "")
    yield (
        "100 random labels, then one batch from 3,000 rows, of which a share are copies of a tenth "
        "of the others: equal ones (*repeated*), or with noise of a tenth of every column's "
        "deviation (*jittered*). Test errors in %, means over sets and seeds, then ParBaLS EPIG "
        "less each rival, in points, paired ± standard error, bold where p < 0.05 for the cell "
        "alone. *Runs* are pairs of a set and a seed that every strategy has been run with. The "
        "test rows have no copies, but ParBaLS EPIG chooses for the pool as it is: a row that has "
        "ten copies counts eleven times in its target set."
    )
    yield from ("", f"Sets: {', '.join(SETS)}.")
    for size in BATCHES:
        yield from ("", f"## Batches of {size}", "")
        titles = [TITLES[strategy] for strategy in STRATEGIES]
        yield f"| copies | runs | {' | '.join(titles)} | less {' | less '.join(titles[:-1])} |"
        yield "| --- |" + " ---: |" * (1 + len(STRATEGIES) + len(RIVALS))
        for copies in COPIES:
            yield _row(by_run, copies, size)
    yield from ("", "## Distinct items, half of the pool jittered copies", "")
    yield from ("Share of the batch, in %, that is no copy of another item in it.", "")
    yield "| batch | " + " | ".join(TITLES[s] for s in STRATEGIES) + " |"
    yield "| ---: |" + " ---: |" * len(STRATEGIES)
    for size in BATCHES:
        cells = []
        for strategy in STRATEGIES:
            shares = [
                record[str(size)]["distinct"] / size
                for (_, copies, arm, _), record in by_run.items()
                if (copies, arm) == ("50 % jittered", strategy)
            ]
            cells.append(f"{100 * np.mean(shares):.0f}" if shares else "")
        yield f"| {size} | {' | '.join(cells)} |"


def _row(by_run: Runs, copies: str, size: int) -> str:
    """Mean errors of the runs that every strategy has, and paired differences."""
    pairs = sorted(
        {
            (name, seed)
            for name, kind, _, seed in by_run
            if kind == copies
            and all((name, copies, strategy, seed) in by_run for strategy in STRATEGIES)
        }
    )
    errors = {
        strategy: np.array(
            [100 * by_run[name, copies, strategy, seed][str(size)]["error"] for name, seed in pairs]
        )
        for strategy in STRATEGIES
    }
    if len(pairs) < 2:
        return f"| {copies} | {len(pairs)} |" + " |" * (len(STRATEGIES) + len(RIVALS))
    cells = [f"{errors[strategy].mean():.2f}" for strategy in STRATEGIES]
    for rival in RIVALS:
        gaps = errors["parbals-epig"] - errors[rival]
        cells.append(shown(gaps, paired(gaps)[2]))
    return f"| {copies} | {len(pairs)} | {' | '.join(cells)} |"
