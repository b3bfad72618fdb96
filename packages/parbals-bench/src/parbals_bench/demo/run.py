"""The experiment of the demo: benchmark runs on text messages, and their first batches compared."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from parbals import BayesianLogisticRegression, select_batch_from_model
from parbals.strategies.table import DEFAULT_STRATEGY, RANDOM_STRATEGY, strategy_title
from parbals.types import Batch

from parbals_bench.datasets.sms_spam import CLASSES, Messages, load, load_messages, split_messages
from parbals_bench.report.tasks import ONE_BY_ONE
from parbals_bench.run.records import RunRecord
from parbals_bench.run.single import draw_targets, run_one
from parbals_bench.run.spec import Budget, Settings

__all__ = ["STRATEGIES", "Demo", "FirstBatch", "evaluate_batch", "run_demo"]

STRATEGIES = (RANDOM_STRATEGY, ONE_BY_ONE, DEFAULT_STRATEGY)
_EVALUATION_UNIVERSES = 10
_EVALUATION_SEED = 1_000_003


@dataclass(frozen=True)
class FirstBatch:
    """The first batch of a strategy under the first seed, and its information about the targets.

    Amounts are nats, averaged over target messages.
    """

    rows: np.ndarray  # (B,) positions in the pool
    evaluation: Batch  # the items scored together (see `evaluate_batch`)

    @property
    def alone(self) -> float:
        """Sum of the information of each item by itself."""
        return float(self.evaluation.initial_scores.sum())

    @property
    def joint(self) -> float:
        """Joint information of all items."""
        return float(self.evaluation.scores.sum())

    @property
    def redundancy(self) -> float:
        """The share of the items' information that is redundant.

        Pseudo-labels are drawn, so a batch without overlap could come out a little below zero.
        """
        return max(0.0, 1.0 - self.joint / self.alone) if self.alone > 0 else 0.0


@dataclass(frozen=True)
class Demo:
    """A record a seed of every strategy; pool and first batches are those of the first seed."""

    records: dict[str, tuple[RunRecord, ...]]
    first: dict[str, FirstBatch]
    pool: Messages
    X_pool: np.ndarray
    n_test: int
    spam_share: float

    @property
    def budget(self) -> Budget:
        return self.records[DEFAULT_STRATEGY][0].run.budget

    @property
    def n_seeds(self) -> int:
        return len(self.records[DEFAULT_STRATEGY])

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings of the model, each once."""
        runs = [record for records in self.records.values() for record in records]
        return tuple(dict.fromkeys(note for record in runs for note in record.notes))

    def values(self, strategy: str, metric: str) -> np.ndarray:
        """(seeds, rounds + 1), in percent."""
        return 100 * np.array([record.metrics[metric] for record in self.records[strategy]])


def run_demo(
    n_seeds: int = 5,
    budget: Budget | str = "20+4x10",
    *,
    n_targets: int = 500,
    progress: Callable[..., None] = lambda *stage: None,
) -> Demo:
    """Run every strategy under every seed, then evaluate the first batches of the first seed.

    ``progress`` is called with a stage, the runs done and the runs in all.
    """
    records: dict[str, list[RunRecord]] = {strategy: [] for strategy in STRATEGIES}
    # Features, model and loss are those that `parbals init` gives a project.
    settings = Settings(n_targets=n_targets, loss="error", inference="auto", prior_scale="auto")
    total = n_seeds * len(STRATEGIES)
    for seed in reversed(range(n_seeds)):  # the data of the first seed are needed afterwards
        data = load(features="words", seed=seed)
        for strategy in STRATEGIES:
            n_done = sum(map(len, records.values()))
            progress("labelling and learning", n_done, total, strategy_title(strategy))
            record = run_one(data, budget, strategy, seed=seed, settings=settings)
            records[strategy].insert(0, record)

    progress("evaluating the first batches")
    messages = load_messages()
    pool = split_messages(messages, 0).pool
    X_target = data.X_target_source[draw_targets(0, 0, len(data.X_target_source), n_targets)]
    first = {}
    for strategy in STRATEGIES:
        labelled = np.array(records[strategy][0].initial)
        rows = np.array(records[strategy][0].chosen[0])
        evaluation = evaluate_batch(
            data.X_pool[rows], X_target, data.X_pool[labelled], data.y_pool[labelled]
        )
        first[strategy] = FirstBatch(rows, evaluation)
    spam_share = float(np.mean(messages.labels == CLASSES[1]))
    runs = {strategy: tuple(of_seed) for strategy, of_seed in records.items()}
    return Demo(runs, first, pool, data.X_pool, len(data.X_test), spam_share)


def evaluate_batch(
    X_batch: np.ndarray, X_target: np.ndarray, X_labelled: np.ndarray, y_labelled: np.ndarray
) -> Batch:
    """The joint information of a batch's labels about the target set, however it was chosen.

    By the chain rule the information of the whole batch is the sum of its items' scores, each given
    the items before it, in any order. ParBaLS computes just those, so it is run with the batch as
    its whole pool. The posterior is a closed form without draws, so that no choice is flattered by
    the samples that it was made from.
    """
    model = BayesianLogisticRegression(
        inference="ep", prior_scale="auto", classes=[0, 1], random_state=_EVALUATION_SEED
    )
    return select_batch_from_model(
        model.fit(X_labelled, y_labelled, X_target),
        X_batch,
        X_target,
        batch_size=len(X_batch),
        n_universes=_EVALUATION_UNIVERSES,
        random_state=_EVALUATION_SEED,
    )
