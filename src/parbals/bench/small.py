"""Two small datasets that come with scikit-learn, for the quick suite: no download, seconds a run."""

from dataclasses import dataclass

import numpy as np

from parbals.bench.runs import split_reference
from parbals.errors import InputError
from parbals.randomness import derive_generator

__all__ = ["SMALL_SETS", "SmallData", "load_small"]

SMALL_SETS = ("digits", "breast-cancer")


@dataclass(frozen=True)
class SmallData:
    """A dataset in memory; see :class:`parbals.bench.protocol.Data`."""

    name: str
    positive: str | None
    classes: tuple[str, ...]
    X_pool: np.ndarray
    y_pool: np.ndarray
    X_target_source: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_small(reference: str) -> SmallData:
    """ "digits" (0 against the others), "digits:3", or "breast-cancer" (malignant is positive)."""
    from sklearn import datasets

    name, positive = split_reference(reference)
    if name == "digits":
        bunch = datasets.load_digits()
        digit = positive or "0"
        if digit not in tuple("0123456789"):
            raise InputError(f"digits has no class {digit!r}; choose one of 0 to 9.")
        return _split(name, positive, ("other", digit), bunch.data / 16.0, (bunch.target == int(digit)).astype(int))
    if name == "breast-cancer":
        if positive is not None:
            raise InputError("breast-cancer has two classes, and malignant is the positive one; leave out the class.")
        bunch = datasets.load_breast_cancer()
        return _split(name, None, ("benign", "malignant"), bunch.data, 1 - bunch.target, scale=True)
    raise InputError(f"There is no built-in dataset {name!r}; choose one of {', '.join(SMALL_SETS)}.")


def _split(
    name: str, positive: str | None, classes: tuple[str, ...], X: np.ndarray, y: np.ndarray, *, scale: bool = False
) -> SmallData:
    """60 % pool, 20 % target source, 20 % test: the same split for every seed. Scaling is fitted on the pool alone."""
    order = derive_generator(0, "small split", name).permutation(len(X))
    pool, target, test = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    if scale:
        X = (X - X[pool].mean(axis=0)) / X[pool].std(axis=0)
    X = X.astype(np.float32)
    y = y.astype(np.int64)
    return SmallData(name, positive, classes, X[pool], y[pool], X[target], X[test], y[test])
