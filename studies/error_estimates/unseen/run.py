"""Do expected errors hold on datasets that took no part in learning their constants?

    python studies error_estimates.unseen --data FOLDER --workers 14  # run what is missing
    python studies error_estimates.unseen --tables  # write README.md from the record

Twelve datasets, none of which ``error_estimates.expected`` has. 50 labels begin, 20 at a time
follow. At 110 and 250 labels a line notes what the report expects of the error, the log loss and
balanced accuracy, and what items say that the learner has never seen. *Mild* and *strong*: the
target set lies to one side of the pool along a random mixture of five principal directions.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lib.records import Record, Todo, study
from lib.rows import _passengers, _rows, load

HERE = Path(__file__).parent
SIZES = (110, 250)
FIRST = 50
BATCH = 20
N_POOL = 2_000
N_TEST = 4_000
N_BESIDE = 60
STRATEGIES = ("random", "parbals-epig", "badge", "margin")
SHIFTED_STRATEGIES = ("random", "parbals-epig")
DEVIATIONS_ABOVE = (0.16, 0.2, 0.24, 0.28, 0.32)
"""Deviations of ln T above T that intervals of selected labels might have instead."""
SHIFTS = {"none": 0.0, "mild": 1.0, "strong": 2.5}
PASSENGERS = {
    "airline-wifi": "Inflight wifi service",
    "airline-seat": "Seat comfort",
    "airline-loyal": "Customer Type",
}
ONE_AGAINST_REST = {
    "cifar10-cat": "cifar10:3",
    "ag-news-business": "ag-news:2",
    "ag-news-sport": "ag-news:1",
}
DATA = (
    *ONE_AGAINST_REST,
    "cifar10-animals",
    "cifar10-four",
    *PASSENGERS,
    "digits-high",
    "rings",
    "mixture",
    "rare",
)
ANIMALS = [2, 3, 4, 5, 6, 7]


class Split(NamedTuple):
    """Rows, class numbers, and positions of the pool, the targets (or None) and the test items."""

    X: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    target: np.ndarray | None
    test: np.ndarray


def main() -> int:
    options = {"only": ",".join(DATA)}
    records = HERE / "record.jsonl.xz"
    return study(__doc__, records, HERE / "README.md", runs, page, seeds=8, options=options)


def runs(given: Namespace) -> Iterator[Todo]:
    """Every run: dataset, strategy, seed and shift."""
    for seed, name, strategy, shift in product(
        range(given.seeds), given.only.split(","), STRATEGIES, SHIFTS
    ):
        is_needed = shift == "none" or (strategy in SHIFTED_STRATEGIES and seed < 5)
        if is_needed and (shift, strategy) != ("mild", "parbals-epig"):
            key = (name, strategy, seed, shift)
            yield key, partial(one_run, *key)


def dataset(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, D) and class numbers (N,)."""
    generator = np.random.default_rng(11)
    if name in ONE_AGAINST_REST:
        X, y, _ = load(ONE_AGAINST_REST[name])
    elif name in PASSENGERS:
        X, y = _passengers(PASSENGERS[name])
    elif name == "cifar10-animals":
        X, y = _rows("cifar10")
        y = np.isin(y, ANIMALS)
    elif name == "cifar10-four":  # bird, cat, deer, dog
        X, y = _rows("cifar10")
        is_used = np.isin(y, ANIMALS[:4])
        X = X[is_used]
        y = y[is_used] - 2
    elif name == "digits-high":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = X / 16.0
        y = y >= 5
    elif name == "rings":  # a truth that no line fits
        X = generator.standard_normal((6_000, 8))
        radius = np.square(X[:, :3]).sum(axis=1) + X[:, 3]
        y = radius + 0.5 * generator.standard_normal(len(X)) > 2.5
    elif name == "mixture":  # three clusters in each of five classes
        y = generator.integers(0, 5, 6_000)
        centres = 1.3 * generator.standard_normal((5, 3, 12))
        X = centres[y, generator.integers(0, 3, len(y))] + generator.standard_normal((len(y), 12))
    else:  # "rare": few positives
        X = generator.standard_normal((6_000, 30))
        y = X[:, :6].sum(axis=1) - 4.5 + generator.logistic(size=len(X)) > 0
    return X.astype(np.float32), y.astype(np.int64)


def split(name: str, seed: int, shift: str) -> Split:
    """Divide a dataset at random, or so that the targets lie to one side of the pool."""
    X, y = dataset(name)
    generator = np.random.default_rng(1_000 + seed)
    order = generator.permutation(len(X))
    if shift == "none":
        n_pool = min(N_POOL, 7 * len(X) // 10)
        return Split(X, y, order[:n_pool], None, order[n_pool:][:N_TEST])
    centred = X[order].astype(np.float64)
    centred -= centred.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    coordinates = centred @ directions[:, -5:]
    side = (coordinates / coordinates.std(axis=0)) @ generator.standard_normal(5)
    side = SHIFTS[shift] * side / side.std() + generator.logistic(size=len(side))
    ranking = np.argsort(-side)
    n_shifted = min(3_000, len(ranking) // 3)
    shifted = generator.permutation(ranking[:n_shifted])
    pool = generator.permutation(ranking[n_shifted:])[:N_POOL]
    n_target = n_shifted // 3
    return Split(X, y, order[pool], order[shifted[:n_target]], order[shifted[n_target:]])


def one_run(name: str, strategy: str, seed: int, shift: str) -> dict[str, Any]:
    """A row for each number of labels."""
    import parbals

    X, y, pool, target, test = split(name, seed, shift)
    learner = parbals.ActiveLearner(
        X[pool],
        range(int(y.max()) + 1),
        X_target=None if target is None else X[target],
        strategy=strategy,
        random_state=seed,
    )
    rows = []
    for size in range(FIRST, min(SIZES[-1], len(pool) // 2) + 1, BATCH):
        items = learner.ask(size - len(learner.labelled))
        learner.tell(items, y[pool[items]])
        if size in SIZES:
            rows.append({"labels": size} | _compare(learner, X[test], y[test], y[pool], seed))
    return {"rows": rows}


def _compare(
    learner: Any, X_test: np.ndarray, y_test: np.ndarray, y_pool: np.ndarray, seed: int
) -> dict[str, Any]:
    """What the report expects, and what the test items say."""
    from parbals.arrays import mean_prediction
    from parbals.learner.evaluation.expectation import (
        Misfit,
        expected_error_and_log_loss,
        fit_temperature,
        sample_labellings,
    )
    from parbals.learner.evaluation.metric import metric_values
    from parbals.learner.reporting import label_misfit

    state = learner.state
    setup = state.setup
    model = learner.fitted()
    samples = model.sample_proba(state.target_rows())
    expected = mean_prediction(samples, np.asarray(model.sample_weights))
    left_out = state.cross_validated_predictions(model)
    free = np.setdiff1d(np.arange(len(y_pool)), learner.labelled)
    beside = np.random.default_rng(seed).permutation(free)[:N_BESIDE]
    sample = (setup.predictions(model, beside), y_pool[beside])
    no_sample = (sample[0][:0], sample[1][:0])
    probs = learner.predict_proba(X_test)
    decisions = probs.argmax(axis=1)
    label_probs = np.maximum(probs[np.arange(len(y_test)), y_test], 1e-300)
    balanced = metric_values("balanced-accuracy", decisions, y_test[None], learner.classes)
    real = [np.mean(decisions != y_test), -np.log(label_probs).mean(), balanced[0]]
    row: dict[str, Any] = {"real": [float(value) for value in real], "auc": setup.shift_auc}
    misfit = label_misfit(setup)

    def expect(random_sample: Any, misfit: Misfit) -> tuple[Any, Any, Any]:
        """Fit the temperature, and expect the error and the log loss."""
        temperature = fit_temperature(
            left_out, random_sample, misfit=misfit, shift_auc=setup.shift_auc
        )
        generator = np.random.default_rng(seed)
        error, log_loss = expected_error_and_log_loss(
            expected, generator, temperature, n_targets=setup.n_rows_of_target
        )
        return temperature, error, log_loss

    if misfit.above and setup.target is None:
        errors = [expect(no_sample, misfit._replace(above=sd))[1] for sd in DEVIATIONS_ABOVE]
        row["above"] = [[error.mean, error.low, error.high] for error in errors]
    for way, random_sample in (("now", no_sample), ("with 60", sample)):
        temperature, error, log_loss = expect(random_sample, misfit)
        labels = sample_labellings(expected, np.random.default_rng(seed), temperature)
        values = metric_values(
            "balanced-accuracy", expected.argmax(axis=1), labels, learner.classes
        )
        low, high = np.quantile(values, [0.05, 0.95]).tolist()
        row[way] = [
            [error.mean, error.low, error.high],
            [log_loss.mean, log_loss.low, log_loss.high],
            [float(values.mean()), low, high],
        ]
    return row


# -- the page


def page(records: list[Record]) -> Iterable[str]:
    """README.md."""
    yield "# Do expected errors hold on datasets that nothing was tuned on?"
    yield ""
    yield (
        f"Written by `python studies error_estimates.unseen`; do not edit. {len(records)} runs on "
        f"{len({record['run'][0] for record in records})} datasets: {', '.join(DATA)}. *Bias* and "
        "*MAE*: mean and mean absolute value of expected - true, in percentage points (log loss: "
        "hundredths of a nat). *Coverage* of the 90 % interval with its Monte-Carlo error, and "
        "that of the worst dataset. *Width* of the interval. *With 60*: sixty random labels in "
        "addition."
    )
    yield ""
    if not _has_deviations(records):
        yield (
            "These runs have a deviation of 0.28 on both sides of T where labels are selected, "
            "with which intervals are wider than those in use: see [the constants of the interval]"
            "(../README.md#the-constants-of-the-interval)."
        )
        yield ""
    for shift, title in (
        ("none", "The pool is the target"),
        ("mild", "A target set slightly to one side"),
        ("strong", "A target set far to one side"),
    ):
        yield f"## {title}"
        yield ""
        yield "| labelled by | labels | expected | bias | MAE | coverage | worst | width |"
        yield "| --- | ---: | --- | ---: | ---: | ---: | --- | ---: |"
        for strategy, size in product(STRATEGIES, SIZES):
            chosen = [r for r in records if r["run"][1] == strategy and r["run"][3] == shift]
            if chosen:
                yield _line(chosen, size, "now", 0, "error")
                yield _line(chosen, size, "with 60", 0, "error, with 60")
                yield _line(chosen, size, "now", 1, "log loss")
                yield _line(chosen, size, "now", 2, "balanced accuracy")
        yield ""
    if _has_deviations(records):
        yield from _trade_off(records)


def _has_deviations(records: list[Record]) -> bool:
    """Return whether runs note intervals with other deviations above T."""
    return any("above" in row for record in records for row in record["rows"])


def _trade_off(records: list[Record]) -> Iterator[str]:
    """Width against coverage, for other deviations of ln T above T."""
    yield "## How narrow could intervals of selected labels be?"
    yield ""
    yield (
        "Coverage and width of the expected error's interval with other standard deviations of "
        "ln T above T (`Misfit.above` in `expectation.py`; what is in use is in the first table)."
    )
    yield ""
    yield "| labelled by | labels | deviation | coverage | without rings | worst | width |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
    for strategy, size in product(STRATEGIES, SIZES):
        sessions = [r for r in records if r["run"][1] == strategy and r["run"][3] == "none"]
        for number, deviation in enumerate(DEVIATIONS_ABOVE):
            means = _dataset_means(sessions, size, "above", number)
            if not means:
                continue
            _, _, coverage, width = np.mean(list(means.values()), axis=0)
            others = [values[2] for name, values in means.items() if name != "rings"]
            worst = min(means, key=lambda name: float(means[name][2]))
            yield (
                f"| {strategy} | {size} | {deviation} | {coverage:.2f} | {np.mean(others):.2f} "
                f"| {means[worst][2]:.2f} ({worst}) | {100 * width:.1f} |"
            )


def _dataset_means(records: list[Record], size: int, way: str, which: int) -> dict[str, np.ndarray]:
    """Of each dataset: means (4,) of bias, absolute error, coverage and width."""
    by_dataset: dict[str, list[list[float]]] = {}
    for record in records:
        for row in record["rows"]:
            if row["labels"] == size and way in row:
                mean, low, high = row[way][which]
                real = row["real"][0 if way == "above" else which]
                cells = [mean - real, abs(mean - real), low <= real <= high, high - low]
                by_dataset.setdefault(record["run"][0], []).append(cells)
    return {name: np.mean(cells, axis=0) for name, cells in by_dataset.items()}


def _line(records: list[Record], size: int, way: str, which: int, title: str) -> str:
    """A line of the table: means over datasets of means over their runs."""
    means = _dataset_means(records, size, way, which)
    n_runs = sum(row["labels"] == size for record in records for row in record["rows"])
    bias, error, coverage, width = np.mean(list(means.values()), axis=0)
    standard_error = np.sqrt(coverage * (1.0 - coverage) / n_runs)
    worst = min(means, key=lambda name: float(means[name][2]))
    return (
        f"| {records[0]['run'][1]} | {size} | {title} | {100 * bias:+.1f} | {100 * error:.1f} "
        f"| {coverage:.2f} ± {standard_error:.2f} | {means[worst][2]:.2f} ({worst}) "
        f"| {100 * width:.1f} |"
    )
