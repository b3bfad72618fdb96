"""Does it pay to tell the learner what the model is for?

    python studies targets --data FOLDER               # run what is missing, write README.md
    python studies targets --data FOLDER --workers 16  # in processes
    python studies targets --target-rows 200 --only digits-slanted --seeds 2 --out NEW
    python studies targets --tables                    # write README.md from the records

In every pool 5 % of the rows are of the target's kind. All strategies begin with the same 50 random
labels and choose eight batches of 20; accuracy is measured on other rows of the target. FOLDER
holds the datasets, or what ``python studies targets.shifts`` wrote. Each run is a line of
record.jsonl: the accuracy after 50, 70, … 210 labels, and how many labelled rows are of the
target's kind. Two further runs label all pool rows of the target's kind and nothing else, or as
many random other ones: what is a label of each kind worth?
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study
from targets.page import MAIN_TARGET_ROWS, ONE_KIND, TARGET_SIZES, Arm, page
from targets.shifts import SHIFTS, split

FOLDER = Path(__file__).parent
N_INITIAL = 50
N_BATCHES = 8
BATCH = 20
BASELINES = ("margin", "badge", "confidence", "random")
"""Strategies that know no target."""
N_POOL_TARGETS = MAIN_TARGET_ROWS
"""ParBaLS without target has as many rows of the pool in place of a target, drawn each time."""


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", FOLDER / "README.md", runs, page),
        seeds=10,
        options={
            "only": ",".join(SHIFTS),
            "target-rows": ",".join(map(str, TARGET_SIZES)),
        },
    )


def runs(options: Namespace) -> Iterator[Todo]:
    """Seed by seed, so that an interrupted study is balanced."""
    names = options.only.split(",")
    unknown = set(names) - set(SHIFTS)
    if unknown:
        raise ValueError(f"--only names {', '.join(unknown)}; choose from {', '.join(SHIFTS)}.")
    arms = list(chain.from_iterable(map(arms_of_size, options.target_rows.split(","))))
    for seed, name, (strategy, n_target) in product(range(options.seeds), names, arms):
        run = (name, strategy, n_target, seed)
        yield run, partial(learning_curve, *run)
    for seed, name, (kind, _) in product(range(options.seeds), names, ONE_KIND):
        yield (name, kind, 0, seed), partial(accuracy_of_one_kind, name, kind, seed)


def arms_of_size(text: str) -> list[Arm]:
    """Strategies with so many target rows; the main size brings those without a target along."""
    if text not in map(str, TARGET_SIZES):
        raise ValueError(f"--target-rows has {text!r}; choose from {TARGET_SIZES}.")
    n_target = int(text)
    if n_target != MAIN_TARGET_ROWS:
        return [("parbals-epig", n_target), ("epig", n_target)]
    with_target = [(name, n_target) for name in ("parbals-epig", "epig", "weighted-margin")]
    return [*with_target, ("parbals-epig", 0), *((name, 0) for name in BASELINES)]


def learning_curve(name: str, strategy: str, n_target: int, seed: int) -> Record:
    """Accuracy on the target's test rows after each batch."""
    from parbals import ActiveLearner

    data = split(name, seed, max(n_target, 1))
    learner = ActiveLearner(
        data.X_pool,
        range(data.n_classes),
        data.X_target if n_target and strategy != "weighted-margin" else None,
        strategy="margin" if strategy == "weighted-margin" else strategy,
        random_state=seed,
        n_targets=max(n_target, N_POOL_TARGETS),
    )
    weights = target_odds(data.X_pool, data.X_target) if strategy == "weighted-margin" else None
    batch = np.random.default_rng(seed).permutation(len(data.y_pool))[:N_INITIAL]
    learner.tell(batch, data.y_pool[batch])
    accuracy = [_accuracy(learner, data)]
    for _ in range(N_BATCHES):
        batch = learner.ask(BATCH) if weights is None else weighted_margin(learner, data, weights)
        learner.tell(batch, data.y_pool[batch])
        accuracy.append(_accuracy(learner, data))
    labelled = np.asarray(learner.labelled)
    return {
        "accuracy": [round(value, 5) for value in accuracy],
        "of_target": int(data.pool_of_target[labelled].sum()),
    }


def accuracy_of_one_kind(name: str, kind: str, seed: int) -> Record:
    """Accuracy on the target's test rows with labels of one kind of pool rows alone."""
    from parbals import ActiveLearner

    data = split(name, seed, 1)
    rows = np.flatnonzero(data.pool_of_target)
    if kind == "only-others":
        others = np.flatnonzero(~data.pool_of_target)
        rows = np.random.default_rng(seed).permutation(others)[: len(rows)]
    learner = ActiveLearner(data.X_pool, range(data.n_classes), random_state=seed)
    learner.tell(rows, data.y_pool[rows])
    return {
        "accuracy": [round(_accuracy(learner, data), 5)],
        "of_target": int(data.pool_of_target[rows].sum()),
    }


def target_odds(X_pool: np.ndarray, X_target: np.ndarray) -> np.ndarray:
    """The density ratio target/pool (N,), up to a factor, of a classifier that tells them apart."""
    from sklearn.linear_model import LogisticRegression

    X = np.concatenate([X_pool, X_target])
    is_target = np.arange(len(X)) >= len(X_pool)
    classifier = LogisticRegression(max_iter=1_000).fit(X, is_target)
    return np.exp(classifier.decision_function(X_pool))


def weighted_margin(learner: Any, data: Any, weights: np.ndarray) -> np.ndarray:
    """The unlabelled rows with the largest (1 - margin) · density ratio."""
    two_likeliest = np.sort(learner.predict_proba(data.X_pool), axis=1)[:, -2:]
    scores = (1.0 - np.diff(two_likeliest)[:, 0]) * weights
    scores[np.asarray(learner.labelled)] = -1.0
    return np.argsort(-scores)[:BATCH]


def _accuracy(learner: Any, data: Any) -> float:
    return float(np.mean(learner.predict_proba(data.X_test).argmax(axis=1) == data.y_test))
