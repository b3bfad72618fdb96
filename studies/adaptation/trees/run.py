"""Do tree features help the closed-form model on tables, and is it known when?

    python studies adaptation.trees --data FOLDER   # run what is missing, write README.md
    python studies adaptation.trees --sizes 50,100  # fewer runs
    python studies adaptation.trees --tables        # write README.md from the records

Random labels of tables: Airline, digits, breast cancer, and three that are made: *rules*, seven
classes by a random tree of axis-aligned cuts, *lines*, four classes by lines, and *forests*, seven
classes of unequal size as of Covertype: each has its height, its soils and two columns that must
both be large. Beside the linear model of a learner there are

* *leaves*: extremely randomised trees are grown on the labels, which leaf of each tree an item is
  in becomes 50 columns by truncated SVD, and the closed-form model stands on them and the table;
* *product*: p ∝ p_linear^a p_forest^b, the linear model's left-out predictions and the out-of-bag
  ones of 200 bagged trees choose among five pairs (a, b). The linear model alone stays unless
  another pair's mean log loss is lower by more than a standard error of the difference;
* *adapted*: what `parbals adapt` does. Beside the columns stand roots of what three kinds of trees
  find the classes' probabilities to be (parbals_label.encoders.trees), of labelled rows by trees
  that have not seen them, and the closed-form model stands on both. *Kept* is that, or the
  *project*'s features as they were: three folds decide. A project has Airline's columns with bins,
  numbers alone as they are;
* *trees* and *boosting*: ExtraTrees and HistGradientBoosting of scikit-learn, tuned by three folds.

Errors are those of 2,000 other rows, or of all that are left.
"""

import csv
import gzip
import os
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
SETS = ("airline", "digits", "breast cancer", "rules", "lines", "forests")
WAYS = ("linear", "leaves", "product", "project", "adapted", "kept", "trees", "boosting")
PAIRS = ((1.0, 0.0), (0.7, 0.3), (0.5, 0.5), (0.7, 0.7), (0.0, 1.0))
N_TREES = 200
N_OTHERS = 2_000
N_LEAVES = 50


NOTES = """
## How the tree features were chosen

By test errors on Airline, digits and rules with three of the seeds above, on another synthetic
table and on other draws of forests, so the rows of these three tables are optimistic. The draws of
forests above took no part.

## Limits
"""


def main() -> int:
    files = FOLDER / "record.jsonl", FOLDER / "README.md"
    options = {"sizes": "50,100,250,1000"}
    return study(__doc__ or "", *files, runs, page, seeds=10, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    """Those of many labels take longest, so they come first."""
    for size in sorted(map(int, options.sizes.split(",")), reverse=True):
        for seed in range(options.seeds):
            for name in SETS:
                if (name, size) != ("breast cancer", 1000):  # it has 569 rows
                    yield (name, size, seed, "adapted"), partial(adapted, name, size, seed)
                    yield (name, size, seed), partial(measured, name, size, seed)


def measured(name: str, size: int, seed: int) -> Record:
    """Test errors of every way, and the pair that the labels chose."""
    from parbals import ActiveLearner

    X, y = _sample(name, size, seed)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    train = slice(None, size)
    test = slice(size, None)
    classes = list(range(y.max() + 1))

    def fitted(rows: np.ndarray) -> Any:
        learner = ActiveLearner(rows, classes, strategy="random", random_state=seed)
        learner.tell(np.arange(size), y[train].tolist())
        return learner

    linear = fitted(X)
    probs, numbers = linear.state.cross_validated_predictions(linear.fitted())
    forest = _forest(seed).fit(X[train], y[train])
    bagged = _full(forest, forest.oob_decision_function_, classes)
    places = _places(linear)
    pair = _choose_exponents(probs, bagged[places], numbers)
    both = linear.predict_proba(X[test]), _full(forest, forest.predict_proba(X[test]), classes)
    probs_by_way = {"linear": both[0], "product": _product(*both, pair)}
    leaves = np.hstack([X, _leaves(forest, X, seed)])
    probs_by_way["leaves"] = fitted(leaves).predict_proba(leaves[test])
    errors = {way: float((p.argmax(axis=1) != y[test]).mean()) for way, p in probs_by_way.items()}
    for way, model in _tuned(seed).items():
        errors[way] = float((model.fit(X[train], y[train]).predict(X[test]) != y[test]).mean())
    return {"errors": errors, "pair": list(pair)}


def adapted(name: str, size: int, seed: int) -> Record:
    """Test errors with trees and without, and by how many standard errors held-out labels differ.

    ``gain`` is that of log losses at the temperatures that are best for them.
    """
    from parbals import ActiveLearner
    from parbals.features.table import TableEncoding
    from parbals_label.encoders.trees import TableTrees

    X, y = _sample(name, size, seed)
    columns = {str(number): column for number, column in enumerate(X.T)}
    record = TableEncoding.fit(columns, keep_identifiers=True).as_json()
    if name != "airline":
        record["columns"] = [{**column, "edges": None} for column in record["columns"]]
    table = TableEncoding.from_json(record)
    rows = table.transform(columns)
    labelled = np.arange(size)
    classes = list(range(y.max() + 1))

    def tree_features(positions: np.ndarray, number: int) -> np.ndarray:
        return TableTrees.grow(table, rows[positions], y[positions], number).rows(rows)

    def predictions(features: np.ndarray, positions: np.ndarray) -> np.ndarray:
        learner = ActiveLearner(features, classes, strategy="random", random_state=seed)
        learner.tell(positions, y[positions].tolist())
        return learner.predict_proba(features)

    test = slice(size, None)
    everywhere = tree_features(labelled, 3)
    ways = {"project": predictions(rows, labelled), "adapted": predictions(everywhere, labelled)}
    errors = {way: float((p.argmax(axis=1) != y)[test].mean()) for way, p in ways.items()}
    fold = np.random.default_rng(seed).permutation(size) % 3
    held_out = {way: np.empty((size, len(classes))) for way in ways}
    for number in range(3):
        validation = labelled[fold == number]
        training = labelled[fold != number]
        held_out["project"][validation] = predictions(rows, training)[validation]
        held_out["adapted"][validation] = predictions(tree_features(training, number), training)[
            validation
        ]
    gain = np.subtract(*(_losses(held_out[way], y[labelled]) for way in ("project", "adapted")))
    gain = float(gain.mean() / max(gain.std(), 1e-9) * np.sqrt(size))
    return {"errors": errors, "gain": gain}


def _losses(probs: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled

    temperature = fit_temperature((probs, numbers), (probs[:0], numbers[:0]))
    true_probs = temperature_scaled(probs, temperature.value)[np.arange(len(numbers)), numbers]
    return np.asarray(-np.log(np.maximum(true_probs, 1e-300)))


def _places(learner: Any) -> np.ndarray:
    """Which labels were left out: with thousands only some are."""
    return np.asarray(learner.fitted().gaussian.leave_one_out()[0])


def _forest(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(
        N_TREES, bootstrap=True, oob_score=True, min_samples_leaf=2, random_state=seed
    )


def _full(forest: Any, probs: np.ndarray, classes: list[int]) -> np.ndarray:
    """(n, C) also where a class has no label; what no tree has left out says nothing."""
    wide = np.zeros((len(probs), len(classes)))
    wide[:, forest.classes_] = np.nan_to_num(probs, nan=1.0 / len(forest.classes_))
    return (wide + 0.01) / (wide + 0.01).sum(axis=1, keepdims=True)


def _product(linear: np.ndarray, forest: np.ndarray, pair: tuple[float, float]) -> np.ndarray:
    logs = pair[0] * np.log(np.maximum(linear, 1e-12)) + pair[1] * np.log(forest)
    probs = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def _choose_exponents(
    linear: np.ndarray, forest: np.ndarray, numbers: np.ndarray
) -> tuple[float, float]:
    true_classes = np.arange(len(numbers)), numbers
    losses = [-np.log(_product(linear, forest, pair)[true_classes]) for pair in PAIRS]
    best = int(np.argmin([loss.mean() for loss in losses]))
    gain = losses[0] - losses[best]
    is_sure = gain.mean() > gain.std() / np.sqrt(len(numbers))
    return PAIRS[best] if is_sure else PAIRS[0]


def _leaves(forest: Any, X: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import OneHotEncoder

    inside = OneHotEncoder().fit_transform(forest.apply(X))
    rows = TruncatedSVD(N_LEAVES, random_state=seed).fit_transform(inside)
    return np.asarray(rows / max(float(rows.std()), 1e-9))


def _tuned(seed: int) -> dict[str, Any]:
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.model_selection import GridSearchCV, KFold

    folds = KFold(3, shuffle=True, random_state=seed)
    trees = {"min_samples_leaf": [1, 3], "max_features": ["sqrt", None]}
    boosted = {"max_leaf_nodes": [4, 16], "learning_rate": [0.1]}
    boosting = HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=5, random_state=seed)
    forest = ExtraTreesClassifier(N_TREES, random_state=seed)
    return {
        "trees": GridSearchCV(forest, trees, cv=folds),
        "boosting": GridSearchCV(boosting, boosted, cv=folds),
    }


def _sample(name: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The labelled rows, and below them those that are predicted."""
    X, y = _table(name, seed)
    order = np.random.default_rng(seed).permutation(len(y))[: size + N_OTHERS]
    return X[order], y[order]


def _table(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, D) of numbers and class numbers (N,)."""
    from sklearn import datasets

    if name in ("digits", "breast cancer"):
        return (datasets.load_digits if name == "digits" else datasets.load_breast_cancer)(
            return_X_y=True
        )
    if name == "airline":
        return _airline()
    generator = np.random.default_rng([7, seed])
    if name == "forests":
        return _forests(generator)
    X = generator.standard_normal((6_000, 12))
    if name == "lines":
        scores = X @ generator.standard_normal((12, 4)) + generator.gumbel(size=(6_000, 4))
        return X, scores.argmax(axis=1)
    y = np.zeros(len(X), int)
    _cut(X, np.arange(len(X)), 6, generator, y)
    noisy = generator.random(len(y)) < 0.1
    return X, np.where(noisy, generator.integers(0, 7, len(y)), y)


def _forests(
    generator: np.random.Generator, n_rows: int = 6_000, n_classes: int = 7
) -> tuple[np.ndarray, np.ndarray]:
    """Nine numbers, and a column for each of four regions and ten soils, by the height."""
    height = generator.normal(size=n_rows)
    numbers = generator.normal(size=(n_rows, 8))
    regions = np.digitize(height + 0.7 * generator.normal(size=n_rows), [-0.8, 0.0, 0.8])
    soils = 4.5 + 2.0 * height + 1.5 * generator.normal(size=n_rows)
    soils = np.clip(soils.round(), 0, 9).astype(int)
    scores = 0.5 * generator.gumbel(size=(n_rows, n_classes)) + [2.0, 2.5, 1.0, 0.0, 0.0, 0.3, 0.3]
    scores -= 2.0 * np.square(height[:, None] - np.linspace(-2.0, 2.0, n_classes))
    scores += generator.normal(size=(10, n_classes))[soils]
    scores += generator.normal(size=(4, n_classes))[regions]
    for number in range(n_classes):
        both = numbers[:, generator.integers(0, 8, 2)] > generator.normal(0.0, 0.7, 2)
        scores[:, number] += generator.normal(0.0, 1.5) * both.all(axis=1)
    X = np.column_stack([height, numbers, np.eye(4)[regions], np.eye(10)[soils]])
    return X, scores.argmax(axis=1)


def _airline() -> tuple[np.ndarray, np.ndarray]:
    """The first 20,000 rows: numbers as they are, a column for each word of the others."""
    path = Path(os.environ["PARBALS_DATA"], "airline/train.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        lines = list(islice(csv.DictReader(file), 20_000))
    y = np.array([int(line["satisfaction"] == "satisfied") for line in lines])
    columns = []
    for name in list(lines[0])[2:-1]:  # without a number, an id and the answer
        cells = [line[name] for line in lines]
        try:
            columns.append(np.array([float(cell or 0.0) for cell in cells]))
        except ValueError:
            columns += [np.array([cell == word for cell in cells]) for word in sorted(set(cells))]
    return np.stack(columns, axis=1).astype(float), y


def _cut(
    X: np.ndarray, rows: np.ndarray, depth: int, generator: np.random.Generator, y: np.ndarray
) -> None:
    """Classes by a random tree: each cut is of one column, near its middle."""
    if depth == 0 or len(rows) < 20:
        y[rows] = generator.integers(0, 7)
        return
    column = generator.integers(0, 6)
    at = generator.normal(0.0, 0.5)
    for side in (X[rows, column] < at, X[rows, column] >= at):
        _cut(X, rows[side], depth - 1, generator, y)


def page(records: list[Record]) -> Iterator[str]:
    yield "# Do tree features help on tables?"
    yield ""
    yield "Written by `python studies adaptation.trees`; do not edit."
    yield ""
    yield (
        "**Mostly, and held-out labels show when.** Test errors in %, means over seeds, random "
        "labels. *Linear*: the closed-form model. *Leaves*: the closed-form model on the leaves"
        " of a forest. *Product*: its predictions times those of a bagged forest, with "
        "exponents chosen by leave-one-out predictions. *Project*: the model of a project. "
        "*Adapted*: with tree features appended. *Kept*: the model that `parbals adapt` keeps, "
        "that with tree features if the log loss of held-out labels is lower, as in *used* "
        "seeds. *Trees* and *boosting*: scikit-learn's, tuned by three folds."
    )
    yield ""
    yield "| table | labels | seeds | " + " | ".join(WAYS) + " | used |"
    yield "| --- | ---: | ---: |" + " ---: |" * (len(WAYS) + 1)
    by_run = {tuple(r["run"]): r for r in records}
    pairs_by_cell: dict[tuple[str, int], list[tuple[Record, Record]]] = {}
    for name in SETS:
        for size in sorted({run[1] for run in by_run if run[0] == name}):
            pairs_by_cell[name, size] = both = [
                (record, adapted_record)
                for run, record in by_run.items()
                if run[:2] == (name, size) and (adapted_record := by_run.get((*run, "adapted")))
            ]
            used = sum(adapted_record["gain"] > 0.0 for _, adapted_record in both)
            means = [100 * np.mean([_error(way, *pair) for pair in both]) for way in WAYS]
            cells = " | ".join(f"{mean:.1f}" for mean in means)
            yield f"| {name} | {size} | {len(both)} | {cells} | {used} |"
    yield from NOTES.rstrip().split("\n")
    yield ""
    yield from _limits(pairs_by_cell)


def _limits(pairs_by_cell: dict[tuple[str, int], list[tuple[Record, Record]]]) -> Iterator[str]:
    """Where the model that is kept is the wrong one."""
    behind = []
    wrong = []
    for (name, size), pairs in pairs_by_cell.items():
        errors = {way: np.array([_error(way, *pair) for pair in pairs]) for way in WAYS}
        if name == "rules" and size <= 100 and pairs:
            gap = 100 * float((errors["kept"] - errors["trees"]).mean())
            behind.append(f"{gap:.1f} points with {size} labels")
        n_wrong = int((errors["kept"] > np.minimum(errors["project"], errors["adapted"])).sum())
        if name == "breast cancer" and n_wrong:
            wrong.append(f"in {n_wrong} of {len(pairs)} seeds with {size} labels")
    if behind:
        yield "* With few labels held-out labels cannot show that trees help on rules, where tuned"
        yield f"  trees err less than the model that is kept: by {' and '.join(behind)}."
    if wrong:
        yield f"* On breast cancer the wrong model is kept at times: {', '.join(wrong)}."


def _error(way: str, record: Record, adapted_record: Record) -> float:
    if way == "kept":
        way = "adapted" if adapted_record["gain"] > 0.0 else "project"
    return float((record["errors"] | adapted_record["errors"])[way])
