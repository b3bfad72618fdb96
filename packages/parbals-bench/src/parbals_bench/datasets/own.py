"""A user's own labelled rows: an .npz with X (N, D), the features, and y (N,), the true labels.

A model for other data than the pool is tested on these: X_test and y_test, with their unlabelled
rows X_target if there are any.
"""

from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from parbals.errors import InputError, LabelError, ShapeError
from parbals.validate import check_choice, check_features

from parbals_bench.datasets.base import Data, Dataset, halves, three_parts

__all__ = ["DATASET", "load"]

NAME = "own"
_TEST_ARRAYS = ("X_test", "y_test")
_ARRAYS = ("X", "y", "X_target", *_TEST_ARRAYS)


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """The rows of an .npz as they are.

    With X_test and y_test the pool is X; the targets are X_target, or else one half of X_test,
    and the other half is the test set. With X and y alone, the seed divides them 60/20/20.
    """
    check_choice(features, ("auto",), "features")
    path = Path(folder or "")
    arrays = _read(path)
    X, labels = _labelled_rows(arrays, "X", "y", path.name)
    names, y = np.unique(labels, return_inverse=True)
    classes = tuple(names.tolist())
    if "X_test" not in arrays:
        pool, target, test = three_parts(len(y), NAME, seed)
        return Data(path.stem, X[pool], y[pool], X[target], X[test], y[test], classes)
    X_test, test_labels = _labelled_rows(arrays, *_TEST_ARRAYS, path.name)
    y_test = _class_numbers(test_labels, names, path.name)
    tables = {"X_test": X_test}
    if "X_target" in arrays:
        X_target = check_features(arrays["X_target"], f"X_target of {path.name}")
        tables["X_target"] = X_target
    else:
        target, test = halves(len(X_test), NAME)
        X_target = X_test[target]
        X_test = X_test[test]
        y_test = y_test[test]
    for name, table in tables.items():
        if table.shape[1] != X.shape[1]:
            raise ShapeError(
                f"{name} of {path.name} has {table.shape[1]} columns and X has {X.shape[1]}; "
                "compute the same features for both."
            )
    return Data(path.stem, X, y, X_target, X_test, y_test, classes)


def _read(path: Path) -> dict[str, np.ndarray]:
    """The arrays by name: features as float32, labels as texts."""
    try:
        with np.load(path, allow_pickle=False) as stored, np.errstate(over="ignore"):
            arrays = {name: stored[name] for name in _ARRAYS if name in stored}
            for name in ("X", "y"):
                arrays[name] = stored[name]
            for name, array in arrays.items():
                arrays[name] = array.astype(np.float32 if name.startswith("X") else str)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, BadZipFile):
        raise InputError(
            f"{path} is no .npz file with numbers X (N, D) and labels y (N,); "
            f'numpy.savez("{path.stem or "mine"}.npz", X=rows, y=labels) writes one.'
        ) from None
    missing = [name for name in _TEST_ARRAYS if name not in arrays]
    if len(missing) == 1 or (missing and "X_target" in arrays):
        raise InputError(
            f"{path.name} has no {' and no '.join(missing)}; a target needs labelled rows to test "
            "on: add both X_test and y_test."
        )
    return arrays


def _labelled_rows(
    arrays: Mapping[str, np.ndarray], rows_name: str, labels_name: str, file_name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, D) and labels (N,), checked to belong together."""
    X = check_features(arrays[rows_name], f"{rows_name} of {file_name}")
    labels = arrays[labels_name]
    if labels.shape != (len(X),):
        raise InputError(
            f"{file_name} has {len(X)} rows in {rows_name} and labels {labels.shape} in "
            f"{labels_name}."
        )
    return X, labels


def _class_numbers(labels: np.ndarray, names: np.ndarray, file_name: str) -> np.ndarray:
    """The position of each label among the sorted names of the pool's classes."""
    unknown = np.setdiff1d(labels, names)
    if len(unknown):
        raise LabelError(
            f"y_test of {file_name} has the label {str(unknown[0])!r}, which y lacks; leave these "
            "rows out, or add some to the pool."
        )
    return np.searchsorted(names, labels)


DATASET = Dataset("Own data", load, "your own: an .npz with features and labels")
