"""How do batches for regression, multi-label and ordinal tasks compare with other strategies?

    python studies tasks --data FOLDER  # run what is missing, write README.md
    python studies tasks --seeds 1      # fewer runs
    python studies tasks --tables       # write README.md from the records

Everybody begins with the same ten random labels and asks for ten at a time (twenty, of several
labels). However items were chosen, the same model learns from them: ours.

LCMD (largest cluster, maximum distance) is written here from its definition in Holzmüller,
Zaverkin, Kästner and Steinwart, "A Framework and Benchmark for Deep Batch Active Learning for
Regression", JMLR 24 (2023): labelled rows are centres, every row belongs to its nearest one, and
the next centre is the farthest row of the cluster with the largest sum of squared distances.
Distances are those of the linear kernel, which a linear model's gradients have (its "TP"), or of
the posterior's covariance. Greedy sampling and regression trees are scikit-activeml's.
"""

import os
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.gaussian import covariance_between
from lib.records import Record, Todo, study
from sklearn import datasets

FOLDER = Path(__file__).parent
N_POOL = 600
N_TEST = 600
FIRST = 10
N_FOURIER = 100
SIZES = {"numbers": (20, 50, 100), "labels": (50, 100, 200), "ranks": (20, 50, 100)}
BATCH = {"numbers": 10, "labels": 20, "ranks": 10}
WAYS = {
    "numbers": (
        "random",
        "parbals-epig",
        "LCMD",
        "LCMD, posterior",
        "GreedySamplingTarget",
        "RegressionTreeBasedAL",
    ),
    "labels": ("random", "parbals-epig", "entropy", "confidence"),
    "ranks": ("random", "parbals-epig", "five classes"),
}
TITLES = {
    "random": "random",
    "parbals-epig": "parbals",
    "entropy": "mean entropy",
    "confidence": "least confidence",
    "GreedySamplingTarget": "greedy sampling",
    "RegressionTreeBasedAL": "regression trees",
    "five classes": "parbals, five classes",
}
Sets = dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]]


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", FOLDER / "README.md", runs, page), seeds=10, options={}
    )


def runs(options: Namespace) -> Iterator[Todo]:
    for kind, sets in SETS.items():
        for name, seed, way in product(sets, range(options.seeds), WAYS[kind]):
            yield (kind, name, way, seed), partial(measured, kind, name, way, seed)


# -- data


def _folder(name: str) -> Path:
    return Path(os.environ["PARBALS_DATA"], name)


def _linear(
    n_informative: int, n_columns: int, noise: float, **options: Any
) -> Callable[[int], Any]:
    def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
        data: tuple[np.ndarray, np.ndarray] = datasets.make_regression(
            N_POOL + N_TEST,
            n_columns,
            n_informative=n_informative,
            noise=noise,
            random_state=seed,
            **options,
        )
        return data

    return draw


def _heavy(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = _linear(5, 10, 0.0)(seed)
    return X, y / y.std() + 0.3 * np.random.default_rng(seed).standard_t(2, len(y))


def _waves(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Crowds of unequal size; the function bends everywhere."""
    generator = np.random.default_rng(seed)
    crowds = generator.choice(8, N_POOL + N_TEST, p=2.0 ** -np.arange(1, 9) / (1 - 2.0**-8))
    X = 3.0 * generator.standard_normal((8, 2))[crowds]
    X += 0.7 * generator.standard_normal(X.shape)
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.1 * generator.standard_normal(len(X))


def _cancer(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = datasets.load_breast_cancer().data
    return X[:, :20], X[:, 27]  # how concave the worst cells are, by means and errors


def _digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = datasets.load_digits().data
    return X[:, :32], X[:, 32:].sum(axis=1)  # ink of the lower half, by the upper one


@cache
def _airline() -> np.ndarray:
    import pandas as pd

    table = pd.read_csv(_folder("airline") / "train.csv.gz", index_col=0, nrows=20_000).dropna()
    return pd.get_dummies(table.drop(columns=["id"]), drop_first=True).astype(float)


def _boarding(seed: int) -> tuple[np.ndarray, np.ndarray]:
    table = _airline()
    return table.drop(columns=["Online boarding"]).to_numpy(), table["Online boarding"].to_numpy()


def _delay(seed: int) -> tuple[np.ndarray, np.ndarray]:
    table = _airline()
    late = [name for name in table if "Delay" in name]
    return table.drop(columns=late[1:]).to_numpy(), np.log1p(table[late[1]].to_numpy())


@cache
def _news() -> tuple[np.ndarray, np.ndarray, list[str]]:
    import pandas as pd

    folder = _folder("ag_news")
    X = np.load(folder / "minilm_l6_v2_test_f16.npy").astype(np.float64)
    X -= X.mean(axis=0)
    X = X @ np.linalg.svd(X.T @ X)[0][:, :64]
    table = pd.read_parquet(folder / "test.parquet")
    return X, table["label"].to_numpy(), table["text"].tolist()


def _length(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, _, texts = _news()
    return X, np.log([len(text) for text in texts])


def _several(n_labels: int, labels_per_item: int, n_columns: int) -> Callable[[int], Any]:
    def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
        data: tuple[np.ndarray, np.ndarray] = datasets.make_multilabel_classification(
            N_POOL + N_TEST,
            n_features=n_columns,
            n_classes=n_labels,
            n_labels=labels_per_item,
            random_state=seed,
        )
        return data

    return draw


def _strokes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.load_digits(return_X_y=True)
    loop = np.isin(y, [0, 6, 8, 9])
    straight = np.isin(y, [1, 4, 7])
    return X, np.stack([y % 2 == 1, y >= 5, loop, straight, np.isin(y, [2, 3, 5, 7])], axis=1)


def _kinds(seed: int) -> tuple[np.ndarray, np.ndarray]:
    folder = _folder("cifar10")
    X = np.load(folder / "efficientnet_lite0_r160_pca256_test_f16.npy").astype(np.float64)
    y = np.load(folder / "y_test.npy").astype(int)
    kinds = ([2, 3, 4, 5, 6, 7], [0, 2], [1, 9], [3, 5], [4, 7], [0, 8], [0, 1, 8, 9])
    return X[:, :64], np.stack([np.isin(y, classes) for classes in kinds], axis=1)


def _topics(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y, texts = _news()
    has_word = [[word in text for text in texts] for word in ("Reuters", "AP", "$")]
    long = np.array([len(text) for text in texts]) > 250
    return X, np.stack([*(y == c for c in range(4)), *np.array(has_word), long], axis=1)


def _ranked(draw: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> Callable[[int], Any]:
    """Numbers in five ranks, as many in each."""

    def ranked(seed: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = draw(seed)
        return X, np.searchsorted(np.quantile(y, [0.2, 0.4, 0.6, 0.8]), y)

    return ranked


def _rated(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = _boarding(seed)
    return X[y > 0], y[y > 0].astype(int) - 1


def _friedman(number: int) -> Callable[[int], Any]:
    def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
        noise = {1: 1.0, 2: 100.0, 3: 0.1}[number]
        make = getattr(datasets, f"make_friedman{number}")
        data: tuple[np.ndarray, np.ndarray] = make(N_POOL + N_TEST, noise=noise, random_state=seed)
        return data

    return draw


def _diabetes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    data: tuple[np.ndarray, np.ndarray] = datasets.load_diabetes(return_X_y=True)
    return data


SETS: dict[str, Sets] = {
    "numbers": {
        "diabetes": _diabetes,
        "Friedman 1": _friedman(1),
        "Friedman 2": _friedman(2),
        "Friedman 3": _friedman(3),
        "5 of 20 columns, noise": _linear(5, 20, 30.0),
        "low rank": _linear(20, 50, 2.0, effective_rank=8),
        "heavy tails": _heavy,
        "crowds and waves": _waves,
        "cancer: concave points": _cancer,
        "digits: ink below": _digits,
        "airline: boarding's rating": _boarding,
        "airline: log of delay": _delay,
        "news: log of length": _length,
    },
    "labels": {
        "5 made labels": _several(5, 2, 20),
        "10 made labels": _several(10, 3, 40),
        "5 rare made labels": _several(5, 1, 20),
        "digits: strokes": _strokes,
        "CIFAR-10: kinds": _kinds,
        "news: topics": _topics,
    },
    "ranks": {
        "diabetes": _ranked(_diabetes),
        "Friedman 1": _ranked(_friedman(1)),
        "Friedman 3": _ranked(_friedman(3)),
        "5 of 20 columns, noise": _ranked(_linear(5, 20, 30.0)),
        "digits: ink below": _ranked(_digits),
        "airline: boarding's rating": _rated,
    },
}


@lru_cache(maxsize=1)  # every way has the same data
def drawn(kind: str, name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows, labels, and how many of them are the pool; the rest is to test by.

    Columns have unit variance (embeddings: all together); of numbers they stand beside 100 cosines
    of random directions.
    """
    X, y = SETS[kind][name](seed)
    generator = np.random.default_rng(seed)
    sample = generator.permutation(len(X))[: N_POOL + N_TEST]
    X = X[sample]
    y = y[sample]
    deviation = X.std(axis=0)
    if name.startswith(("news", "CIFAR")):
        deviation[:] = np.sqrt(np.square(deviation).mean())
    X = (X[:, deviation > 0] - X[:, deviation > 0].mean(axis=0)) / deviation[deviation > 0]
    if kind == "numbers":
        directions = generator.standard_normal((X.shape[1], N_FOURIER)) / np.sqrt(X.shape[1])
        phases = generator.uniform(0.0, 2.0 * np.pi, N_FOURIER)
        X = np.hstack([X, np.sqrt(2.0) * np.cos(X @ directions + phases)])
    return X, y, min(N_POOL, 2 * len(X) // 3)


# -- ways


def _lcmd(rows: np.ndarray, labelled: np.ndarray, size: int) -> list[int]:
    """As above, for rows (N, d) whose plain distances count."""
    squares = np.full(len(rows), np.inf)
    nearest = np.zeros(len(rows), int)

    def centre(index: int) -> None:
        apart = np.square(rows - rows[index]).sum(axis=1)
        nearest[apart < squares] = index
        np.minimum(squares, apart, out=squares)

    for index in labelled.tolist():
        centre(index)
    squares[labelled] = 0.0
    batch = []
    for _ in range(size):
        largest = np.bincount(nearest, squares, minlength=len(rows)).argmax()
        batch.append(int(np.where(nearest == largest, squares, -1.0).argmax()))
        centre(batch[-1])
    return batch


def _theirs(way: str, X: np.ndarray, y: np.ndarray, labelled: np.ndarray, seed: int) -> list[int]:
    """scikit-activeml's, with its own defaults and the regressor that its documentation takes."""
    import skactiveml.pool
    from skactiveml.regressor import SklearnRegressor
    from sklearn.linear_model import BayesianRidge
    from sklearn.tree import DecisionTreeRegressor

    tree = way == "RegressionTreeBasedAL"
    model = (
        DecisionTreeRegressor(min_samples_leaf=3, random_state=seed) if tree else BayesianRidge()
    )
    partial_labels = np.full(len(X), np.nan)
    partial_labels[labelled] = y[labelled]
    strategy = getattr(skactiveml.pool, way)(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regressor = SklearnRegressor(model, random_state=seed)
        batch = strategy.query(X, partial_labels, regressor, batch_size=BATCH["numbers"])
    return [int(index) for index in np.ravel(batch)]


def measured(kind: str, name: str, way: str, seed: int) -> Record:
    """The error of new items after each number of labels (of several labels: 1 - micro-F1)."""
    from parbals import ActiveLearner

    X, y, n_pool = drawn(kind, name, seed)
    pool = X[:n_pool]
    test = X[n_pool:]
    classes = {"numbers": None, "labels": range(y.shape[-1]), "ranks": range(5)}[kind]
    task = {"numbers": "regression", "labels": "many-labels", "ranks": "ordinal"}[kind]
    task = "classes" if way == "five classes" else task
    metric = {"many-labels": "micro-f1", "ordinal": "rank-error"}.get(task)
    is_strategy = way in ("random", "parbals-epig", "entropy", "confidence")
    learner = ActiveLearner(
        *(pool, classes),
        task=task,
        metric=metric,
        strategy=way if is_strategy else "parbals-epig",
        random_state=seed,
    )
    learner.tell(np.arange(FIRST), y[:FIRST])
    errors = []
    while len(errors) < len(SIZES[kind]):
        size = min(BATCH[kind], SIZES[kind][len(errors)] - len(learner.labelled))
        if is_strategy or way == "five classes":
            items = learner.ask(size)
        elif way.startswith("LCMD"):
            rows = pool
            if way != "LCMD":
                latents = learner.fitted().gaussian.latents
                prepared = learner.setup.pool_rows(slice(None))
                unit = np.eye(prepared.shape[1] + 1)
                covariance = covariance_between(latents, unit, unit)[0]
                values, vectors = np.linalg.eigh(covariance)
                rows = prepared @ vectors[:-1]
                rows = rows * np.sqrt(np.maximum(values, 0.0))
            items = _lcmd(rows, learner.labelled, size)
        else:
            items = _theirs(way, pool, y[:n_pool], learner.labelled, seed)
        learner.tell(items, y[items])
        if len(learner.labelled) in SIZES[kind]:
            errors.append(_error(kind, learner, test, y[n_pool:]))
    return {"errors": errors}


def _error(kind: str, learner: Any, test: np.ndarray, y: np.ndarray) -> float:
    if kind == "numbers":
        return float(np.sqrt(np.square(learner.predict(test) - y).mean()))
    if kind == "labels":
        predicted = learner.predict(test)
        return float(1.0 - 2.0 * (predicted & y.astype(bool)).sum() / (predicted.sum() + y.sum()))
    medians = (learner.predict_proba(test).cumsum(axis=1) < 0.5).sum(axis=1)
    return float(np.abs(medians - y).mean())


# -- the page


HEADS = {
    "numbers": ("Regression", "root mean squared error"),
    "labels": ("Multi-label", "1 - micro-F1"),
    "ranks": ("Ordinal: five ratings", "mean distance in ranks of the median"),
}


def page(records: list[Record]) -> Iterator[str]:
    yield "# How good are batches for regression, multi-label and ordinal tasks?\n"
    yield (
        f"Pools of at most {N_POOL} items; ten random labels first, then batches of 10 (several "
        "labels: 20) by each way; the same model, ours, learns from all of them and is judged by "
        f"at most {N_TEST} other items. Numbers: the columns and {N_FOURIER} random Fourier "
        "features. LCMD is written from its paper, with distances of the features or of the "
        "posterior; greedy sampling (on targets) and regression trees are scikit-activeml's. *Mean "
        "entropy* and *least confidence* (what MMC asks for, by the model's own labels) are "
        "uncertainty sampling; *five classes* is our learner without the order of ratings. Written "
        "by `python studies tasks`; do not edit.\n"
    )
    for kind, (title, metric) in HEADS.items():
        task_records = [record for record in records if record["run"][0] == kind]
        if task_records:
            yield from _table(kind, title, metric, task_records)


def _table(kind: str, title: str, metric: str, records: list[Record]) -> Iterator[str]:
    ways = WAYS[kind]
    sizes = SIZES[kind]
    errors: dict[tuple[str, str], list[list[float]]] = {}
    for record in sorted(records, key=lambda record: record["run"][3]):
        errors.setdefault(tuple(record["run"][1:3]), []).append(record["errors"])
    names = [name for name in SETS[kind] if all((name, way) in errors for way in ways)]
    # (sets, ways, seeds, sizes)
    n_seeds = min(len(errors[name, way]) for name in names for way in ways)
    all_errors = np.array([[errors[name, way][:n_seeds] for way in ways] for name in names])
    means = all_errors.mean(axis=2)
    ratios = means / means[:, :1]
    listed = ", ".join(map(str, sizes))
    yield f"## {title}\n"
    yield f"The {metric} after {listed} labels, that of random labels being 1; seeds: {n_seeds}.\n"
    yield "| | " + " | ".join(TITLES.get(way, way) for way in ways[1:]) + " |"
    yield "| --- |" + " ---: |" * (len(ways) - 1)
    middle = np.exp(np.log(ratios).mean(axis=0))
    for name, row in [*zip(names, ratios, strict=True), ("**geometric mean**", middle)]:
        yield f"| {name} | " + " | ".join(" ".join(f"{x:.2f}" for x in r) for r in row[1:]) + " |"
    ours = ways.index("parbals-epig")
    best = np.where(np.arange(len(ways))[:, None] == ours, np.inf, means).argmin(axis=1)
    rivals = np.take_along_axis(all_errors, best[:, None, None, :], axis=1)[
        :, 0
    ]  # (sets, seeds, sizes)
    apart = all_errors[:, ours] - rivals
    spread = apart.std(axis=1, ddof=1) / np.sqrt(n_seeds)
    lead = apart.mean(axis=1)
    better = (lead <= 0).sum(axis=0)
    level = (lead <= 2.0 * spread).sum(axis=0)
    yield (
        f"\nBeside whichever other way is best on a set, ours is better on "
        f"{', '.join(map(str, better))} of {len(names)}, and within two standard errors of the "
        f"difference (over seeds) or better on {', '.join(map(str, level))}.\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
