"""Datasets that come with scikit-learn: handwritten digits and Breast Cancer Wisconsin."""

from pathlib import Path

import numpy as np
from parbals.validate import check_choice

from parbals_bench.datasets.base import Data, Dataset, three_parts
from parbals_bench.datasets.embedded import reduced
from parbals_bench.datasets.tabular import TabularFeatures

__all__ = ["BREAST_CANCER", "DIGITS"]

_PARTS = ("pool", "target", "test")


def _load_digits(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed; PCA of the pool's pixels."""
    from sklearn.datasets import load_digits

    check_choice(features, ("auto", "pixels"), "features")
    images, labels = load_digits(return_X_y=True)
    X = (images / 16.0).astype(np.float32)
    y = labels.astype(np.int64)
    classes = tuple(str(digit) for digit in range(10))
    parts = dict(zip(_PARTS, three_parts(len(y), "digits", seed), strict=True))
    matrices = reduced({name: X[rows] for name, rows in parts.items()}, "pool")
    return _data("digits", matrices, y, parts, classes)


def _load_cancer(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed; 10 quantile bins a column."""
    from sklearn.datasets import load_breast_cancer

    check_choice(features, ("auto", "tabular"), "features")
    patients = load_breast_cancer()
    classes = tuple(str(name) for name in patients.target_names)
    y = patients.target.astype(np.int64)
    parts = dict(zip(_PARTS, three_parts(len(y), "breast-cancer", seed), strict=True))
    encoder = TabularFeatures().fit(patients.data[parts["pool"]])
    matrices = {name: encoder.transform(patients.data[rows]) for name, rows in parts.items()}
    return _data("breast-cancer", matrices, y, parts, classes)


def _data(
    name: str,
    X: dict[str, np.ndarray],
    y: np.ndarray,
    parts: dict[str, np.ndarray],
    classes: tuple[str, ...],
) -> Data:
    return Data(
        name=name,
        X_pool=X["pool"],
        y_pool=y[parts["pool"]],
        X_target_source=X["target"],
        X_test=X["test"],
        y_test=y[parts["test"]],
        classes=classes,
    )


DIGITS = Dataset(
    "Digits",
    _load_digits,
    "handwritten digit, 10 classes, 1,797 images; comes with scikit-learn",
    features=("pixels",),
)
BREAST_CANCER = Dataset(
    "Breast Cancer",
    _load_cancer,
    "is a tumour benign? 569 patients, 30 columns; comes with scikit-learn",
    features=("tabular",),
)
