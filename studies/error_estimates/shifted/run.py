"""Do intervals of the expected error hold on target sets that differ from the pool?

    python studies error_estimates.shifted --data FOLDER --workers 14  # run what is missing
    python studies error_estimates.shifted --tables  # write README.md from the record
    python studies error_estimates.shifted --pack ROWS  # one file a set, for a machine without them

Ten shifts of real data, none of which any constant was learnt on: the target set is one kind of
item, of which the pool has a twentieth; or has other class shares than the pool. The learner knows
300 target rows without labels. 50 labels begin, 20 at a time follow. At 110 and 250 labels a line
notes the report's expected error, and the real one on other target rows.
"""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lib.records import Record, Todo, study
from lib.rows import load

HERE = Path(__file__).parent
SIZES = (110, 250)
FIRST = 50
BATCH = 20
N_POOL = 2_000
N_TARGET = 300
N_TEST = 3_000
TARGET_SHARE = 0.05
"""Share of the pool that is of the target's kind, where the target is one kind of item."""
PRIOR_SHARE = 0.7
"""Share of the first class in target sets with other class shares."""
STRATEGIES = ("random", "margin", "parbals-epig")
KINDS = (
    "airline-travel",
    "airline-class",
    "airline-age",
    "credit-card-amount",
    "ag-news-agency",
    "digits-ink",
    "digits-slant",
)
PRIORS = ("airline-prior", "ag-news-prior", "cifar10-prior")
DATA = (*KINDS, *PRIORS)
LOG_T_OFFSETS = np.linspace(-2.0, 2.0, 33)


class Kinds(NamedTuple):
    """Rows (N, D), class numbers (N,), and whether each row is of the target's kind (N,)."""

    X: np.ndarray
    y: np.ndarray
    is_target: np.ndarray


class Split(NamedTuple):
    """Positions of the pool, the target set and the test rows, which are like the target set."""

    pool: np.ndarray
    target: np.ndarray
    test: np.ndarray


def main() -> int:
    options = {"only": ",".join(DATA), "pack": ""}
    records = HERE / "record.jsonl.xz"
    return study(__doc__, records, HERE / "README.md", runs, page, seeds=10, options=options)


def runs(given: Namespace) -> Iterator[Todo]:
    """Every run: dataset, strategy and seed."""
    if given.pack:
        pack(Path(given.pack))
        return
    for seed, name, strategy in product(range(given.seeds), given.only.split(","), STRATEGIES):
        key = (name, strategy, seed)
        yield key, partial(one_run, *key)


def pack(folder: Path) -> None:
    """Write the rows of every dataset, in half precision."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DATA:
        X, y, is_target = kinds(name)
        halves = X.astype(np.float16)
        np.savez_compressed(folder / f"{name}.npz", X=halves, y=y, is_target=is_target)


@cache
def kinds(name: str) -> Kinds:
    """Rows of a dataset, and which of them are of the target's kind."""
    file = _folder() / f"{name}.npz"
    if file.exists():
        with np.load(file) as stored:
            return Kinds(stored["X"].astype(np.float32), stored["y"], stored["is_target"])
    if name.startswith("airline-"):
        return _airline(name)
    if name == "credit-card-amount":
        X, y, _ = load("credit-card")
        return Kinds(X, y, X[:, 2] > np.quantile(X[:, 2], 0.8))
    if name == "ag-news-agency":
        return _news()
    if name.startswith("digits-"):
        return _digits(name)
    X, y, _ = load(f"{name.removesuffix('-prior')}:*")
    return Kinds(X, y, y == 0)


def _airline(name: str) -> Kinds:
    """Passengers and their satisfaction; the target is private travel, Eco Plus or 58 and older."""
    import pandas as pd

    frame = pd.read_csv(_folder() / "airline" / "train.csv.gz").dropna()
    frame = frame.drop(columns=["Unnamed: 0", "id"]).sample(40_000, random_state=0)
    is_satisfied = frame.pop("satisfaction") == "satisfied"
    is_target = {
        "airline-travel": frame["Type of Travel"] == "Personal Travel",
        "airline-class": frame["Class"] == "Eco Plus",
        "airline-age": frame["Age"] >= 58,
        "airline-prior": is_satisfied,
    }[name]
    columns = pd.get_dummies(frame, dtype=float)
    rows = ((columns - columns.mean()) / columns.std()).to_numpy(np.float32)
    rows = rows.astype(np.float16).astype(np.float32)  # as packed
    return Kinds(rows, is_satisfied.to_numpy(np.int64), is_target.to_numpy())


def _news() -> Kinds:
    """News, whose text names an agency or does not."""
    import pandas as pd

    folder = _folder() / "ag_news"
    frame = pd.read_parquet(folder / "train_subset.parquet")
    rows = np.load(next(folder.glob("minilm_l6_v2_train*_f16.npy"))).astype(np.float32)
    is_target = frame["text"].str.contains(r"Reuters|\bAP\b").to_numpy()
    return Kinds(rows, frame["label"].to_numpy(np.int64), is_target)


def _digits(name: str) -> Kinds:
    """Digits in pixels; the target is the quarter with the most ink, or the most slanted one."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    style = X.sum(axis=1)
    if name == "digits-slant":
        style = _slants(X.reshape(-1, 8, 8))
    medians = np.array([np.median(style[y == digit]) for digit in range(10)])
    style = style - medians[y]  # a style, not a class
    return Kinds((X / 16.0).astype(np.float32), y, style > np.quantile(style, 0.75))


def _slants(images: np.ndarray) -> np.ndarray:
    """Slope of the ink's column on its row, for images (N, 8, 8)."""
    ink = images / images.sum(axis=(1, 2), keepdims=True)
    row, column = np.meshgrid(np.arange(8.0), np.arange(8.0), indexing="ij")
    row_mean = (ink * row).sum(axis=(1, 2), keepdims=True)
    column_mean = (ink * column).sum(axis=(1, 2), keepdims=True)
    covariance = (ink * (row - row_mean) * (column - column_mean)).sum(axis=(1, 2))
    return covariance / (ink * np.square(row - row_mean)).sum(axis=(1, 2))


def _folder() -> Path:
    return Path(os.environ.get("PARBALS_DATA", "."))


def split(name: str, seed: int) -> Split:
    """Divide a dataset: the pool has few rows of the target's kind, or other class shares."""
    _, _, is_target = kinds(name)
    generator = np.random.default_rng(2_000 + seed)
    like = generator.permutation(np.flatnonzero(is_target))
    unlike = generator.permutation(np.flatnonzero(~is_target))
    if name in PRIORS:
        n_target = N_TARGET + min(N_TEST, len(like) // 2)
        n_like = int(PRIOR_SHARE * n_target)
        shifted = generator.permutation(np.append(like[:n_like], unlike[: n_target - n_like]))
        rest = np.append(like[n_like:], unlike[n_target - n_like :])
        pool = generator.permutation(rest)[:N_POOL]
        return Split(pool, shifted[:N_TARGET], shifted[N_TARGET:])
    n_pool = min(N_POOL, len(unlike))
    n_like = int(TARGET_SHARE * n_pool)
    pool = generator.permutation(np.append(unlike[: n_pool - n_like], like[:n_like]))
    rest = like[n_like:]
    n_target = min(N_TARGET, len(rest) // 2)
    return Split(pool, rest[:n_target], rest[n_target:][:N_TEST])


def one_run(name: str, strategy: str, seed: int) -> dict[str, Any]:
    """A row for each number of labels."""
    import parbals

    X, y, _ = kinds(name)
    pool, target, test = split(name, seed)
    learner = parbals.ActiveLearner(
        X[pool],
        range(int(y.max()) + 1),
        X_target=X[target],
        strategy=strategy,
        random_state=seed,
    )
    rows = []
    for size in range(FIRST, SIZES[-1] + 1, BATCH):
        items = learner.ask(size - len(learner.labelled))
        learner.tell(items, y[pool[items]])
        if size in SIZES:
            rows.append({"labels": size} | _compare(learner, X[test], y[test]))
    return {"rows": rows}


def _compare(learner: Any, X_test: np.ndarray, y_test: np.ndarray) -> dict[str, Any]:
    """The report's expected error, the real one, and the expected ones at other temperatures."""
    from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled
    from parbals.learner.reporting import audit_predictions, label_misfit
    from parbals.learner.setup import mean_proba

    state = learner.state
    model = learner.fitted()
    probs = mean_proba(model, state.target_rows())
    temperature = fit_temperature(
        state.cross_validated_predictions(model),
        audit_predictions(state, model),
        misfit=label_misfit(state.setup),
    )
    curve = []
    for offset in LOG_T_OFFSETS:
        scaled = temperature_scaled(probs, temperature.value * np.exp(offset))
        curve.append(round(float(1.0 - scaled.max(axis=1).mean()), 5))
    report = learner.report(1)
    test_probs = learner.predict_proba(X_test)
    n_classes = test_probs.shape[1]
    error = report.expected_error
    return {
        "real": float(np.mean(test_probs.argmax(axis=1) != y_test)),
        "error": [error.mean, error.low, error.high],
        "auc": state.setup.shift_auc,
        "curve": curve,
        "log_sd": temperature.log_sd,
        "predicted_shares": test_probs.mean(axis=0).round(4).tolist(),
        "shares": (np.bincount(y_test, minlength=n_classes) / len(y_test)).round(4).tolist(),
    }


# -- the page


def page(records: list[Record]) -> Iterable[str]:
    """README.md."""
    yield "# Do intervals hold on target sets that differ from the pool?"
    yield ""
    yield (
        f"Written by `python studies error_estimates.shifted`; do not edit. {len(records)} runs, "
        "of which sets that are missing below have none yet. "
        "*Kind*: the target set is one kind of item, of which the pool has a twentieth. *Prior*: "
        "the first class has 70 % of the target set. *AUC* of a classifier that tells "
        "target rows from pool rows. *Bias* and *MAE*: mean and mean absolute value of expected - "
        "real error, in percentage points. *Coverage* of the 90 % interval, with its Monte-Carlo "
        "error. *Width* of the interval, in points."
    )
    for size in SIZES:
        yield ""
        yield f"## {size} labels"
        yield ""
        yield "| target set | labelled by | AUC | error, % | bias | MAE | coverage | width |"
        yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        for group, names in (("kind", KINDS), ("prior", PRIORS)):
            for strategy in STRATEGIES:
                for name in names:
                    yield from _line(records, (name,), strategy, size, name)
                yield from _line(records, names, strategy, size, f"**all of {group}**")


def _line(
    records: list[Record], names: tuple[str, ...], strategy: str, size: int, title: str
) -> Iterator[str]:
    """A line of the table: means over runs."""
    cells = []
    for record in records:
        if record["run"][0] in names and record["run"][1] == strategy:
            for row in record["rows"]:
                if row["labels"] == size:
                    mean, low, high = row["error"]
                    real = row["real"]
                    is_inside = low <= real <= high
                    bias = mean - real
                    cells.append([row["auc"], real, bias, abs(bias), is_inside, high - low])
    if cells:
        auc, real, bias, distance, coverage, width = np.mean(cells, axis=0)
        standard_error = np.sqrt(coverage * (1.0 - coverage) / len(cells))
        yield (
            f"| {title} | {strategy} | {auc:.2f} | {100 * real:.1f} | {100 * bias:+.1f} "
            f"| {100 * distance:.1f} | {coverage:.2f} ± {standard_error:.2f} | {100 * width:.1f} |"
        )
