"""What does a learner gain that knows which items of the pool lie together?

    python studies/prior/pool_structure/run.py --rows FOLDER --seeds 2 --processes 16

Every FOLDER/NAME.npz has the rows and labels of a pool and a test set: X, y, X_test, y_test. Each
run prints a line of JSON after each batch: the set, the arm, the seed, the number of labels, and
accuracy and log loss on the test set. The arms are

    rows            the model and the candidates of rows alone
    prior           the prior with neighbourhoods, all items compete
    both            the prior, and representatives of regions without a label
    both, margin    likewise, but the smallest margins are chosen
    random          random items, the prior with neighbourhoods
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

ARMS = ("rows", "prior", "both", "both, margin", "random")
STRATEGIES = {"both, margin": "margin", "random": "random"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--arms", default=";".join(ARMS), help="separated by semicolons")
    parser.add_argument("--sets", default="", help="names, separated by commas; default all")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="labels at first; default one a class")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--labels", type=int, default=350)
    parser.add_argument("--pool", type=int, default=10_003, help="rows of the pool that are used")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    paths = sorted(options.rows.glob("*.npz"))
    if options.sets:
        paths = [path for path in paths if path.stem in options.sets.split(",")]
    tasks = [
        (path, arm, seed, options)
        for seed, path, arm in product(range(options.seeds), paths, options.arms.split(";"))
    ]
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool:
        for _ in pool.imap_unordered(run, tasks, chunksize=1):
            pass
    return 0


def run(task: tuple[Path, str, int, Any]) -> None:
    """One curve, printed point by point."""
    from parbals import ActiveLearner
    from parbals.learner import choosing

    path, arm, seed, options = task
    warnings.simplefilter("ignore")
    if arm == "prior":
        choosing._MIN_NEIGHBOURHOOD_SHARE = 1.0
    else:
        choosing._MIN_NEIGHBOURHOOD_SHARE = 0.5
    data = np.load(path)
    classes, y = np.unique(data["y"], return_inverse=True)
    y_test = np.searchsorted(classes, data["y_test"])
    used = np.random.default_rng(seed).permutation(len(y))[: options.pool]
    X = data["X"][used].astype(np.float32)
    y = y[used]
    learner = ActiveLearner(
        X,
        range(len(classes)),
        strategy=STRATEGIES.get(arm, "parbals-epig"),
        random_state=seed,
        pool_structure=arm != "rows",
    )
    first = learner.choose(options.first or len(classes), strategy="kmeans").indices
    learner.tell(first, y[first])
    start = time.process_time()
    while True:
        probs = learner.predict_proba(data["X_test"].astype(np.float32))
        seconds = time.process_time() - start
        point = {
            "set": path.stem,
            "arm": arm,
            "seed": seed,
            "labels": len(learner.labelled),
            "accuracy": round(100.0 * float(np.mean(probs.argmax(axis=1) == y_test)), 2),
            "log_loss": round(float(-np.log(probs[np.arange(len(y_test)), y_test]).mean()), 4),
            "share": round(learner.fitted().neighbourhood_share_, 2),
            "classes": len(np.unique(y[learner.labelled])),
            "seconds": round(seconds, 1),
        }
        print(json.dumps(point), flush=True)
        n_new = min(options.batch, options.labels - len(learner.labelled))
        if n_new <= 0:
            return
        start = time.process_time()
        batch = learner.choose(n_new)
        learner.tell(batch.indices, y[batch.indices])


if __name__ == "__main__":
    raise SystemExit(main())
