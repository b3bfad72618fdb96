"""Handwritten digits, 8 × 8 pixels, as scikit-learn brings them: no files needed."""

from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset, three_parts
from parbals.features.pca import PoolPCA
from parbals.validate import check_choice

__all__ = ["DATASET", "load"]

NAME = "digits"


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed; PCA of the pool's pixels."""
    from sklearn.datasets import load_digits

    check_choice(features, ("auto", "pixels"), "features")
    images, y = load_digits(return_X_y=True)
    pool, target, test = three_parts(len(y), NAME, seed)
    X = (images / 16.0).astype(np.float32)
    pca = PoolPCA(0.99).fit(X[pool])
    y = y.astype(np.int64)
    classes = tuple(str(digit) for digit in range(10))
    return Data(
        NAME,
        pca.transform(X[pool]),
        y[pool],
        pca.transform(X[target]),
        pca.transform(X[test]),
        y[test],
        classes,
    )


DATASET = Dataset(
    load,
    "handwritten digit, 10 classes, 1,797 images; comes with scikit-learn",
    features=("pixels",),
)
