"""One-hot features of table columns: quantile bins of numbers, one slot for every other value."""

from typing import Any, Literal, Self

import numpy as np
from parbals.features.reading import is_missing
from parbals.features.table import bin_edges

__all__ = ["TabularFeatures"]

_N_BINS = 10


class TabularFeatures:
    """One-hot features of a publisher's table, as the paper makes them.

    A column of numbers becomes ten bins with equally many rows each; one that takes at most ten
    values gets a bin for each. A missing number counts as the column's mean. The first
    ``n_categorical`` columns become one slot for each of their values, missing included, and one
    more for values that come up later. Bins, means and values are those of the rows given to
    ``fit``.

    ``binning``: "values" is as above. "kbins" and "qcut" cut at the quantiles and nowhere else, so
    that rare values are joined and a 0/1 column falls into a single bin. A value on an edge belongs
    to the bin above it with "kbins", as in scikit-learn's ``KBinsDiscretizer``, and to the one
    below with "qcut", as in pandas.
    """

    def __init__(self, n_categorical: int = 0, *, binning: str = "values") -> None:
        self.n_categorical = n_categorical
        self.binning = binning
        self._side: Literal["left", "right"] = "right" if binning == "kbins" else "left"

    def fit(self, table: np.ndarray) -> Self:
        """Learn bins, means and values from the pool (N, columns)."""
        categories, numbers = self._columns(table)
        vocabularies = [
            sorted(set(keys), key=lambda key: (key is None, key or "")) for keys in categories
        ]
        self._slots = [{key: slot for slot, key in enumerate(keys)} for keys in vocabularies]
        self._numbers = [self._bins(column[~np.isnan(column)]) for column in numbers]
        return self

    def transform(self, table: np.ndarray) -> np.ndarray:
        """(N, D) float32: in each row a 1 in one slot of every column."""
        categories, numbers = self._columns(table)
        codes = [
            np.array([slots.get(key, len(slots)) for key in keys], np.intp)
            for keys, slots in zip(categories, self._slots, strict=True)
        ]
        codes += [
            np.searchsorted(edges, np.where(np.isnan(column), mean, column), side=self._side)
            for column, (mean, edges) in zip(numbers, self._numbers, strict=True)
        ]
        widths = [len(slots) + 1 for slots in self._slots]
        widths += [len(edges) + 1 for _, edges in self._numbers]
        features = np.zeros((len(table), sum(widths)), np.float32)
        rows = np.arange(len(table))
        starts = np.cumsum([0, *widths])
        for start, column_codes in zip(starts, codes, strict=False):
            features[rows, start + column_codes] = 1.0
        return features

    def _columns(self, table: np.ndarray) -> tuple[list[list[str | None]], np.ndarray]:
        texts = table[:, : self.n_categorical].T.tolist()
        categories = [[_plain_text(cell) for cell in column] for column in texts]
        return categories, table[:, self.n_categorical :].astype(np.float64).T

    def _bins(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean, and the edges of bins (-∞, e₀], (e₀, e₁], …, (e_last, ∞)."""
        if not len(values):
            return 0.0, np.empty(0)
        edges = bin_edges(values, _N_BINS)
        if self.binning != "values":
            edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, _N_BINS + 1)))[1:-1]
        return float(values.mean()), edges


def _plain_text(cell: Any) -> str | None:
    """One text for 1, 1.0 and "1": missing cells turn a column of integers into floats."""
    if is_missing(cell):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()
