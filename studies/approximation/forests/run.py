"""Do batches of 20 from 100 trees suffer when few trees keep weight, and does tempering help?

    python studies approximation.forests            # 12 seeds of each set, about ten CPU-minutes
    python studies approximation.forests --seeds 2  # a quick check

A forest of 100 trees is fitted to the first labels and chooses 20 items of 300; a forest of 200
trees is then fitted to all labels and tested. Writes record.json and README.md.
"""

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import parbals
from parbals.arrays import effective_sample_size
from parbals.learner.models import EnsembleModel
from parbals.posterior.predictive import softmax
from parbals.strategies import parbals as strategy_module
from parbals.strategies.universes.samples import ReweightedUniverses, Universe, branch
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier

FOLDER = Path(__file__).parent
N_TREES = 100
BATCH_SIZE = 20
N_POOL = 300
N_TARGETS = 60
SETS = {"two classes": 40, "four classes": 40, "four digits": 20}
"""Labels that the first forest is fitted to."""
ARMS = ("exact weights", "tempered", "top-20 EPIG", "random")
TEXT = """# Do few trees spoil a batch?

{answer}

Forests of {n_trees} trees choose {batch_size} of {n_pool} items; a forest of 200 trees is then
fitted to all labels. Differences from *exact weights* are paired by seed ({n_seeds} seeds), with
95 % intervals. *Samples* is the effective number of trees at the end of the batch. Written by
`python studies approximation.forests`; do not edit.

{table}
"""


def data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, D) and classes (N,) in random order."""
    if name == "four digits":
        X, y = load_digits(return_X_y=True)
        X, y = X[y < 4], y[y < 4]
        order = np.random.default_rng(seed).permutation(len(X))
        return X[order], y[order]
    n_classes = 2 if name == "two classes" else 4
    informative = 5 if n_classes == 2 else 6
    return make_classification(
        1_500, 10, n_informative=informative, n_classes=n_classes, random_state=seed
    )


class TemperedUniverses(ReweightedUniverses):
    """Universes in which at least a tenth of the samples keeps weight.

    Where fewer would, the likelihood of the batch's labels is raised to the largest power τ ≤ 1 at
    which a tenth does.
    """

    def observe(self, index: int, labels: np.ndarray) -> None:
        """Condition universe u on label ``labels[u]`` of the pool point."""
        log_probs = np.log(self._probs[index])

        def conditioned(member: Universe, label: int) -> Universe:
            log_weights = member.log_weights + log_probs[:, label]
            return Universe(member.cloud, _power(log_weights) * log_weights)

        self.members = branch(self.members, labels, conditioned)


def _power(log_weights: np.ndarray) -> float:
    """The largest power τ ≤ 1 at which a tenth of the samples keeps weight."""

    def is_enough(power: float) -> bool:
        return effective_sample_size(softmax(power * log_weights)) >= 0.1 * len(log_weights)

    if is_enough(1.0):
        return 1.0
    low = 0.0
    high = 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if is_enough(middle):
            low = middle
        else:
            high = middle
    return low


@contextmanager
def tempered() -> Iterator[None]:
    """ParBaLS with tempered universes."""
    strategy_module.ReweightedUniverses = TemperedUniverses
    try:
        yield
    finally:
        strategy_module.ReweightedUniverses = ReweightedUniverses


def accuracy(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Mean accuracy of two forests."""
    return float(
        np.mean(
            [
                RandomForestClassifier(200, min_samples_leaf=2, random_state=seed)
                .fit(X[train], y[train])
                .score(X[test], y[test])
                for seed in range(2)
            ]
        )
    )


def run(name: str, seed: int) -> dict[str, tuple[float, float]]:
    """Accuracy and effective samples of every arm."""
    X, y = data(name, seed)
    order = np.random.default_rng(seed).permutation(len(X))
    labelled = order[: SETS[name]]
    pool = order[40 : 40 + N_POOL]
    test = order[40 + N_POOL :]
    forest = RandomForestClassifier(N_TREES, random_state=seed)
    model = EnsembleModel(forest, int(y.max()) + 1).fit(X[labelled], y[labelled])
    pool_probs = model.sample_proba(X[pool])
    target_probs = model.sample_proba(X[test[:N_TARGETS]])

    def choose(strategy: str) -> tuple[np.ndarray, float]:
        batch = parbals.select_batch(
            pool_probs, target_probs, BATCH_SIZE, strategy, random_state=seed
        )
        return batch.indices, float(np.min(batch.effective_sample_size))

    chosen = {"exact weights": choose("parbals-epig")}
    with tempered():
        chosen["tempered"] = choose("parbals-epig")
    chosen["top-20 EPIG"] = choose("epig")
    chosen["random"] = choose("random")
    return {
        arm: (accuracy(X, y, np.r_[labelled, pool[rows]], test), size)
        for arm, (rows, size) in chosen.items()
    }


def table(record: dict[str, list[dict[str, tuple[float, float]]]]) -> str:
    """A line for every set and arm."""
    lines = [
        "| data | batch | samples | accuracy, % | difference |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for name, runs in record.items():
        exact = np.array([row[ARMS[0]][0] for row in runs])
        for arm in ARMS:
            values = np.array([row[arm][0] for row in runs])
            gain = 100 * (values - exact)
            half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
            difference = "" if arm == ARMS[0] else f"{gain.mean():+.2f} ± {half:.2f}"
            size = "" if arm in ARMS[2:] else f"{np.mean([row[arm][1] for row in runs]):.1f}"
            lines.append(f"| {name} | {arm} | {size} | {100 * values.mean():.1f} | {difference} |")
    return "\n".join(lines)


def answer(record: dict[str, list[dict[str, tuple[float, float]]]]) -> str:
    """What the other arms lose or gain over all sets, in a sentence."""
    rows = [row for runs in record.values() for row in runs]
    parts = []
    for arm in ARMS[1:]:
        gain = 100 * np.array([row[arm][0] - row[ARMS[0]][0] for row in rows])
        half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
        parts.append(f"{arm} {gain.mean():+.2f} ± {half:.2f}")
    return (
        "Few trees carry weight at the end of a batch. Points of accuracy over all sets, less "
        f"those of exact weights: {', '.join(parts)}. Tempering keeps a tenth of the trees in use."
    )


def main() -> None:
    """Run the study and write its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    n_seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", parbals.errors.SampleCollapseWarning)
    record = {name: [run(name, seed) for seed in range(n_seeds)] for name in SETS}
    (FOLDER / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = TEXT.format(
        answer=answer(record),
        n_trees=N_TREES,
        batch_size=BATCH_SIZE,
        n_pool=N_POOL,
        n_seeds=n_seeds,
        table=table(record),
    )
    (FOLDER / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
