"""The experiment behind the demo: label, refit, choose again, for each strategy from the same
start."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from parbals import BayesianLogisticRegression, select_batch_from_model
from parbals.datasets.sms_spam import CLASSES, Messages, load_messages, split_messages
from parbals.errors import InputError, ParbalsWarning
from parbals.features.text import TextFeatures
from parbals.randomness import derive_generator
from parbals.types import Batch

__all__ = ["METRICS", "DemoResult", "FirstRound", "Settings", "Trace", "run_demo"]

METRICS = ("accuracy", "balanced_accuracy", "spam_f1")
_JUDGE_UNIVERSES = 10
_JUDGE_SEED = 1_000_003


@dataclass(frozen=True)
class Settings:
    """How large the experiment is; the defaults take about a minute on two cores."""

    n_seeds: int = 5
    n_initial: int = 20
    batch_size: int = 10
    n_rounds: int = 4
    n_samples: int = 400
    n_judge_samples: int = 1_000
    n_target: int = 500
    n_features: int = 64
    n_shown: int = 1_000  # messages on the map
    strategies: tuple[str, ...] = ("random", "epig", "parbals-epig")

    def __post_init__(self) -> None:
        for name in ("n_seeds", "n_initial", "batch_size", "n_rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1.")

    @property
    def n_labels(self) -> np.ndarray:
        """(R + 1,) how many labels the model has seen at each measurement."""
        return self.n_initial + self.batch_size * np.arange(self.n_rounds + 1)

    @property
    def n_batches(self) -> int:
        return self.n_seeds * len(self.strategies) * self.n_rounds


@dataclass(frozen=True)
class Trace:
    """One strategy under one seed."""

    strategy: str
    seed: int
    chosen: np.ndarray  # (R, B) pool positions
    metrics: dict[str, np.ndarray]  # each (R + 1,), the first before any batch
    seconds: float = field(compare=False)  # spent on choosing, all rounds together


@dataclass(frozen=True)
class FirstRound:
    """What each strategy chose first under the first seed, all from the same model, and what it is
    worth."""

    pool: Messages
    X_pool: np.ndarray
    initial: np.ndarray
    batches: dict[str, Batch]
    judged: dict[str, Batch]  # the same items, measured jointly (see `judge_batch`)
    similarity: dict[str, np.ndarray]  # (B, B) cosine similarity of the wordings
    n_target: int
    n_test: int


@dataclass(frozen=True)
class DemoResult:
    settings: Settings
    traces: tuple[Trace, ...]
    first: FirstRound
    spam_share: float
    notes: tuple[str, ...]

    def metric(self, name: str, strategy: str) -> np.ndarray:
        """(seeds, R + 1) of one strategy."""
        return np.array(
            [trace.metrics[name] for trace in self.traces if trace.strategy == strategy]
        )


@dataclass(frozen=True)
class _Table:
    """Features and labels of one seed's split."""

    pool: Messages
    words: TextFeatures
    X_pool: np.ndarray
    X_target: np.ndarray
    X_test: np.ndarray
    test: Messages
    initial: np.ndarray


def run_demo(
    settings: Settings | None = None, on_batch: Callable[[str], None] = lambda strategy: None
) -> DemoResult:
    """Run every strategy under every seed; ``on_batch`` is called with its name after each batch."""
    settings = settings or Settings()
    messages = load_messages()
    traces: list[Trace] = []
    with warnings.catch_warnings(record=True) as caught:
        # Every doubt the model has about itself reaches the reader of the report, each once.
        warnings.simplefilter("always", ParbalsWarning)
        for seed in range(settings.n_seeds):
            table = _prepare(messages, seed, settings)
            start = _fit(table, table.initial, seed, settings)
            runs = [
                _run_strategy(strategy, seed, table, start, settings, on_batch)
                for strategy in settings.strategies
            ]
            traces += [trace for trace, _ in runs]
            if seed == 0:
                first = _first_round(
                    table, {trace.strategy: batch for trace, batch in runs}, settings
                )
    notes = tuple(
        dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, ParbalsWarning))
    )
    return DemoResult(
        settings, tuple(traces), first, float(np.mean(messages.labels == "spam")), notes
    )


def judge_batch(
    X_batch: np.ndarray,
    X_target: np.ndarray,
    X_known: np.ndarray,
    y_known: np.ndarray,
    n_samples: int,
) -> Batch:
    """How much a batch's labels tell together about the target set, whoever chose it.

    By the chain rule the information of the whole batch is the sum of its items' scores, each given
    the items before it, in any order. ParBaLS computes just those, so it is run with the batch as
    its whole pool. A fresh posterior with more samples is used: the one that chose the items would
    flatter its own choice.
    """
    judge = BayesianLogisticRegression(n_samples, classes=CLASSES, random_state=_JUDGE_SEED)
    judge.fit(X_known, y_known)
    return select_batch_from_model(
        judge,
        X_batch,
        X_target,
        batch_size=len(X_batch),
        n_universes=_JUDGE_UNIVERSES,
        random_state=_JUDGE_SEED,
    )


def _prepare(messages: Messages, seed: int, settings: Settings) -> _Table:
    split = split_messages(messages, seed)
    room = len(split.pool) - settings.n_rounds * settings.batch_size
    if settings.n_initial > room:
        raise InputError(
            f"{settings.n_initial} initial labels and {settings.n_rounds} rounds of "
            f"{settings.batch_size} are more than the {len(split.pool)} messages in the pool; ask "
            "for fewer rounds or smaller batches."
        )
    words = TextFeatures(settings.n_features, seed=seed).fit(split.pool.texts)
    X_pool, X_target, X_test = (
        words.transform(part.texts) for part in (split.pool, split.target, split.test)
    )
    X_target = X_target[
        derive_generator(seed, "target").permutation(len(X_target))[: settings.n_target]
    ]
    initial = derive_generator(seed, "initial").permutation(len(X_pool))[: settings.n_initial]
    return _Table(split.pool, words, X_pool, X_target, X_test, split.test, initial)


def _fit(
    table: _Table, labelled: np.ndarray, seed: int, settings: Settings
) -> BayesianLogisticRegression:
    model = BayesianLogisticRegression(settings.n_samples, classes=CLASSES, random_state=seed)
    return model.fit(table.X_pool[labelled], table.pool.labels[labelled])


def _run_strategy(
    strategy: str,
    seed: int,
    table: _Table,
    model: BayesianLogisticRegression,
    settings: Settings,
    on_batch: Callable[[str], None],
) -> tuple[Trace, Batch]:
    """The trace of all rounds, and the first batch with positions in the pool."""
    labelled, measured = table.initial, [_measure(model, table)]
    batches: list[Batch] = []
    seconds = 0.0
    for round_number in range(settings.n_rounds):
        free = np.setdiff1d(np.arange(len(table.X_pool)), labelled)
        begun = perf_counter()
        batch = select_batch_from_model(
            model,
            table.X_pool[free],
            table.X_target,
            batch_size=settings.batch_size,
            strategy=strategy,
            random_state=1_000 * seed + round_number,
        )
        seconds += perf_counter() - begun
        batches.append(replace(batch, indices=free[batch.indices]))
        labelled = np.concatenate([labelled, batches[-1].indices])
        model = _fit(table, labelled, seed, settings)
        measured.append(_measure(model, table))
        on_batch(strategy)
    metrics = {name: np.array([row[name] for row in measured]) for name in METRICS}
    chosen = np.array([batch.indices for batch in batches])
    return Trace(strategy, seed, chosen, metrics, seconds), batches[0]


def _measure(model: BayesianLogisticRegression, table: _Table) -> dict[str, float]:
    truth, predicted = table.test.labels, model.predict(table.X_test)
    return {
        "accuracy": accuracy_score(truth, predicted),
        "balanced_accuracy": balanced_accuracy_score(truth, predicted),
        "spam_f1": f1_score(truth, predicted, pos_label="spam", zero_division=0.0),
    }


def _first_round(table: _Table, batches: dict[str, Batch], settings: Settings) -> FirstRound:
    known = table.X_pool[table.initial], table.pool.labels[table.initial]
    wordings = table.words.words(table.pool.texts)
    judged, similarity = {}, {}
    for strategy, batch in batches.items():
        judged[strategy] = judge_batch(
            table.X_pool[batch.indices], table.X_target, *known, settings.n_judge_samples
        )
        rows = wordings[batch.indices]
        similarity[strategy] = np.asarray((rows @ rows.T).todense())
    return FirstRound(
        table.pool,
        table.X_pool,
        table.initial,
        batches,
        judged,
        similarity,
        len(table.X_target),
        len(table.X_test),
    )
