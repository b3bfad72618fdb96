"""Would a strategy that changes its rule be safe: k-means first, then ParBaLS, then Margin?

    python studies strategies.auto --data ~/data --workers 16 --platform cpu  # run what is missing
    python studies strategies.auto --tables                                   # write README.md

200 labels in batches of 25 from 2,000 rows; every strategy's first batch is k-means', as in a
project without descriptions. Single strategies: k-means, Confidence, Margin, ParBaLS EPIG.
Candidates that change:

two-kmeans  two batches by k-means, then ParBaLS EPIG
late        ParBaLS EPIG up to 100 labels, then Margin
loss        ParBaLS EPIG until the leave-one-out log loss of the first batch, which k-means chose
            and which resembles the pool, has not fallen for two batches; then Margin

A candidate is accepted only if on no set and budget, held-out sets included, it is behind the best
single strategy by more than noise: one-sided paired t-tests with Holm's correction for all of them.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.paired import paired
from lib.records import Record, Todo, study
from lib.rows import load
from parbals_bench.report.stats import holm

FOLDER = Path(__file__).parent
SETS = (
    *("airline", "airline-class:*", "airline-age:*", "credit-card", "digits:*", "ag-news:*"),
    *("sms-spam", "cifar10:*", "breast-cancer"),
)
HELD_OUT = ("airline-kind:*", "airline-boarding:*", "digits-odd", "ag-news", "cifar10")
"""Sets that no rule was changed for."""
SINGLE = ("kmeans", "confidence", "margin", "parbals-epig")
CANDIDATES = ("two-kmeans", "late", "loss")
TITLES = {
    "kmeans": "k-means",
    "confidence": "Confidence",
    "margin": "Margin",
    "parbals-epig": "ParBaLS EPIG",
    "two-kmeans": "two-kmeans",
    "late": "late",
    "loss": "loss",
}
BUDGETS = (50, 100, 200)
BATCH = 25
N_POOL = 2_000
N_TEST = 1_500
N_SEEDS = 10
MIN_SEEDS = 5
"""A cell with fewer is not tested."""
PATIENCE = 2


def main() -> int:
    files = FOLDER / "record.jsonl", FOLDER / "README.md"
    options = {"sets": ",".join(SETS + HELD_OUT), "strategies": ",".join(SINGLE + CANDIDATES)}
    return study(__doc__ or "", *files, runs, page, seeds=N_SEEDS, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    sets = options.sets.split(",")
    for seed, name, arm in product(range(options.seeds), sets, options.strategies.split(",")):
        yield (name, arm, seed), partial(measured, name, arm, seed)


def measured(name: str, arm: str, seed: int) -> Record:
    """Test error and log loss at each budget, and the strategy of each batch."""
    X, y, n_classes = load(name)
    order = np.random.default_rng([seed, 49]).permutation(len(X))
    n_pool = min(N_POOL, 2 * len(X) // 3)
    pool = order[:n_pool]
    test = order[n_pool : n_pool + N_TEST]
    rule = RULES.get(arm, lambda n_labels, losses: arm)
    current = arm if arm in SINGLE else "parbals-epig"
    learner = _learner(X[pool], n_classes, current, seed)
    record: Record = {"strategies": []}
    losses: list[float] = []
    first_batch: np.ndarray | None = None
    while (n_labels := len(learner.labelled)) < BUDGETS[-1]:
        strategy = rule(n_labels, losses)
        if strategy != current:
            current = strategy
            labelled = learner.labelled
            learner = _learner(X[pool], n_classes, strategy, seed)
            if len(labelled):
                learner.tell(labelled, y[pool][labelled].tolist())
        batch = learner.ask(BATCH)
        learner.tell(batch, y[pool][batch].tolist())
        first_batch = batch if first_batch is None else first_batch
        record["strategies"].append(strategy)
        if arm == "loss":
            losses.append(_leave_one_out_loss(learner, first_batch))
        if len(learner.labelled) in BUDGETS:
            probs = learner.predict_proba(X[test])
            true_probs = np.maximum(probs[np.arange(len(test)), y[test]], 1e-12)
            record[str(len(learner.labelled))] = {
                "error": round(float((probs.argmax(axis=1) != y[test]).mean()), 6),
                "log_loss": round(float(-np.log(true_probs).mean()), 6),
            }
    return record


def _learner(rows: np.ndarray, n_classes: int, strategy: str, seed: int) -> Any:
    from parbals import ActiveLearner

    return ActiveLearner(rows, list(range(n_classes)), strategy=strategy, random_state=seed)


def _leave_one_out_loss(learner: Any, items: np.ndarray) -> float:
    """Mean log loss of the labels of these items under models that lack each of them."""
    state = learner.state
    training = state.training_labels
    rows, probs = state.out_of_sample_predictions(learner.fitted(), training)
    labels = np.asarray(training.labels)[rows]
    true_probs = np.maximum(probs[np.arange(len(rows)), labels], 1e-12)
    return float(-np.log(true_probs[np.isin(training.positions[rows], items)]).mean())


def _two_kmeans(n_labels: int, losses: list[float]) -> str:
    return "kmeans" if n_labels < 2 * BATCH else "parbals-epig"


def _late(n_labels: int, losses: list[float]) -> str:
    return "parbals-epig" if n_labels < BUDGETS[1] else "margin"


def _loss(n_labels: int, losses: list[float]) -> str:
    """Margin, once the loss has not fallen below its minimum for so many batches."""
    for end in range(PATIENCE + 1, len(losses) + 1):
        if min(losses[end - PATIENCE : end]) >= min(losses[: end - PATIENCE]):
            return "margin"
    return "parbals-epig"


RULES: dict[str, Callable[[int, list[float]], str]] = {
    "two-kmeans": _two_kmeans,
    "late": _late,
    "loss": _loss,
}
Errors = dict[tuple[str, str, int], Record]


def page(records: list[Record]) -> Iterator[str]:
    by_run: Errors = {tuple(record["run"]): record for record in records}
    yield "# Would a strategy that changes its rule be safe?"
    yield from ("", "Written by `python studies strategies.auto`; do not edit.", "")
    verdicts = {candidate: _verdict(by_run, candidate) for candidate in CANDIDATES}
    for candidate, verdict in verdicts.items():
        yield _sentence(by_run, candidate, verdict)
    yield ""
    yield (
        "Labels in batches of 25 from 2,000 rows; every strategy's first batch is k-means'. "
        "Candidates: *two-kmeans*, two batches by k-means, then ParBaLS EPIG; *late*, ParBaLS EPIG "
        "up to 100 labels, then Margin; *loss*, ParBaLS EPIG until the leave-one-out log loss of "
        "the first batch has not fallen for two batches, then Margin. Test errors in %, means over "
        "the seeds that every strategy has been run with, the lowest single strategy in italics; "
        "then the candidate's error less that of the best single strategy of the cell. That "
        "flatters the single strategies, since the best is picked by the same runs. Cells are "
        f"tested only with {MIN_SEEDS} seeds or more: one-sided paired t-tests, bold where p < "
        "0.05 with Holm's correction for all cells of a candidate. Sets that no rule was changed "
        f"for: {', '.join(HELD_OUT)}."
    )
    for budget in BUDGETS:
        yield from ("", f"## {budget} labels", "")
        arms = SINGLE + CANDIDATES
        behind = " | ".join(f"{candidate} behind" for candidate in CANDIDATES)
        yield f"| | seeds | {' | '.join(TITLES[arm] for arm in arms)} | {behind} |"
        yield "| --- |" + " ---: |" * (1 + len(arms) + len(CANDIDATES))
        for name in SETS + HELD_OUT:
            yield _row(by_run, name, str(budget), verdicts)


Verdict = dict[tuple[str, str], tuple[np.ndarray, float]]
"""By set and budget: differences from the best single strategy, and the corrected p."""


def _verdict(by_run: Errors, candidate: str) -> Verdict:
    gaps = {}
    for name, budget in product(SETS + HELD_OUT, map(str, BUDGETS)):
        if seeds := _seeds(by_run, name):
            errors = {arm: _errors(by_run, name, arm, budget, seeds) for arm in SINGLE}
            best = min(SINGLE, key=lambda arm: errors[arm].mean())
            gaps[name, budget] = _errors(by_run, name, candidate, budget, seeds) - errors[best]
    tested = {key: _one_sided(gap) for key, gap in gaps.items() if len(gap) >= MIN_SEEDS}
    p_values = holm(tested) if tested else {}
    return {key: (gap, p_values.get(key, 1.0)) for key, gap in gaps.items()}


def _one_sided(gaps: np.ndarray) -> float:
    """The p of a paired t-test against: not behind."""
    mean, error, p = paired(gaps)
    if not error > 0.0:
        return 1.0
    return p / 2 if mean > 0 else 1.0 - p / 2


def _sentence(by_run: Errors, candidate: str, verdict: Verdict) -> str:
    """The candidate against single strategies: mean of the budgets, over sets and seeds."""
    differences = []
    n_runs = 0
    for single in ("parbals-epig", "margin"):
        gaps = []
        for name in SETS + HELD_OUT:
            seeds = _seeds(by_run, name)
            by_budget = [
                _errors(by_run, name, candidate, str(budget), seeds)
                - _errors(by_run, name, single, str(budget), seeds)
                for budget in BUDGETS
            ]
            gaps.append(np.mean(by_budget, axis=0))
        values = np.concatenate(gaps)
        n_runs = len(values)
        mean, error, _ = paired(values)
        differences.append(f"less {TITLES[single]} {mean:+.2f} ± {error:.2f}")
    n_tested = sum(len(gap) >= MIN_SEEDS for gap, _ in verdict.values())
    n_behind = sum(p < 0.05 for _, p in verdict.values())
    cells = f"no cell has the {MIN_SEEDS} seeds that a test of it needs"
    if n_tested:
        cells = f"behind the best single strategy by more than noise in {n_behind} of {n_tested}"
        cells += f" cells with {MIN_SEEDS} seeds or more"
    return (
        f"* **{candidate}**: error {', '.join(differences)} points, mean of the three budgets, "
        f"{n_runs} runs; {cells}."
    )


def _row(by_run: Errors, name: str, budget: str, verdicts: dict[str, Verdict]) -> str:
    seeds = _seeds(by_run, name)
    if not seeds:
        return f"| {name} | 0 |" + " |" * (len(SINGLE) + 2 * len(CANDIDATES))
    means = {arm: _errors(by_run, name, arm, budget, seeds).mean() for arm in SINGLE + CANDIDATES}
    best = min(SINGLE, key=lambda arm: means[arm])
    cells = [f"*{means[arm]:.2f}*" if arm == best else f"{means[arm]:.2f}" for arm in means]
    for verdict in verdicts.values():
        gap, p = verdict.get((name, budget), (np.zeros(1), 1.0))
        star = "**" if p < 0.05 else ""
        cells.append(f"{star}{gap.mean():+.2f}{star}")
    return f"| {name} | {len(seeds)} | {' | '.join(cells)} |"


def _seeds(by_run: Errors, name: str) -> list[int]:
    """Seeds that every strategy has been run with."""
    seeds = sorted({seed for set_name, _, seed in by_run if set_name == name})
    arms = SINGLE + CANDIDATES
    return [seed for seed in seeds if all((name, arm, seed) in by_run for arm in arms)]


def _errors(by_run: Errors, name: str, arm: str, budget: str, seeds: list[int]) -> np.ndarray:
    return np.array([100.0 * by_run[name, arm, seed][budget]["error"] for seed in seeds])
