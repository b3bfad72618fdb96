"""Sets that scikit-learn brings: handwritten digits and Breast Cancer Wisconsin."""

from pathlib import Path

import numpy as np
from parbals.validate import check_choice

from parbals_bench.datasets.base import Data, Dataset, three_parts
from parbals_bench.datasets.pca import PoolPCA
from parbals_bench.datasets.tabular import TabularFeatures

__all__ = ["BREAST_CANCER", "DIGITS"]


def _load_digits(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed; PCA of the pool's pixels."""
    from sklearn.datasets import load_digits

    check_choice(features, ("auto", "pixels"), "features")
    images, labels = load_digits(return_X_y=True)
    X, y = (images / 16.0).astype(np.float32), labels.astype(np.int64)
    classes = tuple(str(digit) for digit in range(10))
    return _divided("digits", X, y, classes, PoolPCA(0.99), seed)


def _load_cancer(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed; 10 quantile bins a column."""
    from sklearn.datasets import load_breast_cancer

    check_choice(features, ("auto", "tabular"), "features")
    patients = load_breast_cancer()
    classes = tuple(str(name) for name in patients.target_names)
    y = patients.target.astype(np.int64)
    return _divided("breast-cancer", patients.data, y, classes, TabularFeatures(dropped=()), seed)


def _divided(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    classes: tuple[str, ...],
    encoder: PoolPCA | TabularFeatures,
    seed: int,
) -> Data:
    pool, target, test = three_parts(len(y), name, seed)
    encoder.fit(X[pool])
    X_pool, X_target, X_test = (encoder.transform(X[rows]) for rows in (pool, target, test))
    return Data(name, X_pool, y[pool], X_target, X_test, y[test], classes)


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
