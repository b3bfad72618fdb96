"""A user's own labelled rows: an .npz with X (N, D), the features, and y (N,), the true labels."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from parbals.errors import InputError
from parbals.validate import check_choice, check_features

from parbals_bench.datasets.base import Data, Dataset, three_parts

__all__ = ["DATASET", "load"]

NAME = "own"


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """The rows of an .npz as they are, divided 60/20/20 by the seed."""
    check_choice(features, ("auto",), "features")
    path = Path(folder or "")
    try:
        with np.load(path, allow_pickle=False) as arrays, np.errstate(over="ignore"):
            X = arrays["X"].astype(np.float32)
            labels = arrays["y"]
        names, y = np.unique(labels.astype(str), return_inverse=True)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, BadZipFile):
        raise InputError(
            f"{path} is no .npz file with numbers X (N, D) and labels y (N,); "
            f'numpy.savez("{path.stem or "mine"}.npz", X=rows, y=labels) writes one.'
        ) from None
    X = check_features(X, f"X of {path.name}")
    if labels.shape != (len(X),):
        raise InputError(f"{path.name} has {len(X)} rows in X and labels {labels.shape} in y.")
    pool, target, test = three_parts(len(y), NAME, seed)
    classes = tuple(names.tolist())
    return Data(path.stem, X[pool], y[pool], X[target], X[test], y[test], classes)


DATASET = Dataset("Own data", load, "your own: an .npz with features and labels")
