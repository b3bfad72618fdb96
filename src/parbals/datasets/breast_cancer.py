"""Breast Cancer Wisconsin (diagnostic), as scikit-learn brings it: no files needed."""

from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset, three_parts
from parbals.features.tabular import TabularFeatures
from parbals.validate import check_choice

__all__ = ["DATASET", "load"]

NAME = "breast-cancer"


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed; 10 quantile bins a column."""
    from sklearn.datasets import load_breast_cancer

    check_choice(features, ("auto", "tabular"), "features")
    found = load_breast_cancer()
    pool, target, test = three_parts(len(found.target), NAME, seed)
    table, y = found.data, found.target.astype(np.int64)
    encoder = TabularFeatures(dropped=()).fit(table[pool])
    X_pool, X_target, X_test = (encoder.transform(table[rows]) for rows in (pool, target, test))
    classes = tuple(str(name) for name in found.target_names)
    return Data(NAME, X_pool, y[pool], X_target, X_test, y[test], classes)


DATASET = Dataset(
    load,
    "is a tumour benign? 569 patients, 30 columns; comes with scikit-learn",
    features=("tabular",),
)
