"""Rows of real datasets for studies of many small runs.

    python studies lib.rows FOLDER --data DATA  # one file a set, for a machine without the sets

At most 16,000 rows of each, drawn once, in half precision: all sets together are 20 MB, and NumPy
alone reads them. A study gives the same figures from DATA and from FOLDER.
"""

import os
from functools import cache
from pathlib import Path

import numpy as np
from lib.packing import packing_folder

__all__ = ["NAMES", "load", "made"]

NAMES = ("sms-spam", "breast-cancer", "digits", "ag-news", "cifar10", "airline", "credit-card")
OTHER_LABELS = {
    "airline-class": "Class",
    "airline-boarding": "Online boarding",
    "airline-kind": "Type of Travel",
    "airline-age": "Age",
}
"""The airline's passengers with another column to foretell: three, six, four and seven classes."""
DIGITS = ("digits-ink", "digits-odd")
"""Twenty classes, each digit with little or much ink; and two."""
MAX_ROWS = 16_000
MAX_OTHER_ROWS = 6_000


def main() -> int:
    folder = packing_folder(__doc__)
    for name in (*NAMES, *OTHER_LABELS, *DIGITS):
        X, y = _rows(name)
        np.savez_compressed(folder / f"{name}.npz", X=X, y=y)
        print(name, X.shape, int(y.max()) + 1, "classes", flush=True)
    return 0


def load(reference: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Features (N, D) in random order, class numbers (N,) and how many classes.

    "airline"; "ag-news:2" (class 2 against the rest), "ag-news" (class 0), "ag-news:*" (all).
    """
    name, _, positive = reference.partition(":")
    X, y = _rows(name)
    n_classes = int(y.max()) + 1
    if positive != "*" and n_classes > 2:
        return X.astype(np.float32), (y == int(positive or 0)).astype(np.int64), 2
    return X.astype(np.float32), y.astype(np.int64), n_classes


@cache
def _rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, D) float16 and (N,) int8, from FOLDER's file where there is one."""
    file = Path(os.environ.get("PARBALS_DATA", ".")) / f"{name}.npz"
    if file.exists():
        with np.load(file) as stored:
            return stored["X"], stored["y"]
    if name in OTHER_LABELS:
        return _passengers(OTHER_LABELS[name])
    if name in DIGITS:
        return _digits(name)
    from parbals_bench.datasets.table import load_dataset

    data = load_dataset(name)
    X = np.concatenate([data.X_pool, data.X_test])
    y = np.concatenate([data.y_pool, data.y_test])
    drawn = np.random.default_rng(0).permutation(len(X))[:MAX_ROWS]
    return X[drawn].astype(np.float16), y[drawn].astype(np.int8)


def _passengers(label: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns of the airline's passengers, and another column's classes."""
    import pandas as pd

    frame = pd.read_csv(Path(os.environ.get("PARBALS_DATA", ".")) / "airline" / "train.csv.gz")
    frame = frame.dropna().sample(MAX_OTHER_ROWS, random_state=0).drop(columns=["Unnamed: 0", "id"])
    classes = frame[label]
    if label == "Age":
        classes = pd.qcut(classes, 7, labels=False)
    if label == "Type of Travel":
        classes = frame.pop("Customer Type") + ", " + classes
    columns = pd.get_dummies(frame.drop(columns=[label]), dtype=float)
    rows = ((columns - columns.mean()) / columns.std()).to_numpy()
    return rows.astype(np.float16), np.unique(classes, return_inverse=True)[1].astype(np.int8)


def _digits(name: str) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    ink = X.sum(axis=1)
    median = np.array([np.median(ink[y == digit]) for digit in range(10)])
    labels = y % 2 if name == "digits-odd" else 2 * y + (ink > median[y])
    return (X / 16.0).astype(np.float16), labels.astype(np.int8)


@cache
def made(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows of no real thing, as :func:`load` has them: what the model is right and wrong about."""
    from sklearn.datasets import make_classification

    generator = np.random.default_rng(5)
    n_rows = MAX_OTHER_ROWS
    if name == "made-seven":  # some labels wrong
        terms = {"n_informative": 12, "n_redundant": 4, "flip_y": 0.05, "random_state": 3}
        X, y = make_classification(
            n_rows, 20, n_classes=7, n_clusters_per_class=1, class_sep=1.5, **terms
        )
    elif name == "made-clusters":  # two clusters a class
        terms = {"n_informative": 15, "n_redundant": 5, "flip_y": 0.02, "random_state": 4}
        X, y = make_classification(
            n_rows, 30, n_classes=6, n_clusters_per_class=2, class_sep=1.5, **terms
        )
    elif name == "made-twenty":  # heavy tails
        centres = 0.9 * generator.standard_normal((20, 50))
        y = generator.integers(20, size=n_rows)
        X = centres[y] + generator.standard_t(4, (n_rows, 50))
    elif name == "made-product":  # what no line can tell
        X = generator.standard_normal((n_rows, 15))
        logit = 2.0 * X[:, 0] + 1.5 * X[:, 1] * X[:, 2] + X[:, 3]
        y = generator.logistic(size=n_rows) < logit
    else:  # the model itself
        X = generator.standard_normal((n_rows, 40))
        logits = X @ (0.5 * generator.standard_normal((40, 4)))
        y = np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)
    y = np.asarray(y, np.int64)
    return X.astype(np.float32), y, int(y.max()) + 1
