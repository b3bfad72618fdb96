"""Rows of real sets for studies of many small runs.

    studies lib.rows FOLDER --data DATA     one file a set, for a machine without the sets

At most 16,000 rows of each, drawn once, in half precision: all sets together are 20 MB, and NumPy
alone reads them. A study gives the same figures from DATA and from FOLDER.
"""

import argparse
import os
from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["NAMES", "load"]

NAMES = ("sms-spam", "breast-cancer", "digits", "ag-news", "cifar10", "airline", "credit-card")
MOST = 16_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="the datasets' folder; by default $PARBALS_DATA")
    given = parser.parse_args()
    if given.data is not None:
        os.environ["PARBALS_DATA"] = str(given.data)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        X, y = _rows(name)
        np.savez_compressed(given.folder / f"{name}.npz", X=X, y=y)
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
    from parbals_bench.datasets.table import load_dataset

    data = load_dataset(name)
    X = np.concatenate([data.X_pool, data.X_test])
    y = np.concatenate([data.y_pool, data.y_test])
    drawn = np.random.default_rng(0).permutation(len(X))[:MOST]
    return X[drawn].astype(np.float16), y[drawn].astype(np.int8)
