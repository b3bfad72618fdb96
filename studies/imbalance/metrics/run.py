"""Does choosing and deciding for balanced accuracy or F1 pay on imbalanced classes?

    python studies imbalance.metrics --data FOLDER  # run what is missing, write README.md
    python studies imbalance.metrics --tables       # write README.md from the records

Pools of 1,000 items, 20 random labels and then batches of 20. Learners differ by what they choose
for. Each is judged by balanced accuracy and by the F1 of the rarer class, of the most probable
classes and of the decisions that the metric asks for. FOLDER holds the datasets, or what
``studies/lib/rows.py`` wrote; each run is a line of record.jsonl.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.labelling import label_in_batches
from lib.records import Record, Todo, study
from lib.rows import load

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"
SETS = ("credit-card", "sms-spam", "cifar10")
CHOOSERS = {
    "Random": ("random", "accuracy"),
    "Confidence": ("confidence", "accuracy"),
    "ParBaLS, accuracy": ("parbals-epig", "accuracy"),
    "ParBaLS, balanced accuracy": ("parbals-epig", "balanced-accuracy"),
    "ParBaLS, F1": ("parbals-epig", "f1:1"),
}
N_POOL = 1_000
N_TEST = 4_000
N_TARGETS = 500
BATCH = 20
SIZES = (60, 100, 200)


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", PAGE, runs, page),
        seeds=10,
        options={"sets": ",".join(SETS)},
    )


def runs(options: Namespace) -> Iterator[Todo]:
    for seed, data, chooser in product(range(options.seeds), options.sets.split(","), CHOOSERS):
        yield (data, chooser, seed), partial(judged, data, chooser, seed)


def judged(data: str, chooser: str, seed: int) -> dict[str, Any]:
    """Labels → balanced accuracy and F1, of the most probable class and of its own decisions."""
    from parbals import ActiveLearner
    from parbals.learner.evaluation.metric import BALANCED, class_weights_for, decide
    from sklearn.metrics import balanced_accuracy_score, f1_score

    X, y, _ = load(data)
    order = np.random.default_rng(seed).permutation(len(X))
    pool = order[:N_POOL]
    test = order[N_POOL:][:N_TEST]
    strategy, metric = CHOOSERS[chooser]
    learner = ActiveLearner(
        X[pool], range(2), strategy=strategy, metric=metric, random_state=seed, n_targets=N_TARGETS
    )
    learner.tell(range(BATCH), y[pool[:BATCH]])
    values = {}
    for size in SIZES:
        label_in_batches(learner, y[pool], size, BATCH)
        probs = learner.predict_proba(X[test])
        pool_probs = learner.predict_proba(X[pool])
        row = []
        for name, score in ((BALANCED, balanced_accuracy_score), ("f1:1", f1_score)):
            decisions = decide(probs, class_weights_for(name, pool_probs, range(2)))
            row += [float(score(y[test], d)) for d in (probs.argmax(axis=1), decisions)]
        values[str(size)] = row
    return {"values": values}


def page(records: list[Record]) -> Iterator[str]:
    """One table; means over the seeds that all have ± standard errors."""
    yield "# Does it pay to choose and decide for balanced accuracy or F1?"
    yield ""
    yield "Written by `python studies imbalance.metrics`; do not edit."
    yield ""
    yield (
        f"Pools of {N_POOL:,} items, {BATCH} random labels and then batches of {BATCH}. % on test "
        "items: *plain* decides the most probable class, *decided* what the metric asks for "
        "(`parbals/learner/evaluation/metric.py`). Mean over the seeds ± standard error."
    )
    yield ""
    yield (
        "| data | labels | chosen for | seeds | balanced accuracy, plain | decided | F1, plain | "
        "decided |"
    )
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    by_run = {tuple(record["run"]): record["values"] for record in records}
    for data in dict.fromkeys(run[0] for run in by_run):
        seeds = [s for s in range(1000) if all((data, c, s) in by_run for c in CHOOSERS)]
        for size in SIZES if seeds else ():
            for chooser in CHOOSERS:
                rows = 100 * np.array([by_run[data, chooser, s][str(size)] for s in seeds])
                error = rows.std(axis=0) / max(len(rows) - 1, 1) ** 0.5
                cells = [
                    f"{m:.1f} ± {e:.1f}" for m, e in zip(rows.mean(axis=0), error, strict=True)
                ]
                yield f"| {data} | {size} | {chooser} | {len(seeds)} | {' | '.join(cells)} |"
