"""From a suite's name of a dataset to the data."""

from pathlib import Path

from parbals.bench.runs import split_reference
from parbals.datasets.base import Data

__all__ = ["load_data"]


def load_data(reference: str, folder: Path | None = None) -> Data:
    """The dataset behind a suite's name for it, from its place in the folder; those of scikit-learn need none.

    "airline"; "ag-news" (the first class against the others), "ag-news:Sports", or "ag-news:*" for all classes.
    """
    from parbals.datasets.base import one_vs_all
    from parbals.datasets.table import load_dataset

    name, positive = split_reference(reference)
    data = load_dataset(name, None if folder is None else folder / name.replace("-", "_"))
    if positive == "*" or (positive is None and len(data.classes) == 2):
        return data
    return one_vs_all(data, 0 if positive is None else positive)
