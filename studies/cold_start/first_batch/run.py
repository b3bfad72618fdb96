"""Which items should the first batch have, without any label?

    python studies cold_start.first_batch --data FOLDER  # run what is missing, write README.md
    python studies cold_start.first_batch --seeds 1 --first digits:* --rare ""
    python studies cold_start.first_batch --tables  # write README.md from the records

*First batch*: 20 items of a pool of 2,000 that has no label, and the accuracy of the model that has
learnt from them. *Rare class*: pools of 2,000 with 20 positives, made by leaving positives out; 20
random labels, then batches of 20, until ten positives are found. All start from the same items
where the seed is the same. Each run is a line of record.jsonl, so an interrupted study goes on.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.rare import N_POOL, RARE, load, rare_pool
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"
N_TEST = 4_000
BATCH = 20
N_POSITIVES = 10
MAX_LABELS = 600
FIRST_SETS = (
    *("airline", "credit-card", "sms-spam", "breast-cancer", "ag-news", "cifar10"),
    *("ag-news:*", "cifar10:*", "digits:*"),
)
RARE_SETS = ("sms-spam", "ag-news", "cifar10")
PARBALS = {"ParBaLS, error": "error", "ParBaLS, log": "log"}
FIRST = ("Random", "CoreSet", "k-means", *PARBALS)
FINDERS = ("Random", "Confidence", *PARBALS)


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", PAGE, runs, page),
        seeds=10,
        options={"first": ",".join(FIRST_SETS), "rare": ",".join(RARE_SETS)},
    )


def runs(options: Namespace) -> Iterator[Todo]:
    parts = (
        ("first", options.first, FIRST, accuracy),
        ("rare", options.rare, FINDERS, labels_needed),
    )
    for kind, datasets, names, measure in parts:
        for data in filter(None, datasets.split(",")):
            for seed, name in product(range(options.seeds), names):
                yield (kind, data, name, seed), partial(_value, measure, data, name, seed)


def _value(measure: Callable[..., float], *run: Any) -> Record:
    return {"value": measure(*run)}


def accuracy(data: str, start: str, seed: int) -> float:
    """On rows outside the pool, after the first 20 labels."""
    from parbals import ActiveLearner, select_batch_from_model
    from parbals.learner.evaluation.metric import LOSS_OF_METRIC

    X, y, n_classes = load(data)
    order = np.random.default_rng(seed).permutation(len(X))
    n_pool = min(N_POOL, 2 * len(X) // 3)
    pool = order[:n_pool]
    test = order[n_pool:][:N_TEST]
    strategy = {"Random": "random", "CoreSet": "coreset"}.get(start, "parbals-epig")
    metric = "accuracy" if PARBALS.get(start) == "error" else "log-loss"
    learner = ActiveLearner(
        X[pool], range(n_classes), strategy=strategy, metric=metric, random_state=seed
    )
    if start == "k-means":
        labelled = medoids(X[pool], seed)
    elif start in PARBALS:  # a learner would start with k-means
        rows = learner.setup.pool_rows(slice(None))
        loss = LOSS_OF_METRIC[metric]
        prior = learner.fitted()
        batch = select_batch_from_model(
            prior, rows, rows, BATCH, strategy, random_state=seed, loss=loss
        )
        labelled = batch.indices
    else:
        labelled = learner.ask(BATCH)
    learner.tell(labelled, y[pool[labelled]])
    return float(np.mean(learner.predict_proba(X[test]).argmax(axis=1) == y[test]))


def medoids(X: np.ndarray, seed: int) -> np.ndarray:
    """The row nearest to each of 20 centres of k-means; distinct, for clusters are."""
    from sklearn.cluster import KMeans

    clusters = KMeans(BATCH, n_init=3, random_state=seed).fit(X)
    distances = clusters.transform(X)
    distances_within = np.where(clusters.labels_[:, None] == np.arange(BATCH), distances, np.inf)
    return distances_within.argmin(axis=0)


def labels_needed(data: str, finder: str, seed: int) -> float:
    """Until the tenth positive; ``MAX_LABELS`` if there are fewer by then (Random goes on)."""
    from parbals import ActiveLearner

    X, y, _ = load(data)
    pool = rare_pool(y, seed)
    is_rare = y[pool] == 1
    if finder == "Random":
        return float(np.flatnonzero(is_rare)[N_POSITIVES - 1] + 1)
    strategy = "confidence" if finder == "Confidence" else "parbals-epig"
    metric = "accuracy" if PARBALS.get(finder) == "error" else "log-loss"
    learner = ActiveLearner(X[pool], range(2), strategy=strategy, metric=metric, random_state=seed)
    labelled = list(range(BATCH))
    learner.tell(labelled, y[pool[labelled]])
    while is_rare[labelled].sum() < N_POSITIVES and len(labelled) < MAX_LABELS:
        batch = learner.ask(BATCH)
        learner.tell(batch, y[pool[batch]])
        labelled += batch.tolist()
    places = np.flatnonzero(is_rare[labelled])
    return float(places[N_POSITIVES - 1] + 1 if len(places) >= N_POSITIVES else MAX_LABELS)


def page(records: list[dict[str, Any]]) -> Iterator[str]:
    """Both tables: means over seeds ± standard errors."""
    yield "# Which items should the first batch have?"
    yield ""
    yield "Written by `python studies cold_start.first_batch`; do not edit."
    yield ""
    yield f"## The first {BATCH} labels"
    yield ""
    yield (
        f"Nothing is labelled; {BATCH} of at most {N_POOL:,} items are chosen, and the table shows "
        "the test accuracy in % that their labels give under the learnt prior. ParBaLS chooses "
        "under the prior, by error or by log loss; k-means takes the item nearest to each of "
        f"{BATCH} centres. Mean over the seeds that all have ± standard error."
    )
    yield ""
    yield from _table(records, "first", FIRST, 100.0, 1)
    yield ""
    yield "## A class of 1 %"
    yield ""
    yield (
        f"Pools of {N_POOL:,} with {RARE} positives: labels until {N_POSITIVES} of them are found, "
        f"of which the first {BATCH} are random, then batches of {BATCH}. A search ends at "
        f"{MAX_LABELS} labels and counts as that many (> says that some did); Random's goes on to "
        "the end of the pool and is the same on all sets."
    )
    yield ""
    yield from _table(records, "rare", FINDERS, 1.0, 0)


def _table(
    records: list[dict[str, Any]], kind: str, names: tuple[str, ...], scale: float, digits: int
) -> Iterator[str]:
    yield "| | seeds | " + " | ".join(names) + " |"
    yield "| --- | ---: |" + " ---: |" * len(names)
    values = {tuple(record["run"]): scale * record["value"] for record in records}
    of_sets = []
    for data in dict.fromkeys(data for of, data, *_ in values if of == kind):
        seeds = sorted({seed for of, x, _, seed in values if (of, x) == (kind, data)})
        seeds = [x for x in seeds if all((kind, data, name, x) in values for name in names)]
        numbers = np.array([[values[kind, data, x, seed] for seed in seeds] for x in names])
        of_sets.append(numbers)
        ended = [
            kind == "rare" and x != "Random" and MAX_LABELS in numbers[i]
            for i, x in enumerate(names)
        ]
        yield _row(data, numbers, digits, ended)
    if len({numbers.shape for numbers in of_sets}) == 1 < len(of_sets):
        yield _row("mean of the sets", np.mean(of_sets, axis=0), digits)


def _row(title: str, numbers: np.ndarray, digits: int, ended: Sequence[bool] = ()) -> str:
    """Of (names, seeds)."""
    n_seeds = numbers.shape[1]
    cells = [f"{x.mean():.{digits}f}" if n_seeds else "–" for x in numbers]
    if n_seeds > 1:
        errors = numbers.std(axis=1, ddof=1) / n_seeds**0.5
        cells = [f"{x} ± {error:.{digits}f}" for x, error in zip(cells, errors, strict=True)]
    marks = ["> " if x else "" for x in ended] or [""] * len(cells)
    cells = [mark + cell for mark, cell in zip(marks, cells, strict=True)]
    return f"| {title} | {n_seeds} | " + " | ".join(cells) + " |"
